# Files in a directory of an account. The account can replace each name there by a link, between any two programs of
# root. So root works inside a directory of its own there, which it stays in and the account cannot look into.

go_to() { # OWNER FOLDER: work in this directory from now on; fails with $reason unless it is OWNER's, or root's and no link
  came_from=$PWD
  reason="cannot enter $2"
  cd -P "$2" || return 1
  folder_owner=$(stat -c %U .) folder_path=$(pwd -P)
  case $folder_owner in
    "$1") return 0 ;;
    root) [ "$folder_path" != "$2" ] || return 0 ;;
  esac
  go_back
  reason="$2 is owned by ${folder_owner:-an unknown user}, not by $1; root does not write there for $1"
  [ "$folder_path" = "$2" ] || reason="$2 leads to $folder_path, which is owned by ${folder_owner:-an unknown user}, not by $1; replace the link by a directory of $1"
  return 1
}

go_back() { cd "$came_from" || cd /; }

go_below() { # NAME: enter a directory that root has made in this one
  folder_path=$(pwd -P)
  cd -P "./$1" && [ "$(pwd -P)" = "${folder_path%/}/$1" ] || { reason="$folder_path/$1 was replaced by another program"; return 1; }
}

copy_theirs() { # OWNER: copy $target, without following links, to $new/prior
  go_to "$1" "${target%/*}" || return 1
  reason="$target cannot be copied into the journal"
  cp -a "./${target##*/}" "$new/prior"
  copied=$?
  go_back
  [ "$copied" = 0 ] || return 1
  reason="$target is not a regular file"
  plain "$new/prior"
}

make_their_folders() { # OWNER: create the directories that were missing, as OWNER's
  [ -s "$entry/folders" ] || return 0
  folder=$(tail -n 1 "$entry/folders") # the uppermost one
  below=${target%/*}
  below=${below#"${folder%/*}"/}
  folder=${folder%/*}
  go_to "$1" "${folder:-/}" || return 1
  while [ -n "$below" ]; do
    folder=${below%%/*}
    below=${below#"$folder"}
    below=${below#/}
    [ -d "./$folder" ] || said=$(mkdir -m 700 "./$folder" 2>&1) || { because "cannot create ${target%/*}"; go_back; return 1; }
    go_below "$folder" || { go_back; return 1; }
    # Root's own directory: made now, or before a crash.
    [ "$(stat -c %U .)" != root ] || [ -n "$(ls -A .)" ] || chown "$1:" .
  done
  go_back
}

go_inside() { # OWNER, $target -> $scratch, $whole, $held, $final: work in root's directory next to $target; see scratch_for
  go_to "$1" "${target%/*}" || return 1
  room=${scratch##*/}
  [ -d "./$room" ] || { rm -f "./$room" && mkdir -m 700 "./$room"; } || { because "cannot write $target"; go_back; return 1; }
  reason="${target%/*}/$room was not created by root; remove it"
  go_below "$room" && [ "$(stat -c '%u %a' .)" = "$(id -u) 700" ] || { go_back; return 1; }
  scratch=new whole=whole held=held final=../${target##*/}
  rm -f ./new ./held
  # The second name keeps the file that is checked here, whatever becomes of the first one.
  is_there "$final" || return 0
  reason="$target cannot be linked"
  if ln "$final" ./held; then
    reason="$target is not a regular file"
    if plain ./held; then
      case $(stat -c '%U %h' ./held) in
        "$1 "* | 'root 2') return 0 ;;
      esac
      reason="$target is owned by $(stat -c %U ./held), not by $1"
    fi
  fi
  go_out
  return 1
}

go_out() { # what is in $whole completes a change that a crash interrupted
  rm -f ./new ./new.cut ./held
  cd .. && rmdir "./$room"
  go_back
}
