# The node's journal: the prior state of each change, written and flushed before the change is made.
#
# POSIX sh (dash, busybox ash, bash). The controller puts NONCE, STATE, RUN, OPERATOR, FORCE,
# FORCE_REBOOT, CONTROLLER_BOOT, BOOTED_FROM and LOCK_WAIT before this text.
# Every line for the controller is "@NONCE SEQ EVENT DETAIL" on descriptor 3; all other output is discarded. DETAIL is
# BASE64, or one plain word after "=", which needs no external program.
#
#   $STATE/lock                    "pid start-time boot-id run operator verb" of the active runner
#   $STATE/journal/RUN/order       runs of this node counted from 1: the number, then a check line "number RUN"
#   $STATE/journal/RUN/NNNN/       one step: key kind requirement description, what undo needs, begin, seal (seal.sh), done, undone
#   $STATE/carried/RUN/            packages copied for the run, removed when the run has ended
#   $STATE/journal/RUN/history     one line per step once the run has been undone
#
# A step's directory is filled under a temporary name, flushed, and renamed: a numbered directory has its prior value.

LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
DEBIAN_FRONTEND=noninteractive
# Ubuntu's needrestart restarts, after each installation, all services that use a replaced library, even during jobs.
# Its old versions support only NEEDRESTART_MODE, where "l" means list.
NEEDRESTART_SUSPEND=1
NEEDRESTART_MODE=l
export LC_ALL PATH DEBIAN_FRONTEND NEEDRESTART_SUSPEND NEEDRESTART_MODE
umask 022

gone=       # the controller is disconnected: stop before the next step
reason=     # why the current step failed
entry=      # the journal directory of the current step
said=       # the output of the last tool that failed
remark=     # a note on the current step that is not a failure
reload=     # systemd must read its unit files again
again=      # the current step has been tried before
owed=       # a directory to flush together with the next flush
locked=
verb=bootstrap
newline='
'

plain() { [ -f "$1" ] && [ ! -h "$1" ]; } # FILE: a regular file, not a link to one

is_there() { [ -e "$1" ] || [ -h "$1" ]; } # PATH: true for a dangling link as well

record() { # SEQ EVENT [DETAIL]
  case ${3-} in
    '') record_detail= ;;
    *[!A-Za-z0-9._-]*) record_detail=$(printf '%s' "$3" | base64 | tr -d '\n') ;;
    *) record_detail="=$3" ;;
  esac
  printf '@%s %s %s %s\n' "$NONCE" "$1" "$2" "$record_detail" >&3 2>/dev/null || gone=1
}

# Old versions of sync accept no operands and flush everything, which is slower but equally safe.
flush() {
  [ -z "$owed" ] || set -- "$@" "$owed"
  owed=
  sync "$@" 2>/dev/null || sync
}

# Apply may delay this flush (apply.sh), because a change lost in a power failure is made again. Undo must not: what it
# restores must be on disk before its mark.
flush_soon() { flush "$1"; }

now() { # -> $stamp: the start of the run and the seconds since, without an external program
  read -r stamp _ </proc/uptime || stamp=$up
  stamp="$began +$((${stamp%.*} - ${up%.*})) s"
}

put() { # FILE TEXT: replace a file of the journal atomically
  printf '%s\n' "$2" 2>/dev/null >"$1.tmp" && flush "$1.tmp" && mv -f "$1.tmp" "$1" && flush "${1%/*}"
}

# The reason of a failure, also for what succeeds and then cannot be noted.
journal_failed() { reason="the journal in $STATE cannot be written (disk full or read-only?)"; }

keep() { printf '%s' "$2" >"$new/$1"; }

kept() { # NAME -> $value, including trailing newlines
  value=$(plain "$entry/$1" && cat "$entry/$1" 2>/dev/null && printf x) || value=
  value=${value%x}
}

claim() { # TEXT: note, before a retry, what this run will write; open_entry notes the text of the first attempt
  [ -z "$again" ] || ours "$1" || {
    claimed="$value${value:+$newline}$1"
    unseal wrote && put "$entry/wrote" "$claimed" && reseal
  } || { journal_failed; return 1; }
}

ours() { # TEXT: did this run write it, in this or an earlier attempt? -> $value, all that it wrote
  kept wrote
  value=${value%
}
  case "
$value
" in *"
$1
"*) return 0 ;; esac
  return 1
}

limit() { # SECONDS COMMAND...
  if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift; "$@"; fi
}

logged() { # COMMAND...: run without input; on failure $reason contains the end of its output
  "$@" >"$STATE/output" 2>&1 </dev/null 3>&- && return 0
  logged_status=$?
  reason=$(tail -c 1500 "$STATE/output")
  [ -n "$reason" ] || reason='no output'
  # timeout of coreutils exits with 124; that of busybox passes the signal on.
  case $logged_status in 124 | 143) reason="time limit exceeded: $reason" ;; esac
  reason="exit status $logged_status: $reason"
  return 1
}

started_of() { # PID -> $started, its start in clock ticks since boot
  started=
  { read -r started <"/proc/$1/stat"; } 2>/dev/null
  started=${started##*) }
  # shellcheck disable=SC2086 # the fields of the file
  set -- $started
  started=${20-}
  # A zombie is not active; a container's first process may never reap it.
  [ "${1-}" != Z ] || started=
}

lock_is_stale() {
  is_there "$STATE/lock" || return 1
  plain "$STATE/lock" || return 0 # a pipe would hold this process up
  held_by=$(cat "$STATE/lock" 2>/dev/null) || return 1
  # shellcheck disable=SC2086 # the fields of the lock
  set -- $held_by
  [ $# -ge 3 ] || return 0
  [ "$3" = "$boot" ] || return 0
  started_of "$1"
  [ "$started" != "$2" ]
}

read_boot() { { read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null || boot=unknown; } # -> $boot, the boot ID

is_busy() { # -> $reason, if another run works on this node
  # Only a lock that stays as it is counts: a run that ends now removes it.
  [ -e "$STATE/lock" ] && ! lock_is_stale && [ -n "${held_by-}" ] || return 1
  # shellcheck disable=SC2086 # the fields of the lock
  set -- $held_by
  since=$(($(date +%s) - $(stat -c %Y "$STATE/lock" 2>/dev/null || date +%s))) unit=s
  [ "$since" -lt 120 ] || { since=$((since / 60)) unit=min; }
  reason="busy: ${6-bootstrap} of ${5-unknown} since $since $unit (run ${4-unknown}, process $1)"
}

report_busy() { # refuse as an apply would, without changing anything
  exec 3>&1 >/dev/null 2>&1 </dev/null
  read_boot
  if is_busy; then record 0 refused "$reason"; else record 0 done; fi
}

take_lock() {
  started_of "$$"
  # The shell's built-in printf does not report the cause of an error, so cat repeats a failed write.
  if ! printf '%s\n' "$$ $started $boot $RUN $OPERATOR $verb" 2>/dev/null >"$STATE/lock.$$" &&
    ! said=$({ printf '%s\n' "$$ $started $boot $RUN $OPERATOR $verb" | cat >"$STATE/lock.$$"; } 2>&1); then
    rm -f "$STATE/lock.$$"
    return 2
  fi
  if ! ln "$STATE/lock.$$" "$STATE/lock" 2>/dev/null && lock_is_stale; then
    # One runner at a time may clear a stale lock, or two could each remove the other's fresh one.
    takeover=$STATE/lock.takeover.$boot # the boot ID distinguishes one left by a power loss, even if the clock is wrong
    find "$STATE" -maxdepth 1 -name 'lock.takeover*' ! -name "${takeover##*/}" -exec rmdir {} \; 2>/dev/null
    find "$takeover" -maxdepth 0 -mmin +1 -exec rmdir {} \; 2>/dev/null
    if mkdir "$takeover" 2>/dev/null; then
      if lock_is_stale; then rm -f "$STATE/lock"; fi
      ln "$STATE/lock.$$" "$STATE/lock" 2>/dev/null
      rmdir "$takeover"
    fi
  fi
  rm -f "$STATE/lock.$$" "$STATE/journal/.writable"
  plain "$STATE/lock" && read -r held_pid _ <"$STATE/lock" && [ "$held_pid" = "$$" ] && locked=1
}

free_lock() {
  [ -z "$locked" ] || rm -f "$STATE/lock" "$STATE/output"
  locked=
}

open_journal() { # create the state directory and take the lock, or record why not
  exec 3>&1 >/dev/null 2>&1 </dev/null
  trap : PIPE
  trap 'gone=1' HUP INT TERM
  trap free_lock EXIT
  if [ ! -w "${STATE%/*}" ] && [ "$(id -u)" != 0 ]; then
    record 0 refused "the journal below $STATE needs root"
    return 1
  fi
  [ -d "$STATE/journal" ] || mkdir -m 700 "$STATE" "$STATE/journal" 2>/dev/null ||
    for made in "$STATE" "$STATE/journal"; do
      # shellcheck disable=SC2174 # the directories above are the node's own
      [ -d "$made" ] || said=$(mkdir -p -m 700 "$made" 2>&1)
    done
  if [ ! -d "$STATE/journal" ] ||
    { ! printf '' 2>/dev/null >"$STATE/journal/.writable" && ! said=$(touch "$STATE/journal/.writable" 2>&1); }; then
    record 0 refused "the journal below $STATE cannot be written: $said"
    return 1
  fi
  can_check || return 1
  read_boot
  { read -r host </proc/sys/kernel/hostname; } 2>/dev/null || host=
  host=${host%%[!A-Za-z0-9-]*}
  read -r up _ </proc/uptime
  began=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  take_lock
  case $? in
    0) return 0 ;;
    2) record 0 refused "the journal below $STATE cannot be written: $said" ;;
    *)
      is_busy || reason='busy: another run has just ended'
      record 0 refused "$reason"
      ;;
  esac
  return 1
}

can_check() {
  command -v sha256sum >/dev/null 2>&1 && return 0
  record 0 refused 'sha256sum is not installed on the node; the journal needs it to detect damage'
  return 1
}

entry_of() { # KEY -> $entry, or empty
  entry=
  for found in "$STATE/journal/$RUN"/[0-9]*; do
    found_key=
    ! plain "$found/key" || read -r found_key <"$found/key" || :
    [ "$found_key" != "$1" ] || { entry=$found; return; }
  done
}

order_of() { # RUN'S DIRECTORY -> $found_order; fails if its place in the order of runs is not reliable
  found_order='' order_check='' order_rest=
  plain "$1/order" || return 1
  { read -r found_order && read -r order_check && { ! read -r order_rest; }; } 2>/dev/null <"$1/order" &&
    [ -z "$order_rest" ] || return 1
  case $found_order in '' | 0* | *[!0-9]* | ??????????*) return 1 ;; esac
  [ "$order_check" = "$found_order ${1##*/}" ]
}

has_entries() { # RUN'S DIRECTORY
  for has_entry in "$1"/[0-9]*; do is_there "$has_entry" && return 0; done
  return 1
}

is_undone() { # RUN'S DIRECTORY
  is_there "$1/undone" || { is_there "$1/history" && ! has_entries "$1"; }
}

new_run() { # -> $new, the run's directory under a temporary name, with its place in the order of runs
  order=0 count=0
  for found in "$STATE"/journal/*; do
    [ -d "$found" ] || continue
    count=$((count + 1))
    ! order_of "$found" || [ "$found_order" -le "$order" ] || order=$found_order
  done
  # Follow runs with a damaged number as well.
  [ "$order" -ge "$count" ] || order=$count
  new=$STATE/journal/.new
  [ ! -e "$new" ] || rm -rf "$new"
  mkdir -m 700 "$new" && keep order "$((order + 1))
$((order + 1)) $RUN
" && keep operator "$OPERATOR" && keep time "$began"
}

open_run() {
  [ ! -d "$STATE/journal/$RUN" ] || return 0
  new_run && flush "$new"/* "$new" && mv "$new" "$STATE/journal/$RUN" && flush "$STATE/journal"
}

open_entry() { # KEY KIND REQUIREMENT DESCRIPTION ARGUMENTS...: write the prior value to the journal before any change
  journal_failed
  open_run || return 1
  last=0000
  for found in "$STATE/journal/$RUN"/[0-9]*; do
    [ ! -d "$found" ] || last=${found##*/}
  done
  number=$((1$last + 1))
  number=${number#1}
  new=$STATE/journal/$RUN/.new
  [ ! -e "$new" ] || rm -rf "$new"
  mkdir -m 700 "$new" && keep key "$1
" && keep kind "$2" && keep requirement "$3" && keep description "$4" || return 1
  open_kind=$2
  shift 4
  "prior_$open_kind" "$@" || return 1
  # The signal that ends this run may also have ended a tool, whose incomplete output must not be used.
  [ -z "$gone" ] || { reason='the run was interrupted'; return 1; }
  journal_failed
  now
  keep begin "$stamp" && seal "${new%/*}" "${new##*/}" && flush "$new"/* "$new" &&
    mv "$new" "$STATE/journal/$RUN/$number" && flush "$STATE/journal/$RUN" || return 1
  entry=$STATE/journal/$RUN/$number
  reason=
}

close_entry() { # a power loss may remove the mark; then a later part of the run checks and marks the entry again
  now
  { printf '%s\n' "$stamp" >"$entry/done"; } 2>/dev/null
}

read_units_again() {
  [ -n "$reload" ] || return 0
  reload=
  ! command -v systemctl >/dev/null 2>&1 || limit 180 systemctl daemon-reload </dev/null 3>&-
}
