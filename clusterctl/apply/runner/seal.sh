# The seal of a journal entry: size and SHA-256 of each of its files, so that undo never restores from a damaged entry.
#
# $entry/seal holds one line per file: "SHA256 SIZE NAME". A tree has "tree" as its size and the sum of its listing.
# "- - NAME" stands there while the runner rewrites that file: a power loss in between must not look like damage.
# An entry without a seal is damaged.

tree_sum() { # PATH: one SHA-256 over types, modes, owners, names, contents and link targets of all files below
  if [ -h "$1" ]; then
    readlink "$1"
  elif [ -d "$1" ]; then
    (
      cd "$1" || exit
      { find . -exec stat -c '%f %u %g %n' {} + && find . -type f -exec sha256sum {} + &&
        find . -type l -exec readlink {} \; || echo "cannot be read: $$"; } | sort
    )
  else
    stat -c '%f %u %g' "$1" && sum <"$1"
  fi | sum
}

sums_in() { # DIRECTORY FILE...: print "SHA256 SIZE FILE" for each; fail unless all could be read
  (
    cd "$1" || exit
    shift
    { stat -c '%s %n' "$@"; sha256sum "$@"; } | awk -v files=$# '
      length($1) == 64 && $2 in size { print $1, size[$2], $2; sums++; next }
      { size[$2] = $1 }
      END { exit sums != files }'
  )
}

seal() { # DIRECTORY ENTRY...: write the seals of new entries in DIRECTORY with one sha256sum call
  (
    cd "$1" || exit
    shift
    for seal_entry; do
      shift
      set -- "$@" "$seal_entry"/*
    done
    seal_lines=$(sums_in . "$@") || exit
    printf '%s\n' "$seal_lines" | while read -r seal_sum seal_size seal_file; do
      printf '%s\n' "$seal_sum $seal_size ${seal_file##*/}" >>"${seal_file%/*}/seal" || exit
    done
  )
}

unseal() { # NAME...: mark these files of $entry as about to be rewritten
  seal_lines=
  while read -r seal_sum seal_size seal_name; do
    case " $* " in *" $seal_name "*) ;; *) seal_lines="$seal_lines$seal_sum $seal_size $seal_name$newline" ;; esac
  done <"$entry/seal"
  for seal_name; do seal_lines="$seal_lines- - $seal_name$newline"; done
  put "$entry/seal" "${seal_lines%"$newline"}"
}

reseal() { # seal the files that unseal left open in $entry, in this process or in a killed one
  seal_lines='' seal_open=
  while read -r seal_sum seal_size seal_name; do
    if [ "$seal_sum" != - ]; then
      seal_lines="$seal_lines$seal_sum $seal_size $seal_name$newline"
      continue
    fi
    seal_open=1
    is_there "$entry/$seal_name" || continue
    if [ "$kind/$seal_name" = put_tree/prior ]; then
      seal_lines="$seal_lines$(tree_sum "$entry/prior") tree prior$newline"
    else
      seal_line=$(sums_in "$entry" "$seal_name" </dev/null) || return 1
      seal_lines="$seal_lines$seal_line$newline"
    fi
  done <"$entry/seal"
  [ -z "$seal_open" ] || put "$entry/seal" "${seal_lines%"$newline"}"
}

read_kind() { # -> $kind; fails for a lost file, which must not be mistaken for an empty one
  kind=
  plain "$entry/kind" && { { read -r kind <"$entry/kind"; } 2>/dev/null || [ -n "$kind" ]; }
}

needed_for() { # KIND -> $needed, the files that its undo requires, and $filled, those that must not be empty
  filled=
  case $1 in
    write_file) needed='wrote' filled='target' ;;
    write_block) needed='wrote' filled='target name' ;;
    write_value) needed='wrote prior' filled='path' ;;
    put_tree) needed='folders wrote' filled='path' ;;
    make_venv) needed='folders' filled='path' ;;
    set_register) needed='wrote identity' filled='device register prior' ;;
    command) needed='undo' filled='seconds' ;;
    load_module) needed='' filled='module' ;;
    enable_unit) needed='enabled active' filled='unit' ;;
    restart_unit) needed='' filled='unit' ;;
    install_packages) needed='' filled='manager' ;;
    reboot) needed='' ;;
    *) return 1 ;;
  esac
  filled="key kind begin $filled"
}

found_damage() { damage="$damage${damage:+; }$1"; } # WHAT

find_damage() { # -> $damage, the damage to $entry, empty if it is intact
  damage=
  read_kind || { found_damage 'kind cannot be read'; return; }
  needed_for "$kind" || { found_damage 'kind is not a kind of step that this version can undo'; return; }
  for seal_name in $needed; do plain "$entry/$seal_name" || found_damage "$seal_name is missing"; done
  for seal_name in $filled; do
    plain "$entry/$seal_name" && [ -s "$entry/$seal_name" ] || found_damage "$seal_name is missing or empty"
  done
  case $kind in
    write_file | write_block) is_there "$entry/prior" || is_there "$entry/absent" ||
      found_damage 'both prior and absent are missing' ;;
  esac
  set --
  for seal_file in "$entry"/*; do
    seal_name=${seal_file##*/}
    case $kind/$seal_name in
      # Marks, and temporary files of packages.sh and files.sh.
      */done | */undone | */*.tmp | */prior.new | */simulated | */all | */there | */comes | put_tree/prior | */seal) ;;
      *)
        if [ -h "$seal_file" ]; then
          found_damage "$seal_name is a symbolic link, not a regular file"
        elif [ ! -f "$seal_file" ]; then
          found_damage "$seal_name is not a regular file"
        else
          set -- "$@" "$seal_name"
        fi
        ;;
    esac
  done
  [ -z "$damage" ] || return 0
  if plain "$entry/seal"; then
    compare_with_seal "$@"
  else
    found_damage 'seal is missing or not a regular file'
  fi
}

compare_with_seal() { # FILE...: of $entry
  seal_said=$(
    cd "$entry" || exit
    {
      [ "$kind" != put_tree ] || ! is_there prior || printf '%s tree prior\n' "$(tree_sum prior)"
      sums_in . "$@"
    } | awk '
      FILENAME == "./seal" {
        if (NF != 3 || $1 !~ /^([0-9a-f]+|-)$/ || $2 !~ /^([0-9]+|tree|-)$/ || $3 !~ /^[a-z-]+$/) torn = 1
        sum[$3] = $1; size[$3] = $2
        next
      }
      !($3 in sum) { bad[$3 " is not recorded in seal"]; next }
      { seen[$3] = 1 }
      sum[$3] == "-" { next }
      size[$3] != $2 { bad[$3 " has " $2 " bytes, " size[$3] " were recorded"]; next }
      sum[$3] != $1 { bad[$3 " does not have the recorded SHA-256"] }
      END {
        if (torn) { print "seal cannot be read"; exit }
        for (name in sum) if (sum[name] != "-" && !(name in seen)) bad[name " is missing or cannot be read"]
        for (what in bad) { printf "%s%s", between, what; between = "; " }
        print (between == "" ? "sound" : "")
      }' ./seal -
  )
  [ "$seal_said" = sound ] || found_damage "${seal_said:-its files cannot be read}"
}

check_entry() { # fail if $entry is damaged, with $reason: the damage and what to do
  damage=
  if [ ! -d "$entry" ] || [ -h "$entry" ]; then
    reason="the step's journal entry cannot be read: $entry is missing or not a directory. Check that its file system is"
    reason="$reason mounted and intact, and undo again. If the entry is lost, restore by hand what the step changed,"
    reason="$reason then: mkdir $entry; touch $entry/undone; and undo again"
    return 1
  fi
  find_damage
  [ -n "$damage" ] || return 0
  seal_target=
  case $damage in *target*) ;; *) kept target; seal_target=$value ;; esac
  reason="the step's journal entry is damaged, and nothing was restored from it: in $entry, $damage."
  reason="$reason Restore ${seal_target:-what the step changed} by hand (from a backup, or from the remaining files),"
  reason="$reason then: touch $entry/undone; and undo again"
  return 1
}

sealed_sum() { # NAME -> $digest, the SHA-256 recorded in the seal of $entry
  digest=
  while read -r seal_sum _ seal_name; do [ "$seal_name" != "$1" ] || digest=$seal_sum; done <"$entry/seal"
}
