# What packages leave behind when they are removed: accounts created by their scripts, files in /etc written by their
# daemons, and failed units without a file. Called by packages.sh around an installation and after a removal.

account_names() { # passwd|group: print the names of system accounts, sorted
  awk -F : '$3 + 0 < 1000 { print $1 }' "/etc/$1" | sort
}

keep_surroundings() { # note accounts, files and directories in $new before the installation
  account_names passwd >"$new/users-before" && account_names group >"$new/groups-before" &&
    find /etc -xdev | sort >"$new/etc-before" || return 1
  limit 60 find /opt /srv /var/lib /var/log -maxdepth 2 -type d 2>/dev/null >"$new/folders-before"
  # A directory may be mounted from an unreachable server. 124 is timeout's status in coreutils, 143 in busybox.
  case $? in 124 | 137 | 143) keep folders-unseen '' ;; esac
}

was_there() { # DIRECTORY: true if it existed before the installation, or if that could not be determined
  [ -e "$entry/folders-unseen" ] || grep -Fqsx -e "$1" "$entry/folders-before" "$entry/etc-before"
}

files_of() { # MANAGER PACKAGE...
  if [ "$1" = apt ]; then shift && dpkg-query -L "$@"; else shift && rpm -ql "$@"; fi 2>/dev/null
}

scripts_of() { # MANAGER PACKAGE [NAME...]: print its scripts; with apt only those with these names
  [ "$1" = apt ] || { rpm -q --scripts --triggers "$2" 2>/dev/null; return; }
  script_of=${2%%:*}
  shift 2
  for script_name in "$@"; do
    for script_file in "/var/lib/dpkg/info/$script_of.$script_name" "/var/lib/dpkg/info/$script_of":*".$script_name"; do
      [ ! -f "$script_file" ] || cat "$script_file"
    done
  done
}

what_they_say() { # MANAGER -> $entry/owned.tmp, paths of the new packages, and $entry/said.tmp, their scripts
  # shellcheck disable=SC2046 # names of packages contain no blanks
  files_of "$1" $(cat "$entry/brings") | sort -u >"$entry/owned.tmp"
  {
    while read -r brought; do scripts_of "$1" "$brought" preinst config postinst; done <"$entry/brings"
    # systemd creates accounts and files from these lists, so they are searched like scripts.
    grep -E '/(sysusers|tmpfiles)\.d/[^/]*\.conf$' "$entry/owned.tmp" | while IFS= read -r list; do cat "$list"; done
  } | sed '/^[[:space:]]*#/d' >"$entry/said.tmp"
}

# Select among the new paths in /etc: paths that the packages own or name, all below such a directory, and links to
# owned paths. All others were created by someone else, such as a configuration tool or an administrator.
# shellcheck disable=SC2016 # a program for awk
THEIRS='
  { sub(/\/+$/, "") }
  FILENAME == ARGV[1] { owned[$0] = 1; if ($0 ~ /^\/(s?bin|lib(32|64)?)\//) owned["/usr" $0] = 1; next }
  FILENAME == ARGV[2] {
    while (match($0, /\/etc\/[A-Za-z0-9_.@:+\/-]*/)) {
      path = substr($0, RSTART, RLENGTH)
      $0 = substr($0, RSTART + RLENGTH)
      sub(/[\/.:]+$/, "", path)
      owned[path] = 1
    }
    next
  }
  FILENAME == ARGV[3] { tab = index($0, "\t"); points[substr($0, 1, tab - 1)] = substr($0, tab + 1); next }
  {
    folder = $0
    sub(/\/[^\/]*$/, "", folder)
    if ($0 in owned || folder in theirs || ($0 in points && points[$0] in owned)) { theirs[$0] = 1; print }
  }'

note_remains() { # MANAGER LATE: note in $entry, after the installation, new accounts and files with their sums
  what_they_say "$1" || return 1
  late=$2
  for database in passwd group; do
    of_kind=users
    [ "$database" = passwd ] || of_kind=groups
    account_names "$database" | comm -13 "$entry/$of_kind-before" - | while read -r name; do
      ! grep -Eq 'adduser|addgroup|useradd|groupadd|^[ugm]!?[[:space:]]' "$entry/said.tmp" ||
        ! tr -c 'A-Za-z0-9_.-' '\n' <"$entry/said.tmp" | grep -Fqx -e "$name" || printf '%s\n' "$name"
    done >"$entry/$of_kind.tmp" || return 1
  done
  find /etc -xdev | sort | comm -13 "$entry/etc-before" - >"$entry/etc.tmp" || return 1
  while IFS= read -r left_path; do
    [ ! -h "$left_path" ] || printf '%s\t%s\n' "$left_path" "$(readlink -f "$left_path")"
  done <"$entry/etc.tmp" >"$entry/links.tmp"
  # Directories and links are listed without a sum.
  set -- "$entry/owned.tmp" "$entry/said.tmp" "$entry/links.tmp" "$entry/etc.tmp"
  awk "$THEIRS" "$@" | while IFS= read -r left_path; do
    # Long after a crash, another user may have created or edited a file that no package owns.
    [ -z "$late" ] || [ ! -f "$left_path" ] || [ -h "$left_path" ] || grep -Fqx -e "$left_path" "$1" || continue
    found_sum=-
    [ -h "$left_path" ] || found_sum=$(sum_of "$left_path")
    printf '%s %s\n' "${found_sum:--}" "$left_path"
  done >"$entry/etc-sums.tmp" || return 1
  # Flush before renaming, or a power loss could leave empty files. The last rename marks the list as complete.
  flush "$entry/users.tmp" "$entry/groups.tmp" "$entry/etc-sums.tmp" &&
    mv -f "$entry/users.tmp" "$entry/users-brought" && mv -f "$entry/groups.tmp" "$entry/groups-brought" &&
    mv -f "$entry/etc-sums.tmp" "$entry/etc-brought" || return 1
  rm -f "$@"
}

owned_among() { # MANAGER PATH...: print the paths owned by a package, with one dpkg query, as each reads all lists
  if [ "$1" = apt ]; then
    shift
    dpkg-query -S "$@" 2>/dev/null | sed -n 's/^[^/]*: \//\//p'
  else
    shift
    for some_path in "$@"; do ! rpm -qf "$some_path" >/dev/null 2>&1 || printf '%s\n' "$some_path"; done
  fi
}

late_folders() { # print directories that the new packages create at their first start, maybe after note_remains
  ! grep -Eqx 'containerd(\.io)?' "$entry/brings" || printf '%s\n' /etc/cni/net.d /etc/cni
}

still_there() { # -> $remaining, the paths of etc-brought that still exist, one per line
  remaining=$(while IFS=' ' read -r _ left_path; do
    [ ! -e "$left_path" ] && [ ! -h "$left_path" ] || printf '%s\n' "$left_path"
  done <"$entry/etc-brought")
}

remove_remains() { # MANAGER: after the removal of the packages, remove their remains unless changed since
  remaining=
  [ ! -f "$entry/etc-brought" ] || still_there
  if [ -n "$remaining" ]; then
    # IFS separates at line ends only, because a path may contain blanks.
    # shellcheck disable=SC2086 # one word per path
    owned=$(IFS=$newline; set -f; owned_among "$1" $remaining)
    sort -r -k 2 "$entry/etc-brought" | while IFS=' ' read -r found_sum left_path; do
      case "$newline$owned$newline" in *"$newline$left_path$newline"*) continue ;; esac
      if [ -d "$left_path" ] && [ ! -h "$left_path" ]; then
        rmdir "$left_path"
      elif [ -e "$left_path" ] || [ -h "$left_path" ]; then
        now_sum=-
        [ -h "$left_path" ] || now_sum=$(sum_of "$left_path")
        if [ "$now_sum" = "$found_sum" ] || [ -n "$FORCE" ]; then rm -f "$left_path"; fi
      fi
    done
  fi
  for late in $(late_folders); do
    grep -Fqx -e "$late" "$entry/etc-before" || rmdir "$late"
  done
  # Keep an account that has been given a login shell since.
  [ ! -f "$entry/users-brought" ] || while read -r name; do
    case $(awk -F : -v name="$name" '$1 == name { print $7 }' /etc/passwd) in
      */nologin | */false) userdel "$name" ;;
    esac
  done <"$entry/users-brought"
  [ ! -f "$entry/groups-brought" ] || while read -r name; do
    # groupdel fails, as intended, if the group has become a user's primary group since.
    [ -n "$(awk -F : -v name="$name" '$1 == name && $4 == ""' /etc/group)" ] && groupdel "$name"
  done <"$entry/groups-brought"
  # systemd lists a failed unit until it is reset, even if its file has been removed.
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl list-units --state=failed --plain --no-legend | while read -r unit load _; do
      [ "$load" != not-found ] || systemctl reset-failed "$unit"
    done
  fi
  return 0
}
