# Steps that change files: WriteFile, WriteValue, PutTree. For each kind: so_ (is it so already?), prior_ (put into
# the journal what undo needs), do_, and undo_ (reads the journal only; safe to repeat).

sum() { set -- "$(sha256sum)"; printf '%s' "${1%% *}"; }

sum_of() { [ ! -f "$1" ] || sum <"$1"; }

real_path() { # PATH -> $target: a link's file is changed, not the link
  target=$1
  [ ! -h "$1" ] || target=$(readlink -f "$1") || target=$1
}

scratch_for() { # $target -> $scratch, a name beside it that a later try finds again
  scratch=${target%/*}/.${target##*/}.clusterctl-new
}

unit_file_changed() { case $1 in */systemd/*) reload=1 ;; esac; }

move_in() { # put $scratch in $target's place, durably
  flush "$scratch" && mv -f "$scratch" "$target" && flush "${target%/*}"
}

so_write_file() { # PATH MODE SHA256 CONTENT
  real_path "$1"
  [ -f "$target" ] && [ "$(stat -c %a "$target")" = "$2" ] && [ "$(sum_of "$target")" = "$3" ] || return 1
  # Written by an earlier part of this run, which may have been killed before systemd read it.
  [ -z "$entry" ] || unit_file_changed "$target"
}

prior_write_file() {
  real_path "$1"
  reason="$target is not a plain file"
  [ ! -e "$target" ] || [ -f "$target" ] || return 1
  reason="$target cannot be copied into the journal"
  keep target "$target" && keep wrote "$3" || return 1
  if [ -e "$target" ]; then
    cp -a "$target" "$new/prior"
  else
    missing_folders "${target%/*}" && keep folders "$missing" && keep absent ''
  fi
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

do_write_file() {
  real_path "$1"
  scratch_for
  folder=${target%/*}
  [ -d "$folder" ] || mkdir -p "$folder" || { reason="cannot make $folder"; return 1; }
  reason="cannot write $target (disk full, read-only or immutable?)"
  printf '%s' "$4" >"$scratch" && chmod "$2" "$scratch" || { rm -f "$scratch"; return 1; }
  if [ -e "$target" ]; then
    chown "$(stat -c %u:%g "$target")" "$scratch"
    [ ! -e /sys/fs/selinux/enforce ] || chcon --reference="$target" "$scratch"
  fi
  move_in || { rm -f "$scratch"; return 1; }
  [ ! -e /sys/fs/selinux/enforce ] || [ -e "$entry/prior" ] || restorecon "$target"
  unit_file_changed "$target"
  reason="$target does not hold what was written to it"
}

undo_write_file() {
  kept target; target=$value
  kept wrote; wrote=$value
  scratch_for
  rm -f "$scratch"
  now=$(sum_of "$target")
  if [ -e "$entry/absent" ]; then
    if [ -e "$target" ] || [ -h "$target" ]; then
      if [ "$now" != "$wrote" ] && [ -z "$FORCE" ]; then
        reason="$target was changed since; --force removes it all the same"
        return 1
      fi
      rm -f "$target" && flush "${target%/*}" || { reason="cannot remove $target"; return 1; }
      unit_file_changed "$target"
    fi
    # Only folders that this step made, and only when nothing else has come to live in them.
    [ ! -f "$entry/folders" ] || while read -r folder; do
      [ -z "$folder" ] || rmdir "$folder"
    done <"$entry/folders"
    return 0
  fi
  if [ "$now" != "$wrote" ]; then
    [ "$now" != "$(sum_of "$entry/prior")" ] || return 0
    [ -n "$FORCE" ] || { reason="$target was changed since; --force restores it all the same"; return 1; }
  fi
  [ -d "${target%/*}" ] || mkdir -p "${target%/*}"
  cp -a "$entry/prior" "$scratch" && move_in || { rm -f "$scratch"; reason="cannot restore $target"; return 1; }
  unit_file_changed "$target"
}

so_write_value() { # PATH VALUE PRIOR
  [ "$(cat "$1")" = "$2" ]
}

prior_write_value() {
  prior=$(cat "$1") || { reason="$1 cannot be read"; return 1; }
  [ "$prior" = "$3" ] || remark="$1 held '$prior', not '$3' as when the plan was made"
  keep path "$1" && keep wrote "$2" && keep prior "$prior"
}

do_write_value() {
  printf '%s\n' "$2" >"$1" || { reason="$1 refuses '$2'"; return 1; }
  reason="$1 reads '$(cat "$1")' after '$2' was written"
}

undo_write_value() {
  kept path; path=$value
  kept wrote; wrote=$value
  kept prior; prior=$value
  now=$(cat "$path") || { [ -e "$path" ] && reason="$path cannot be read" && return 1; return 0; }
  [ "$now" != "$prior" ] || return 0
  if [ "$now" != "$wrote" ] && [ -z "$FORCE" ]; then
    reason="$path holds '$now', which this run did not write; --force restores '$prior' all the same"
    return 1
  fi
  printf '%s\n' "$prior" >"$path"
  [ "$(cat "$path")" = "$prior" ] || { reason="$path refuses '$prior'"; return 1; }
}

so_put_tree() { # PATH SHA256 PAYLOAD
  [ -f "$1/.clusterctl-tree" ] && [ "$(cat "$1/.clusterctl-tree")" = "$2" ]
}

prior_put_tree() {
  missing_folders "${1%/*}"
  keep path "$1" && keep folders "$missing" || return 1
  [ ! -e "$1" ] || keep existed ''
}

do_put_tree() {
  reason="cannot unpack below ${1%/*} (disk full or read-only?)"
  mkdir -p "${1%/*}" && rm -rf "$1.clusterctl-new" && mkdir "$1.clusterctl-new" || return 1
  "$3" | base64 -d | tar -xzf - -C "$1.clusterctl-new" || return 1
  printf '%s\n' "$2" >"$1.clusterctl-new/.clusterctl-tree" || return 1
  # What stood there goes into the journal; on a second try it is there already.
  if [ -e "$entry/existed" ] && [ ! -e "$entry/prior" ]; then
    mv "$1" "$entry/prior" || return 1
  fi
  rm -rf "$1" && mv "$1.clusterctl-new" "$1" && sync
}

undo_put_tree() {
  kept path; path=$value
  reason="cannot remove $path"
  rm -rf "$path.clusterctl-new" || return 1
  if [ -e "$entry/existed" ]; then
    [ -e "$entry/prior" ] || return 0
    rm -rf "$path" && mv "$entry/prior" "$path" && sync || return 1
    return 0
  fi
  rm -rf "$path" && flush || return 1
  while read -r folder; do
    [ -z "$folder" ] || rmdir "$folder"
  done <"$entry/folders"
  return 0
}
