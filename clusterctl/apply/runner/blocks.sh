# Steps that keep a marked block in a file that others write too: WriteBlock. Undo removes only the block.

find_block() { # $held, $name -> $from and $to, the lines of its marks (0: not found); fails if they do not match
  from=0 to=0
  [ -f "$held" ] || return 0
  # An editor may have added carriage returns, blanks and a byte order mark. A mark that an editor quoted, or that
  # other line ends hide (\r alone), counts as one that does not match: its block may still have an effect.
  # shellcheck disable=SC2046 # four numbers
  set -- $(begin="# BEGIN clusterctl $name" end="# END clusterctl $name" awk '
    function hidden(mark, at, next_one) {
      at = index($0, mark)
      next_one = substr($0, at + length(mark), 1)
      return at && (next_one == "" || next_one == "\r")
    }
    { sub(/^\357\273\277/, ""); sub(/^[ \t]+/, ""); sub(/[ \t\r\f\v]+$/, "") }
    $0 == ENVIRON["begin"] { begins++; from = NR; next }
    $0 == ENVIRON["end"] { ends++; to = NR; next }
    hidden(ENVIRON["begin"]) { begins += 2 }
    hidden(ENVIRON["end"]) { ends += 2 }
    END { print begins + 0, ends + 0, from + 0, to + 0 }' "$held")
  reason="the BEGIN and END marks of the block $name in $target do not match: repair them by hand"
  [ "$1 $2" != "0 0" ] || return 0
  [ "$1 $2" = "1 1" ] && [ "$3" -lt "$4" ] || return 1
  from=$3 to=$4
}

inside() { [ "$((to - from))" -lt 2 ] || sed -n "$((from + 1)),$((to - 1))p" "$held"; }

with() { # COMMAND...: print $held with the command's output instead of the block, or at the end
  if [ "$from" -gt 0 ]; then
    { [ "$from" -eq 1 ] || head -n "$((from - 1))" "$held"; } && "$@" && tail -n "+$((to + 1))" "$held"
    return
  fi
  if [ -s "$held" ]; then
    cat "$held" && { [ -z "$(tail -c 1 "$held")" ] || echo; } || return 1
  fi
  "$@"
}

block() { printf '%s\n%s%s\n' "# BEGIN clusterctl $name" "$1" "# END clusterctl $name"; } # CONTENT

theirs_if_linked() { # OWNER: root must not follow a user's link to a file of another owner
  [ -z "$1" ] || [ ! -h "$path" ] && return 0
  [ "$(stat -c %U "$target")" = "$1" ] && return 0
  reason="$path is a link to $target, which is not owned by $1"
  return 1
}

another_owner() { # OWNER: an account other than root, whose directory root must not trust
  [ -n "$1" ] && [ "$1" != root ]
}

so_write_block() { # PATH NAME MODE OWNER SHA256 CONTENT
  real_path "$1" || return 1
  name=$2
  scratch_for
  [ ! -f "$whole" ] && [ ! -f "$scratch/whole" ] && find_block && [ "$from" -gt 0 ] && [ "$(inside | sum)" = "$5" ]
}

prior_write_block() {
  path=$1
  real_path "$1" || return 1
  reason="$target is not a regular file"
  [ ! -e "$target" ] || [ -f "$target" ] || return 1
  reason="user $4 does not exist"
  [ -z "$4" ] || id -u "$4" || return 1
  name=$2
  theirs_if_linked "$4" || return 1
  reason="$target cannot be copied into the journal"
  keep target "$target" && keep name "$name" && keep wrote "$5
" || return 1
  if another_owner "$4"; then
    keep owner "$4" || return 1
    [ ! -d "${target%/*}" ] || { go_to "$4" "${target%/*}" && go_back; } || return 1
  fi
  if [ ! -e "$target" ]; then
    reason="$target cannot be copied into the journal"
    missing_folders "${target%/*}" && keep folders "$missing" && keep absent ''
    return
  fi
  if another_owner "$4"; then copy_theirs "$4"; else cp -a "$target" "$new/prior"; fi || return 1
  held=$new/prior
  find_block || return 1
  reason="$target cannot be copied into the journal"
  if [ "$from" -gt 0 ]; then
    inside >"$new/had" || return 1
  elif [ -s "$held" ] && [ -n "$(tail -c 1 "$held")" ]; then
    keep newline '' || return 1
  fi
}

do_write_block() {
  path=$1
  real_path "$1" || return 1
  name=$2
  scratch_for
  theirs_if_linked "$4" && claim "$5" || return 1
  if another_owner "$4"; then
    make_their_folders "$4" && go_inside "$4" || return 1
    put_block_in "$@"
    put_in=$?
    go_out
  else
    make_folder && put_block_in "$@"
    put_in=$?
  fi
  [ "$put_in" = 0 ] || return 1
  [ ! -e "$entry/absent" ] || relabel
  reason="$target does not contain the block that was written to it"
}

put_block_in() { # as so_write_block
  finish_torn
  find_block || return 1
  if [ -e "$held" ]; then
    fill with block "$6" && like "$held"
  else
    fill with block "$6" && chmod "$3" "$scratch" && { [ -z "$4" ] || chown "$4:" "$scratch"; }
  fi && move_in || { because "cannot write $target"; rm -f "$scratch"; return 1; }
}

would_write_block() {
  kept target; target=$value
  kept name; name=$value
  if [ -f "$entry/had" ]; then
    would="~ restore the block $name in $target"
  elif [ -e "$entry/absent" ]; then
    would="- remove the block $name from $target, and the file if nothing else is in it"
  else
    would="- remove the block $name from $target"
  fi
}

undo_write_block() {
  kept target; target=$value
  kept name; name=$value
  kept owner; owner=$value
  scratch_for
  if [ -d "${target%/*}" ]; then
    if [ -n "$owner" ]; then
      go_inside "$owner" || return 1
      take_out
      taken=$?
      go_out
    else
      take_out
      taken=$?
    fi
    [ "$taken" = 0 ] || return 1
  fi
  [ ! -e "$entry/absent" ] || remove_folders
}

take_out() { # $held
  rm -f "$scratch"
  finish_torn
  [ -f "$held" ] || return 0
  find_block || return 1
  [ "$from" -eq 0 ] || take_out_block
}

take_out_block() {
  now=$(inside | sum)
  if ! ours "$now" && [ -z "$FORCE" ]; then
    [ "$now" != "$(sum_of "$entry/had")" ] || return 0
    reason="the block $name in $target was changed since; use --force to remove it anyway"
    return 1
  fi
  if [ -f "$entry/had" ]; then
    kept had
    fill with block "$value"
  else
    last=$(tail -n 1 "$held")
    fill with :
  fi || { because "cannot write $target"; return 1; }
  if [ -e "$entry/newline" ] && [ "$last" = "# END clusterctl $name" ] && [ -s "$scratch" ]; then
    # The file had no newline at its end before the block was added.
    said=$({ head -c "$(($(wc -c <"$scratch") - 1))" "$scratch" >"$scratch.cut" && mv -f "$scratch.cut" "$scratch"; } 2>&1) ||
      { because "cannot write $target"; rm -f "$scratch" "$scratch.cut"; return 1; }
  fi
  if [ -e "$entry/absent" ] && [ ! -s "$scratch" ]; then
    rm -f "$scratch"
    said=$(rm -f "$final" 2>&1) && flush "${target%/*}" || { because "cannot remove $target"; return 1; }
    return
  fi
  if [ -f "$entry/prior" ]; then
    cmp -s "$scratch" "$entry/prior"
    same=$?
    # A status above 1 means that cmp failed; rewriting the file without its old time would hide that from a retry.
    [ "$same" -le 1 ] || { reason="cannot compare $scratch with the journal"; return 1; }
  else
    same=1
  fi
  if [ "$same" = 0 ]; then
    rm -f "$scratch"
    put_back
  else
    like "$held" && move_in || { because "cannot write $target"; rm -f "$scratch"; return 1; }
  fi
}
