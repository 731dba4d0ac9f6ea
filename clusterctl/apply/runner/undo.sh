# Undo: the steps of one run in reverse order, and the list of what could be undone.

latest_run() { # -> $RUN, the latest run that has not been undone, or empty; fails if the order is damaged
  RUN='' latest=0 doubtful=''
  for found in "$STATE"/journal/*; do
    is_there "$found" && ! is_undone "$found" || continue
    if ! order_of "$found"; then
      [ -d "$found" ] && ! has_entries "$found" || doubtful="$doubtful $found/order"
    elif [ "$found_order" -gt "$latest" ]; then
      latest=$found_order
      RUN=${found##*/}
    elif [ "$found_order" = "$latest" ]; then
      doubtful="$doubtful $found/order"
    fi
  done
  [ -z "$doubtful" ] || {
    record 0 refused "the journal does not show which run is the latest; damaged or missing:$doubtful"
    return 1
  }
}

choose_run() {
  can_check || return
  [ -n "$RUN" ] || latest_run || return
  if [ -z "$RUN" ]; then
    record 0 nothing 'nothing to undo'
    return 1
  fi
  if [ ! -d "$STATE/journal/$RUN" ] || [ -h "$STATE/journal/$RUN" ]; then
    if is_there "$STATE/journal/$RUN"; then
      record 0 refused "the journal of the run is damaged: $STATE/journal/$RUN is not a directory"
      return 1
    fi
    record 0 unknown
    for found in "$STATE"/journal/*; do
      [ ! -d "$found" ] || record 0 known "${found##*/}"
    done
    record 0 nothing "run $RUN changed nothing on this node"
    return 1
  fi
  if is_undone "$STATE/journal/$RUN"; then
    record 0 nothing "run $RUN has already been undone"
    return 1
  fi
}

entries_reversed() { # -> $entries: all from last to first, with restarts at the end; includes missing entries
  entries='' restarts='' number=0000
  for found in "$STATE/journal/$RUN"/[0-9]*; do
    is_there "$found" || continue
    case ${found##*/} in *[!0-9]* | ?????*) continue ;; ????) ;; *) continue ;; esac
    # Entries are numbered without gaps, so a gap is a missing entry.
    while [ "$number" != "${found##*/}" ]; do
      number=$((1$number + 1))
      number=${number#1}
      entry=$STATE/journal/$RUN/$number
      if read_kind && [ "$kind" = restart_unit ]; then restarts="$number $restarts"; else entries="$number $entries"; fi
    done
  done
  entries="$entries$restarts"
}

announce() { # SEQ EVENT: name the step at $entry; names of requirements contain no blanks
  of='' description=
  case $damage in
    *requirement*) ;;
    *) kept requirement; of=$value ;;
  esac
  case $damage in
    *description*) ;;
    *) kept description; description=$value ;;
  esac
  record "$1" "$2" "${of:-unknown} ${description:-step $1 of the run}"
}

list_undo() {
  exec 3>&1 >/dev/null 2>&1 </dev/null
  read_boot
  if is_busy; then
    record 0 refused "$reason"
    return
  fi
  choose_run || return
  record 0 run "$RUN"
  entries_reversed
  later_runs
  for number in $entries; do
    entry=$STATE/journal/$RUN/$number
    ! is_there "$entry/undone" || continue
    if ! check_entry; then
      announce "$number" entry
      record "$number" failed "$reason"
      continue
    fi
    announce "$number" entry
    say_intent
    say_texts
    say_packages
    ! made_again || record "$number" note "$reason"
  done
  record 0 done
}

say_intent() { # record what undo does with the step at $entry, which has been checked: a sign (+ ~ - .) and a sentence
  would=
  "would_$kind"
  record "$number" would "$would"
}

say_texts() { # record the text of a file that will be restored and the one that it has now, for a diff
  [ "$kind" = write_file ] && [ -f "$entry/prior" ] && [ -f "$target" ] || return 0
  for found in "$entry/prior" "$target"; do
    [ "$(stat -L -c %s "$found")" -le 65536 ] || return 0
  done
  record "$number" prior "$(cat "$entry/prior")"
  record "$number" present "$(cat "$target")"
}

say_packages() { # note what undo removes together with the packages of the step at $entry
  [ -f "$entry/brings" ] || return 0
  left_by=$(cut -d ' ' -f 2- "$entry/etc-brought" 2>/dev/null | tr '\n' ' ')
  [ -z "$left_by" ] || record "$number" note "removes their remaining files in /etc, unless changed: $left_by"
  for of_kind in users groups; do
    [ ! -s "$entry/$of_kind-brought" ] || record "$number" note "removes the $of_kind $(tr '\n' ' ' <"$entry/$of_kind-brought")"
  done
}

later_runs() { # -> $later, the directories of later runs that have not been undone
  # A run whose order is damaged counts as a later one.
  later='' own_order=0
  ! order_of "$STATE/journal/$RUN" || own_order=$found_order
  for found in "$STATE"/journal/*; do
    [ -d "$found" ] && [ "${found##*/}" != "$RUN" ] && ! is_undone "$found" || continue
    order_of "$found" && [ "$found_order" -le "$own_order" ] || later="$later ${found##*/}"
  done
}

made_again() { # has a later run made the same change, with something to undo? -> $reason
  [ -n "$later" ] && [ -z "$FORCE" ] || return 1
  case $kind in
    restart_unit | reboot) return 1 ;;
    command) [ -s "$entry/undo" ] || return 1 ;;
  esac
  kept key; own_key=${value%"$newline"}
  made_order=0
  for later_run in $later; do
    order_of "$STATE/journal/$later_run" || found_order=1
    [ "$found_order" -gt "$made_order" ] || continue
    for found in "$STATE/journal/$later_run"/[0-9]*; do
      found_key=
      is_there "$found/undone" || ! plain "$found/key" || read -r found_key <"$found/key" || :
      [ "$found_key" != "$own_key" ] || { made_by=$later_run made_order=$found_order; break; }
    done
  done
  [ "$made_order" != 0 ] || return 1
  reason="run $made_by has made this change since: undo that run first, or use --force to undo this one anyway"
}

undo_step() {
  ! made_again || return 1
  [ "$kind" != restart_unit ] || { reload=1 && read_units_again; }
  "undo_$kind"
}

main_undo() {
  verb=undo
  open_journal || return
  choose_run || return
  record 0 run "$RUN"
  rm -rf "$STATE/journal/$RUN/.new"
  entries_reversed
  later_runs
  left= working='|'
  for number in $entries; do
    entry=$STATE/journal/$RUN/$number
    reason=
    if is_there "$entry/undone"; then # the earlier undo may have been killed before it reloaded systemd
      kept target
      unit_file_changed "$value"
      continue
    fi
    sound=1
    check_entry || sound=
    announce "$number" entry
    seq=$number said=
    if [ -n "$gone" ]; then
      left=1
      record "$number" skipped 'the undo was interrupted'
      continue
    fi
    if [ -n "$sound" ]; then
      case $kind$working in
        restart_unit*) ;;
        *"|$of|"*)
          left=1
          record "$number" skipped "a unit of $of could not be stopped and may depend on this step"
          continue
          ;;
      esac
      if undo_step && [ -z "$gone" ]; then
        now && put "$entry/undone" "$stamp" && record "$number" changed && continue
        journal_failed
      fi
    fi
    left=1
    [ -z "$gone" ] || reason="the undo was interrupted${reason:+ ($reason)}"
    # A running unit depends on the steps before it, such as its packages and files.
    [ -z "$sound" ] || [ "$kind" != enable_unit ] || [ -n "$FORCE" ] || working="$working$of|"
    record "$number" failed "$reason"
  done
  read_units_again
  if [ -z "$left" ]; then
    # Keep one line per step; the copies of old files are no longer needed.
    for found in "$STATE/journal/$RUN"/[0-9]*; do
      [ ! -f "$found/kind" ] || printf '%s %s %s: %s\n' "$(plain "$found/undone" && cat "$found/undone")" "${found##*/}" \
        "$(cat "$found/requirement" 2>/dev/null)" "$(cat "$found/description" 2>/dev/null)"
    done >"$STATE/journal/$RUN/history.new"
    mv -f "$STATE/journal/$RUN/history.new" "$STATE/journal/$RUN/history"
    now
    put "$STATE/journal/$RUN/undone" "$stamp $OPERATOR" &&
      rm -rf "$STATE/journal/$RUN"/[0-9]*
  fi
  drop_carried
  free_lock
  record 0 done
}
