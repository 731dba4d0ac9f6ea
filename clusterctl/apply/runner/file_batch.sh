# Several consecutive WriteFile steps: one flush, one stat and one sha256sum for all files, instead of one of each per
# file as in files.sh, because starting programs is most of a step's cost. Undo and resumed runs find the same state on
# disk: every prior value is in the journal before the first file is changed.
#
# All special cases (an earlier attempt, a link, a file with two names, an error) are handled by step().

pick() { # N: set the variables of the N-th file
  eval "seq=\$seq_$1 requirement=\$requirement_$1 key=\$key_$1 description=\$description_$1 target=\$path_$1"
  eval "mode=\$mode_$1 digest=\$digest_$1 text=\$text_$1 state=\$state_$1 number=\$number_$1"
  scratch_for
}

mark() { eval "state_$nth=\$1"; } # waiting, laid (written under a temporary name), moved; empty: finished

next_file() { # STATE: pick the next file in this state; false after the last one, then it restarts from the first
  while [ "$nth" -lt "$files" ]; do
    nth=$((nth + 1))
    pick "$nth"
    [ "$state" != "$1" ] || return 0
  done
  nth=0
  return 1
}

files() { # SEQ REQUIREMENT KEY DESCRIPTION PATH MODE SHA256 CONTENT of each file; all paths differ
  files=0 nth=0
  while [ $# -ge 8 ]; do
    files=$((files + 1))
    eval "seq_$files=\$1 requirement_$files=\$2 key_$files=\$3 description_$files=\$4 path_$files=\$5"
    eval "mode_$files=\$6 digest_$files=\$7 text_$files=\$8 state_$files=waiting number_$files="
    shift 8
  done
  if all_ordinary && compare waiting && journal_all; then write_all; fi
  while next_file waiting; do alone; done
}

alone() {
  mark ''
  eval "step \"\$seq\" \"\$requirement\" \"\$key\" write_file \"\$description\" \"\$path_$nth\" \"\$mode\" \"\$digest\" \"\$text\""
}

all_ordinary() {
  while next_file waiting; do
    entry_of "$key"
    if [ -n "$gone$entry" ] || [ -h "$target" ] || [ -e "$whole" ]; then nth=0; return 1; fi
    if [ -e "$target" ] && [ ! -f "$target" ]; then nth=0; return 1; fi
    case $stopped in *"|$requirement|"*) nth=0; return 1 ;; esac
  done
}

compare() { # STATE: settle the files in this state that have the wanted content and mode
  set -- "$1"
  while next_file "$1"; do [ ! -f "$target" ] || set -- "$@" "$target"; done
  [ $# -gt 1 ] || return 0
  wanted=$1
  shift
  modes=$(stat -c '%a %h' "$@")$newline && sums=$(sha256sum "$@")$newline || return 1
  while next_file "$wanted"; do
    [ -f "$target" ] || continue
    sum=${sums%%"$newline"*} is=${modes%%"$newline"*}
    sums=${sums#*"$newline"} modes=${modes#*"$newline"}
    sum=${sum#\\} # sha256sum prints a backslash before the sum of an escaped name
    # shellcheck disable=SC2154 # pick sets it by eval
    if [ "${is% *}" = "$mode" ] && [ "${sum%% *}" = "$digest" ]; then
      settle
    elif [ "${is#* }" -gt 1 ]; then
      nth=0
      return 1
    fi
  done
}

settle() {
  mark ''
  if [ -z "$number" ]; then
    record "$seq" unchanged
    return
  fi
  entry=$STATE/journal/$RUN/$number
  if close_entry; then record "$seq" changed; else
    reason='the change was made, but the journal could not be closed (disk full?)'
    fail "$seq" "$requirement"
  fi
}

journal_all() {
  nth=0
  next_file waiting || return 0
  nth=0 last=0000 numbers=
  kept_by=$STATE/journal/$RUN
  set --
  if [ -d "$kept_by" ]; then
    hold=$kept_by/.new
    [ ! -e "$hold" ] || rm -rf "$hold"
    for found in "$kept_by"/[0-9]*; do
      [ ! -d "$found" ] || last=${found##*/}
    done
    set -- "$hold"
  else
    # The run's directory appears together with its first entries.
    new_run || return 1
    hold=$new
  fi
  while next_file waiting; do
    last=$((1$last + 1))
    last=${last#1}
    eval "number_$nth=$last"
    numbers="$numbers $last"
    set -- "$@" "$hold/$last"
  done
  if mkdir -m 700 "$@" && note_all && move_entries_in; then return; fi
  # step() finds the entries that have been moved in already.
  nth=0
  rm -rf "$hold"
  return 1
}

move_entries_in() {
  if [ -d "$kept_by" ]; then
    flush "$hold"/*/* "$hold"/* && mv "$hold"/* "$kept_by" && flush "$kept_by" && rmdir "$hold"
  else
    flush "$hold"/*/* "$hold"/* "$hold" && mv "$hold" "$kept_by" && flush "$STATE/journal"
  fi
}

note_all() {
  now
  while next_file waiting; do
    new=$hold/$number
    keep key "$key$newline" && keep kind write_file && keep requirement "$requirement" &&
      keep description "$description" && prior_write_file "$target" "$mode" "$digest" && keep begin "$stamp" || return 1
  done
  # shellcheck disable=SC2086 # one word per entry
  seal "$hold" $numbers && [ -z "$gone" ]
}

write_all() {
  while next_file waiting; do record "$seq" begin; done
  set --
  while next_file waiting; do
    if may_go_on; then
      if lay; then mark laid; set -- "$@" "$scratch"; else alone; fi
    fi
  done
  [ $# = 0 ] || flush "$@"
  # The files written so far precede any step that has failed, so that failure must not stop them.
  failed_before=$stopped stopped='|'
  while next_file laid; do
    if may_go_on; then
      if mv -f "$scratch" "$target"; then
        mark moved
        flush_soon "${target%/*}"
        [ -e "$STATE/journal/$RUN/$number/prior" ] || relabel
        unit_file_changed "$target"
      else
        alone
      fi
    else
      rm -f "$scratch"
    fi
  done
  stopped=$failed_before${stopped#|}
  compare moved || :
  # A file may still differ, for example below a directory with a default ACL: step() writes it again.
  while next_file moved; do alone; done
}

may_go_on() {
  case $gone$stopped in
    1*) record "$seq" skipped 'the run was interrupted' ;;
    *"|$requirement|"*) record "$seq" skipped "an earlier step of $requirement failed" ;;
    *) return 0 ;;
  esac
  mark ''
  return 1
}

lay() { # write the text to $scratch; a plain new file needs no external program
  [ -d "${target%/*}" ] || mkdir -p "${target%/*}" || return 1
  [ ! -e "$scratch" ] && [ ! -h "$scratch" ] || rm -f "$scratch" || return 1
  right=
  umask 077
  if [ ! -e "$target" ]; then
    case $mode in
      644) umask 022; right=1 ;;
      640) umask 026; right=1 ;;
      600) right=1 ;;
    esac
  fi
  set -C
  # shellcheck disable=SC2154 # pick sets it by eval
  printf '%s' "$text" 2>/dev/null >"$scratch"
  laid=$?
  set +C
  umask 022
  if [ "$laid" = 0 ] && { [ ! -e "$target" ] || like "$target"; } && { [ -n "$right" ] || chmod "$mode" "$scratch"; }; then
    return 0
  fi
  rm -f "$scratch"
  return 1
}
