# Undo: the steps of one run in reverse order, and the list of what could be undone.

latest_run() { # -> $RUN, the youngest run that has not been undone; empty when there is none
  RUN=
  latest=0
  for found in "$STATE"/journal/*/order; do
    [ -f "$found" ] || continue
    [ ! -e "${found%/order}/undone" ] || continue
    read -r found_order <"$found" || found_order=0
    if [ "$found_order" -gt "$latest" ]; then
      latest=$found_order
      RUN=${found%/order}
      RUN=${RUN##*/}
    fi
  done
}

choose_run() {
  [ -n "$RUN" ] || latest_run
  if [ -z "$RUN" ]; then
    record 0 nothing 'no run on this node is left to undo'
    return 1
  fi
  if [ ! -d "$STATE/journal/$RUN" ]; then
    record 0 unknown
    for found in "$STATE"/journal/*/order; do
      found=${found%/order}
      [ ! -d "$found" ] || record 0 known "${found##*/}"
    done
    record 0 nothing "run $RUN changed nothing on this node"
    return 1
  fi
  if [ -e "$STATE/journal/$RUN/undone" ]; then
    record 0 nothing "run $RUN has been undone already"
    return 1
  fi
}

entries_reversed() { # -> $entries: all but restarts from last to first, then the restarts
  entries= restarts=
  for found in "$STATE/journal/$RUN"/[0-9]*; do
    [ -d "$found" ] || continue
    case $(cat "$found/kind") in
      restart_unit) restarts="${found##*/} $restarts" ;;
      *) entries="${found##*/} $entries" ;;
    esac
  done
  entries="$entries$restarts"
}

announce() { # SEQ EVENT: name the step at $entry; names of requirements hold no blanks
  record "$1" "$2" "$(cat "$entry/requirement" || echo unknown) $(cat "$entry/description" || echo "step $1 of the run")"
}

read_kind() { # -> $kind; what a lost entry no longer says must not pass for empty text that was there before
  kind=
  { read -r kind <"$entry/kind"; } 2>/dev/null || [ -n "$kind" ] ||
    { reason="its entry in the journal cannot be read: $entry (is its file system mounted, and sound?)"; return 1; }
}

list_undo() {
  exec 3>&1 >/dev/null 2>&1 </dev/null
  choose_run || return
  record 0 run "$RUN"
  entries_reversed
  later_runs
  for number in $entries; do
    entry=$STATE/journal/$RUN/$number
    [ ! -e "$entry/undone" ] || continue
    announce "$number" entry
    say_packages
    ! read_kind || ! made_again || record "$number" note "$reason"
  done
  record 0 done
}

say_packages() { # all that goes with the step at $entry, if packages came with it
  [ -f "$entry/brings" ] || return 0
  [ ! -s "$entry/brings" ] || record "$number" note "removes $(tr '\n' ' ' <"$entry/brings")"
  left_by=$(cut -d ' ' -f 2- "$entry/etc-brought" 2>/dev/null | tr '\n' ' ')
  [ -z "$left_by" ] || record "$number" note "removes what they left in /etc, if it is unchanged: $left_by"
  for of_kind in users groups; do
    [ ! -s "$entry/$of_kind-brought" ] || record "$number" note "removes the $of_kind $(tr '\n' ' ' <"$entry/$of_kind-brought")"
  done
}

later_runs() { # -> $later, the folders of the runs since this one that have not been undone
  later=
  read -r own_order <"$STATE/journal/$RUN/order" || return 0
  for found in "$STATE"/journal/*/order; do
    [ ! -e "${found%/order}/undone" ] && read -r found_order <"$found" || continue
    [ "$found_order" -le "$own_order" ] || later="$later ${found%/order}"
  done
}

made_again() { # by a later run, so that what stands there is that run's? or there is nothing to take back
  [ -n "$later" ] && [ -z "$FORCE" ] || return 1
  case $kind in
    restart_unit | reboot) return 1 ;;
    command) [ -s "$entry/undo" ] || return 1 ;;
  esac
  kept key; own_key=${value%"$newline"}
  made_order=0
  for later_run in $later; do
    read -r found_order <"$later_run/order" && [ "$found_order" -gt "$made_order" ] || continue
    for found in "$later_run"/[0-9]*; do
      found_key=
      [ -e "$found/undone" ] || [ ! -f "$found/key" ] || read -r found_key <"$found/key" || :
      [ "$found_key" != "$own_key" ] || { made_by=${later_run##*/} made_order=$found_order; break; }
    done
  done
  [ "$made_order" != 0 ] || return 1
  reason="run $made_by has made this change since: undo it first, or take it back all the same with --force"
}

undo_step() {
  ! made_again || return 1
  [ "$kind" != restart_unit ] || { reload=1 && read_units_again; }
  "undo_$kind"
}

main_undo() {
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
    if [ -e "$entry/undone" ]; then # by an undo that may have been killed before systemd was told
      kept target
      unit_file_changed "$value"
      continue
    fi
    announce "$number" entry
    seq=$number said=
    if [ -n "$gone" ]; then
      left=1
      record "$number" skipped 'the undo was cut off'
      continue
    fi
    kept requirement; of=$value
    if read_kind; then
      case $kind$working in
        restart_unit*) ;;
        *"|$of|"*)
          left=1
          record "$number" skipped "a unit of $of could not be stopped, and may rest on this"
          continue
          ;;
      esac
      if undo_step && [ -z "$gone" ]; then
        now && put "$entry/undone" "$stamp" && record "$number" changed && continue
        reason='the journal cannot be written'
      fi
    fi
    left=1
    [ -z "$gone" ] || reason="the undo was cut off${reason:+ ($reason)}"
    # What runs rests on what came before it: its packages, its files.
    [ "$kind" != enable_unit ] || [ -n "$FORCE" ] || working="$working$of|"
    record "$number" failed "$reason"
  done
  read_units_again
  if [ -z "$left" ]; then
    # Keep one line per step; the copies of old files are no longer needed.
    for found in "$STATE/journal/$RUN"/[0-9]*; do
      [ ! -f "$found/kind" ] || printf '%s %s %s: %s\n' "$(cat "$found/undone")" "${found##*/}" \
        "$(cat "$found/requirement")" "$(cat "$found/description")"
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
