# Apply: the generated calls of step() follow; main_apply runs them between opening and closing the journal.

stopped='|'

report_journal() { # report the journal entries of earlier parts of this run
  for found in "$STATE/journal/$RUN"/[0-9]*; do
    plain "$found/key" || continue
    state=begun
    [ ! -e "$found/done" ] || state=done
    read -r found_key <"$found/key"
    record 0 journal "$state $found_key"
  done
}

fail() { # SEQ REQUIREMENT
  stopped="$stopped$2|"
  record "$1" failed "$reason"
}

flush_soon() {
  [ -z "$owed" ] || [ "$owed" = "$1" ] || flush
  owed=$1
}

step() { # SEQ REQUIREMENT KEY KIND DESCRIPTION ARGUMENTS...
  seq=$1 requirement=$2 key=$3 kind=$4 description=$5
  shift 5
  reason= remark= said= again=
  if [ -n "$gone" ]; then
    record "$seq" skipped 'the run was interrupted'
    return
  fi
  case $stopped in
    *"|$requirement|"*)
      record "$seq" skipped "an earlier step of $requirement failed"
      return
      ;;
  esac
  entry_of "$key"
  # Even if this part of the run wrote no unit files: a killed part may have written some that systemd has not read.
  case $kind in enable_unit | restart_unit) reload=1 && read_units_again ;; esac
  if "so_$kind" "$@"; then
    if [ -n "$entry" ] && [ ! -e "$entry/done" ]; then
      # An earlier part was interrupted after the change, maybe before it noted what undo needs.
      if [ "$kind" = install_packages ] && ! finish_install_packages "$1" late; then
        fail "$seq" "$requirement"
      elif close_entry; then record "$seq" changed; else journal_failed; fail "$seq" "$requirement"; fi
    else
      record "$seq" unchanged
    fi
    return
  fi
  if [ -n "$entry" ]; then
    # A retry writes to the entry and would seal damaged files.
    check_entry || { fail "$seq" "$requirement"; return; }
    # The entry keeps the prior value of the first attempt, which undo must restore.
    rm -f "$entry/done" "$entry/undone"
    again=1
  else
    open_entry "$key" "$kind" "$requirement" "$description" "$@" || { fail "$seq" "$requirement"; return; }
  fi
  [ -z "$remark" ] || record "$seq" note "$remark"
  record "$seq" begin
  if ! "do_$kind" "$@"; then
    fail "$seq" "$requirement"
  elif [ "$kind" = reboot ]; then
    : # this step ends with the next boot
  elif [ "$kind" != restart_unit ] && { [ "$kind" != command ] || [ -n "$4" ]; } && ! "so_$kind" "$@"; then
    fail "$seq" "$requirement"
  elif { [ -z "$again" ] || reseal; } && close_entry; then
    record "$seq" changed
  else
    reason='the change was made, but the journal could not be closed (disk full?)'
    fail "$seq" "$requirement"
  fi
}

left_over() { # SEQ REQUIREMENT...: as step, for a step that only an earlier part of the run required
  for found in "$STATE/journal/$RUN"/[0-9]*; do
    found_requirement=
    ! plain "$found/requirement" || read -r found_requirement <"$found/requirement" || :
    [ "$found_requirement" != "$2" ] || { step "$@"; return; }
  done
  # The requirement has been met by other means since.
  record "$1" unchanged "no step of $2 had begun, and $2 no longer requires this step"
}

main_apply() {
  open_journal || return
  if is_undone "$STATE/journal/$RUN"; then
    record 0 refused "run $RUN has been undone on this node; start a new one"
    return
  fi
  record 0 start "$boot"
  report_journal
  all_steps
  read_units_again
  [ -n "$gone" ] || drop_carried
  [ -z "$owed" ] || flush "$STATE/journal/$RUN"
  free_lock
  [ -z "$booting" ] || boot_now
  [ -n "$gone" ] || record 0 done
}
