# Steps that change files: WriteFile, WriteValue, PutTree (blocks.sh: WriteBlock). Functions for each kind: so_ (is the
# target state reached?), prior_ (writes what undo needs to the journal), do_, and undo_ (reads the journal only; safe to
# repeat).

sum() { set -- "$(sha256sum)"; printf '%s' "${1%% *}"; }

sum_of() { [ ! -f "$1" ] || sum <"$1"; }

real_path() { # PATH -> $target: a link's file is changed, not the link
  target=$1
  [ ! -h "$1" ] || target=$(readlink -f "$1") || { reason="$1 is a dangling link"; return 1; }
}

scratch_for() { # $target -> $scratch and $whole, names in the same directory that a later attempt finds again; $held, by
  # which the file is read and written in place, and $final, by which it is replaced or removed (others: theirs.sh)
  # Nodes that share a home may change the same file at the same time, so the name includes the host.
  scratch=${target%/*}/.${target##*/}.clusterctl-new${host:+-$host}
  whole=${target%/*}/.${target##*/}.clusterctl-whole
  held=$target final=$target
}

unit_file_changed() { case $1 in */systemd/*) reload=1 ;; esac; }

because() { # WHAT: $reason with the failed tool's output, and the file flag that explains "Operation not permitted"
  reason="$1${said:+: $said}"
  # The shell's built-in printf reports only "I/O error".
  [ "$(df -P "${target%/*}" | awk 'NR == 2 { print $4 }')" != 0 ] || reason="$reason; no space is left there"
  flags=$(lsattr -d "$target" 2>/dev/null) || flags=
  case ${flags%% *} in
    *i*) reason="$reason; the file is immutable (chattr +i)" ;;
    *a*) reason="$reason; the file may only be appended to (chattr +a)" ;;
  esac
}

fill() { # COMMAND...: write its output to $scratch, a new file that no other user can read or create first
  said=$({
    [ ! -e "$scratch" ] && [ ! -h "$scratch" ] || rm -f "$scratch"
    umask 077
    set -C
    "$@" >"$scratch"
  } 2>&1) || { rm -f "$scratch"; return 1; }
}

like() { # FROM: give $scratch its owner, mode, ACL, extended attributes and SELinux label
  if ! cp -a --attributes-only "$1" "$scratch" 2>/dev/null; then # busybox does not support this option
    chown "$(stat -c %u:%g "$1")" "$scratch" && chmod "$(stat -c %a "$1")" "$scratch" || return 1
    [ ! -e /sys/fs/selinux/enforce ] || chcon --reference="$1" "$scratch"
  fi
  touch "$scratch"
}

relabel() { [ ! -e /sys/fs/selinux/enforce ] || restorecon "$target"; } # for a new file

move_in() { # replace $target by $scratch durably
  flush "$scratch" || return 1
  links=1
  [ ! -f "$held" ] || links=$(stat -c %h "$held") || return 1
  [ "$held" = "$target" ] || links=$((links - 1)) # without $held itself
  if [ "$links" -gt 1 ]; then
    # The file has other hard links, which would keep the old content after a rename.
    mv -f "$scratch" "$whole" && flush "${target%/*}" && { finish_torn || { not_torn; return 1; }; }
  elif [ "$held" = "$target" ]; then
    said=$(mv -f "$scratch" "$target" 2>&1) && flush_soon "${target%/*}"
  else
    # -T: $final may have become a link to a directory.
    said=$(mv -fT "$scratch" "$final" 2>&1) && flush_soon "${target%/*}"
  fi
}

finish_torn() { # complete an in-place change that a crash may have interrupted: $whole is the new file
  [ -f "$whole" ] || return 0
  said=$({ cat "$whole" >"$held" && chown "$(stat -c %u:%g "$whole")" "$held" &&
    chmod "$(stat -c %a "$whole")" "$held" && touch -r "$whole" "$held"; } 2>&1) || return 1
  flush "$held" && rm -f "$whole"
}

not_torn() { # restore the old text after the disk was full during finish_torn: that text had fitted before
  [ -f "$entry/prior" ] && cat "$entry/prior" >"$held" && touch -r "$entry/prior" "$held" && flush "$held" &&
    rm -f "$whole"
}

so_write_file() { # PATH MODE SHA256 CONTENT [MADE-FROM]
  real_path "$1" || return 1
  scratch_for
  [ ! -f "$whole" ] || return 1
  [ -f "$target" ] && [ "$(stat -c %a "$target")" = "$2" ] && [ "$(sum_of "$target")" = "$3" ] || return 1
  # An earlier part of this run may have been killed before systemd read the file that it wrote.
  [ -z "$entry" ] || unit_file_changed "$target"
}

prior_write_file() {
  real_path "$1" || return 1
  reason="$target is not a regular file"
  [ ! -e "$target" ] || [ -f "$target" ] || return 1
  reason="$target cannot be copied into the journal"
  keep target "$target" && keep wrote "$3
" || return 1
  if [ -e "$target" ]; then
    cp -a "$target" "$new/prior" || return 1
  else
    missing_folders "${target%/*}" && keep folders "$missing" && keep absent '' || return 1
  fi
  [ -z "${5-}" ] || [ "$(cat "$new/prior" 2>/dev/null | tr -d ' \t\r\n\f\v' | sum)" = "$5" ] || {
    reason="$target was changed after its facts were gathered and is left unchanged; run again to plan from its new text"
    return 1
  }
}

left_alone_since() { # SHA256: fail with $reason if another program changed $target since this run journalled it
  [ -e "$target" ] || return 0
  found=$(sum_of "$target")
  [ "$found" != "$1" ] && ! ours "$found" || return 0
  [ ! -e "$entry/prior" ] || [ "$found" != "$(sum_of "$entry/prior")" ] || return 0
  reason="$target was changed by another program during this run and is left unchanged; start a new run"
  return 1
}

missing_folders() { # FOLDER -> $missing, deepest first, one per line
  missing=
  folder=$1
  while [ -n "$folder" ] && [ ! -d "$folder" ]; do
    missing="$missing$folder
"
    folder=${folder%/*}
  done
}

make_folder() { # the directory of $target, or $reason
  [ -d "${target%/*}" ] || said=$(mkdir -p "${target%/*}" 2>&1) || { because "cannot create ${target%/*}"; return 1; }
}

do_write_file() {
  real_path "$1" || return 1
  scratch_for
  make_folder || return 1
  finish_torn
  left_alone_since "$3" && claim "$3" || return 1
  if ! fill printf '%s' "$4" || { [ -e "$target" ] && ! like "$target"; } || ! chmod "$2" "$scratch" || ! move_in; then
    because "cannot write $target"
    rm -f "$scratch"
    return 1
  fi
  [ -e "$entry/prior" ] || relabel
  unit_file_changed "$target"
  reason="$target does not contain what was written to it"
}

remove_folders() { # remove the directories that this step created, if they are empty
  [ ! -f "$entry/folders" ] || while read -r folder; do
    [ -z "$folder" ] || rmdir "$folder"
  done <"$entry/folders"
  return 0
}

would_write_file() {
  kept target; target=$value
  if [ -e "$entry/absent" ]; then
    would="- remove $target"
  else
    would="~ restore $target ($(stat -c '%a %U' "$entry/prior"))"
  fi
}

undo_write_file() {
  kept target; target=$value
  scratch_for
  rm -f "$scratch"
  finish_torn
  now=$(sum_of "$target")
  if [ -e "$entry/absent" ]; then
    if [ -e "$target" ] || [ -h "$target" ]; then
      if ! ours "$now" && [ -z "$FORCE" ]; then
        reason="$target was changed since; use --force to remove it anyway"
        return 1
      fi
      said=$(rm -f "$target" 2>&1) && flush "${target%/*}" || { because "cannot remove $target"; return 1; }
      unit_file_changed "$target"
    fi
    remove_folders
    return 0
  fi
  if ! ours "$now"; then
    [ "$now" != "$(sum_of "$entry/prior")" ] || return 0
    [ -n "$FORCE" ] || { reason="$target was changed since; use --force to restore it anyway"; return 1; }
  fi
  make_folder || return 1
  put_back || return 1
  unit_file_changed "$target"
}

put_back() { # restore $target from $entry/prior and compare the result with the recorded sum
  sealed_sum prior
  if said=$(cp -a "$entry/prior" "$scratch" 2>&1); then
    plain "$scratch" && [ "$(sum_of "$scratch")" = "$digest" ] || {
      rm -f "$scratch"
      reason="$target is left unchanged: $entry/prior changed while it was read; check its disk"
      return 1
    }
    if move_in; then
      [ "$(sum_of "$final")" != "$digest" ] || return 0
      reason="$target differs from the recorded $entry/prior after it was restored; check its disk"
      return 1
    fi
  fi
  because "cannot restore $target"
  rm -f "$scratch"
  return 1
}

so_write_value() { # PATH VALUE PRIOR
  [ "$(cat "$1")" = "$2" ]
}

prior_write_value() {
  prior=$(cat "$1") || { reason="$1 cannot be read"; return 1; }
  [ "$prior" = "$3" ] || remark="$1 changed after planning: it held '$prior', not '$3'"
  keep path "$1" && keep wrote "$2
" && keep prior "$prior"
}

do_write_value() {
  claim "$2" || return 1
  # The shell itself writes, because no signal can end it between opening and writing; cat reports the cause of an error.
  printf '%s\n' "$2" 2>/dev/null >"$1" || said=$({ printf '%s\n' "$2" | cat >"$1"; } 2>&1) ||
    { reason="$1 rejects '$2'${said:+: $said}"; return 1; }
  reason="$1 reads '$(cat "$1")' after '$2' was written"
}

would_write_value() {
  kept path; would=$value
  kept prior
  case $value in
    *[![:space:]]*) would="~ write $value to $would" ;;
    *) would="~ clear $would" ;;
  esac
}

undo_write_value() {
  kept path; path=$value
  kept prior; prior=$value
  now=$(cat "$path") || { [ -e "$path" ] && reason="$path cannot be read" && return 1; return 0; }
  [ "$now" != "$prior" ] || return 0
  if ! ours "$now" && [ -z "$FORCE" ]; then
    reason="$path holds '$now', which this run did not write; use --force to restore '$prior' anyway"
    return 1
  fi
  printf '%s\n' "$prior" >"$path"
  [ "$(cat "$path")" = "$prior" ] || { reason="$path rejects '$prior'"; return 1; }
}

# A tree is renamed as a whole before it is removed or put in place, so that undo can identify its writer by its mark.
so_put_tree() { # PATH SHA256 PAYLOAD
  [ -f "$1/.clusterctl-tree" ] && [ "$(cat "$1/.clusterctl-tree")" = "$2" ] && ! is_there "$1.clusterctl-old"
}

prior_put_tree() {
  missing_folders "${1%/*}"
  keep path "$1" && keep wrote "$2
" && keep folders "$missing" || return 1
  ! is_there "$1" || keep existed ''
}

do_put_tree() {
  if [ -n "$again" ] && is_there "$1" && ! is_our_tree "$1" && { [ ! -e "$entry/existed" ] || is_there "$entry/prior"; } &&
    ! diff -r "$entry/prior" "$1"; then
    reason="$1 was created by another program during this run and is left unchanged; start a new run"
    return 1
  fi
  claim "$2" || return 1
  reason="cannot unpack below ${1%/*} (disk full or read-only?)"
  unpack_beside "$@" && keep_old_tree "$1" && put_in_place "$1" && return 0
  # The disk may be full, so remove the incomplete tree.
  rm -rf "$1.clusterctl-new" "$entry/prior.new"
  return 1
}

unpack_beside() { # PATH SHA256 PAYLOAD
  mkdir -p "${1%/*}" && rm -rf "$1.clusterctl-new" && mkdir "$1.clusterctl-new" &&
    "$3" | base64 -d | tar -xzf - -C "$1.clusterctl-new" && printf '%s\n' "$2" >"$1.clusterctl-new/.clusterctl-tree"
}

keep_old_tree() { # PATH: copy it into the journal, which may be on another file system, before the change
  [ -e "$entry/existed" ] || return 0
  if ! is_there "$entry/prior"; then
    rm -rf "$entry/prior.new" && cp -a "$1" "$entry/prior.new" && unseal prior && sync &&
      mv "$entry/prior.new" "$entry/prior" && flush "$entry" || return 1
  fi
  reseal
}

put_in_place() { # PATH: replace it by the tree unpacked next to it
  sync && put_aside "$1" && mv "$1.clusterctl-new" "$1" && rm -rf "$1.clusterctl-old" && sync
}

put_aside() { rm -rf "$1.clusterctl-old" && { ! is_there "$1" || mv "$1" "$1.clusterctl-old"; }; } # PATH

is_our_tree() { [ -f "$1/.clusterctl-tree" ] && ours "$(cat "$1/.clusterctl-tree")"; } # PATH

would_put_tree() {
  kept path
  if [ -e "$entry/existed" ]; then would="~ restore the directory $value"; else would="- remove the directory $value"; fi
}

undo_put_tree() {
  kept path; path=$value
  reason="cannot remove $path"
  rm -rf "$path.clusterctl-new" || return 1
  # Without a copy in the journal, the old tree has not been changed.
  [ ! -e "$entry/existed" ] || is_there "$entry/prior" || return 0
  rm -rf "$path.clusterctl-old" || return 1
  if is_there "$path" && ! is_our_tree "$path"; then
    ! is_there "$entry/prior" || ! diff -r "$entry/prior" "$path" || return 0
    [ -n "$FORCE" ] || { reason="$path is not the tree that this run wrote; use --force to remove it anyway"; return 1; }
  fi
  if [ -e "$entry/existed" ]; then
    cp -a "$entry/prior" "$path.clusterctl-new" && put_in_place "$path" || return 1
    sealed_sum prior
    # A run killed before the copy was sealed recorded no sum to compare with.
    [ "$digest" != - ] || return 0
    [ "$(tree_sum "$path")" != "$digest" ] || return 0
    reason="$path differs from the recorded $entry/prior after it was restored; check its disk"
    return 1
  fi
  put_aside "$path" && rm -rf "$path.clusterctl-old" && flush || return 1
  remove_folders
}
