# InstallPackages: from the node's repositories, or from files that the controller has copied to the node.

carried=    # the directory of copied packages that the current step installs from
indexed=    # the directory whose index this process has built

# dpkg's first letter is the desired state, its second the actual one: a held package (hi) is installed as well.
in_state() { # PATTERN of dpkg's letters (desired, actual): print the matching packages among the names on stdin
  wanted_state=$1
  names=$(tr '\n' ' ')
  [ -n "${names% }" ] || return 0
  # shellcheck disable=SC2086 # names of packages contain no blanks
  dpkg-query -W -f '${Package} ${binary:Package} ${db:Status-Abbrev}\n' $names 2>/dev/null |
    awk -v wanted="^$wanted_state" -v names="$names" '
      $3 ~ wanted { found[$1] = found[$2] = 1 }
      END { count = split(names, name, " "); for (i = 1; i <= count; i++) if (name[i] in found) print name[i] }'
}

so_install_packages() { # MANAGER FOLDER PACKAGE...; FOLDER empty: from the node's repositories
  so_manager=$1
  shift 2
  [ "$so_manager" = apt ] || { rpm -q --quiet "$@"; return; }
  [ "$(printf '%s\n' "$@" | in_state .i | grep -c .)" = $# ]
}

holder_of() { # MANAGER -> $holder and $locked_file; fails if no process holds the manager's locks
  holder=
  case $1 in
    apt) set -- /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock /var/cache/apt/archives/lock ;;
    *) set -- /var/lib/rpm/.rpm.lock /usr/lib/sysimage/rpm/.rpm.lock /var/cache/dnf/*.pid /var/lib/dnf/*.pid \
      /run/dnf/*.lock ;;
  esac
  for locked_file in "$@"; do
    [ -f "$locked_file" ] || continue
    case $locked_file in
      *.pid) # dnf 4 leaves this file behind when it is killed
        held_pid=
        read -r held_pid <"$locked_file" || :
        [ -n "$held_pid" ] && [ -d "/proc/$held_pid" ] && name_holder && return 0
        ;;
      *)
        # shellcheck disable=SC2013 # one number per line
        for held_pid in $(awk -v inode="$(stat -c %i "$locked_file")" \
          '$2 != "->" && $4 == "WRITE" { split($6, at, ":"); if (at[3] == inode) print $5 }' /proc/locks); do
          for held_fd in "/proc/$held_pid/fd"/*; do
            # Inode numbers are unique only within a file system, so compare the files that the process has open.
            [ "$held_fd" -ef "$locked_file" ] && name_holder && return 0
          done
        done
        ;;
    esac
  done
  return 1
}

name_holder() { holder="$(cat "/proc/$held_pid/comm" 2>/dev/null) (process $held_pid)"; }

wait_for_manager() { # MANAGER
  held_s=0
  while holder_of "$1"; do
    if [ "$held_s" -ge "$LOCK_WAIT" ]; then
      reason="$holder still holds $locked_file after $LOCK_WAIT s of waiting; wait until it ends, then run again"
      return 1
    fi
    [ "$held_s" != 0 ] || record "$seq" note "waiting for $holder, which holds $locked_file"
    sleep 1
    held_s=$((held_s + 1))
  done
}

# Installed packages are not upgraded (--no-upgrade below), because undo could not revert an upgrade.
apt() {
  [ -z "$carried" ] || set -- -o "Dir::Etc::SourceList=$carried/apt/sources.list" -o Dir::Etc::SourceParts=- \
    -o "Dir::State::Lists=$carried/apt/lists" -o "Dir::Cache=$carried/apt/cache" -o APT::Sandbox::User=root \
    -o Acquire::Languages=none "$@"
  limit 900 apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold "$@" 3>&-
}

dnf_() {
  [ -z "$carried" ] || set -- "--repofrompath=clusterctl-carried,file://$carried/files" --repo=clusterctl-carried \
    --setopt=clusterctl-carried.gpgcheck=0 --setopt=clusterctl-carried.repo_gpgcheck=0 "$@"
  # --allowerasing must not be added here: see removes_nothing.
  limit 900 dnf -y --setopt=clean_requirements_on_remove=False "$@" 3>&-
}

from_carried() { # MANAGER DIRECTORY: verify the copied packages, and make them the manager's only source
  carried=
  [ -n "$2" ] || return 0
  carried=$STATE/carried/$RUN/$2
  [ "$indexed" != "$carried" ] || return 0
  reason="the packages copied to $carried do not match their SHA256SUMS"
  (cd "$carried/files" && sha256sum -c ../SHA256SUMS) || return 1
  if [ "$1" = apt ]; then
    reason="cannot build an index of the packages in $carried"
    rm -rf "$carried/apt"
    mkdir -p "$carried/apt/lists/partial" "$carried/apt/cache/archives/partial" || return 1
    printf 'deb [trusted=yes] file:%s ./\n' "$carried/files" >"$carried/apt/sources.list" || return 1
    while read -r digest file; do
      file=${file#\*}
      case $file in *.deb) ;; *) continue ;; esac
      dpkg-deb -f "$carried/files/$file" && printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$file" \
        "$(stat -c %s "$carried/files/$file")" "$digest" || return 1
    done <"$carried/SHA256SUMS" >"$carried/files/Packages" || return 1
    logged apt update || return 1
  fi
  indexed=$carried
}

apt_removes() { # FILE -> $goes, the packages that the simulated transaction would remove
  goes=$(sed -n 's/^\(Purg\|Remv\) \([^ ]*\).*/\2/p' "$1" | tr '\n' ' ')
  goes=${goes% }
}

removes_nothing() { # PACKAGE...: apt-get has --no-remove; dnf only downloads here and prints what it would do
  logged dnf_ --downloadonly install "$@" || return 1
  # dnf 5 prints "replacing" for the older version too; dnf 4 only for obsoleted packages, with their architecture.
  goes=$(awk '
    /^[A-Z][a-z ]*:$/ { going = /^(Removing|Downgrading)/; own = ""; next }
    /^$/ { going = 0 }
    /^ +replacing / { sub(/\.(noarch|x86_64|aarch64|i[3-6]86|ppc64le|s390x)$/, "", $2); if ($2 != own) print $2; next }
    /^ [^ ]/ { own = $1; if (going) print $1 }' "$STATE/output" | sort -u | tr '\n' ' ')
  goes=${goes% }
  [ -z "$goes" ] || { reason="installing $* would remove or downgrade $goes; resolve this by hand"; return 1; }
}

rpms_there() { # print the installed packages among the names on stdin
  while read -r package; do ! rpm -q --quiet "$package" || printf '%s\n' "$package"; done
}

# rpm also lists imported keys, several under one name; dnf does not treat them as packages.
names_of_all() { rpm -qa --qf '%{NAME}\n' | grep -vx gpg-pubkey | sort -u; }

may_bring() { # after removes_nothing: print the packages that dnf's table lists as new
  awk '
    /^[A-Z][a-z ]*:$/ { coming = /^Installing/; next }
    /^$/ { coming = 0 }
    coming && /^ [^ ]/ { print $1 }' "$STATE/output"
}

may_come_beside() { # DIRECTORY: as may_bring, for packages installed already in another version or architecture
  awk '
    NR == FNR { was[$1] = 1; next }
    /^[A-Z][a-z ]*:$/ { coming = /^Installing/; name = ""; next }
    /^$/ { coming = 0 }
    !coming { next }
    /^ [^ ]/ { name = $1; sub(/^ [^ ]+/, "") }
    name in was && NF > 1 { sub(/^[0-9]+:/, "", $2); print name "-" $2 "." $1; name = "" }
  ' "$1/before" "$STATE/output"
}

come_since() { # print the packages new since the first attempt, without others' if dnf's table could be parsed
  names_of_all | comm -13 "$entry/before" - |
    if [ -s "$entry/may-bring" ]; then grep -Fx -f "$entry/may-bring" || :; else cat; fi || return 1
  [ ! -s "$entry/beside" ] || sort -u "$entry/beside" | rpms_there
}

prior_install_packages() {
  keep manager "$1" && wait_for_manager "$1" && from_carried "$1" "$2" || return 1
  reason='the contents of /etc cannot be listed in the journal (disk full?)'
  keep_surroundings || return 1
  manager=$1
  shift 2
  if [ "$manager" = apt ]; then
    # The packages that apt would install are journalled first: after a crash, undo removes exactly these.
    if ! apt -s --no-upgrade --no-install-recommends install "$@" >"$new/simulated" 2>/dev/null; then
      [ -n "$carried" ] || logged apt update || return 1
      logged apt -s --no-upgrade --no-install-recommends install "$@" || return 1
      cp "$STATE/output" "$new/simulated" || return 1
    fi
    apt_removes "$new/simulated"
    [ -z "$goes" ] || { reason="installing $* would remove $goes; resolve this by hand"; return 1; }
    : >"$new/brings" && note_brings "$new"
  else
    removes_nothing "$@" && may_bring >"$new/may-bring" || return 1
    names_of_all >"$new/before"
    may_come_beside "$new" >"$new/beside"
  fi
}

note_brings() { # DIRECTORY: add what apt simulated there to the list of packages that undo will remove
  reason='the new packages cannot be listed in the journal (disk full?)'
  sed -n 's/^Inst \([^ ]*\).*/\1/p' "$1/simulated" | sort -u >"$1/all" && in_state .i <"$1/all" | sort >"$1/there" &&
    comm -23 "$1/all" "$1/there" | comm -23 - "$1/brings" >"$1/comes" || return 1
  # Packages that were removed but not purged: undo must keep their configuration.
  in_state '.c' <"$1/comes" >>"$1/configured" && sort -u "$1/brings" "$1/comes" >"$1/brings.tmp" &&
    flush "$1/configured" "$1/brings.tmp" && mv -f "$1/brings.tmp" "$1/brings" && flush "$1" || return 1
  rm -f "$1/simulated" "$1/all" "$1/there" "$1/comes"
}

brings_more() { # PACKAGE...: note what newer package lists would install in addition to the journal entry
  # An installation that cannot be simulated fails as well, and its error explains why.
  simulated=$(apt -s --no-upgrade --no-install-recommends install "$@" 2>/dev/null) || return 0
  journal_failed
  printf '%s\n' "$simulated" >"$entry/simulated" && unseal brings configured && note_brings "$entry" && reseal
}

mend_dpkg() { # complete a dpkg run that a crash of an earlier part interrupted
  [ -z "$(ls -A /var/lib/dpkg/updates 2>/dev/null)" ] || logged limit 900 dpkg --force-confold --configure -a
}

do_install_packages() {
  wait_for_manager "$1" && from_carried "$1" "$2" || return 1
  manager=$1
  shift 2
  if [ "$manager" = apt ]; then
    [ -z "$again" ] || { forget etc-brought && mend_dpkg && brings_more "$@"; } || return 1
    logged apt --no-upgrade --no-install-recommends --no-remove install "$@" || { [ -z "$carried" ] && logged apt update &&
      brings_more "$@" && logged apt --no-upgrade --no-install-recommends --no-remove install "$@"; } || return 1
  else
    [ -z "$again" ] || { forget etc-brought brings && removes_nothing "$@" && note_table; } || return 1
    logged dnf_ install "$@" && installed=1 || installed=
    # dnf may have fetched newer lists than for the first table, and have installed more packages.
    note_table && [ -n "$installed" ] || return 1
  fi
  finish_install_packages "$manager" "$again" || return 1
  reason="the installation succeeded, but not all packages are installed: $*"
}

forget() { # NAME...: remove files of $entry that the next attempt writes again
  unseal "$@" || return 1
  for forgotten; do rm -f "$entry/$forgotten"; done
}

note_table() { # add dnf's table to $entry
  unseal may-bring beside && may_bring >>"$entry/may-bring" && may_come_beside "$entry" >>"$entry/beside" && reseal
}

finish_install_packages() { # MANAGER LATE: note, once, what undo needs to know of a finished installation
  [ ! -f "$entry/etc-brought" ] || return 0
  unseal brings users-brought groups-brought etc-brought && note_brought "$@" && reseal
}

note_brought() { # MANAGER LATE
  reason='the files and accounts of the new packages cannot be listed in the journal (disk full?)'
  if [ "$1" != apt ] && [ ! -f "$entry/brings" ]; then
    come_since >"$entry/brings.tmp" && flush "$entry/brings.tmp" &&
      mv -f "$entry/brings.tmp" "$entry/brings" || return 1
  fi
  note_remains "$1" "$2"
}

would_install_packages() {
  if [ -s "$entry/brings" ]; then
    would="- remove the packages $(tr '\n' ' ' <"$entry/brings")"
  else
    would='. no package to remove: the run installed none'
  fi
}

undo_install_packages() {
  carried=
  kept manager; manager=$value
  wait_for_manager "$manager" || return 1
  if [ "$manager" = apt ]; then mend_dpkg || return 1; fi
  # The run may have been interrupted after the installation, before its results were noted.
  finish_install_packages "$manager" late || return 1
  set --
  if [ "$manager" = apt ]; then
    # Include half-installed packages: all states but not installed (n) and only configured (c).
    for package in $(in_state '.[^nc]' <"$entry/brings"); do set -- "$@" "$package"; done
    may_go apt "$@" && remove_and_purge "$@" || return 1
  elif
    # shellcheck disable=SC2046 # names of packages contain no blanks
    set -- $(rpms_there <"$entry/brings")
    [ $# -gt 0 ]
  then
    if [ -z "$FORCE" ] && ! logged rpm -e --test "$@"; then
      reason="removing $* would break packages that were installed since; remove those first, or use --force: $reason"
      return 1
    fi
    may_go dnf "$@" && logged dnf_ remove "$@" || return 1
  fi
  remove_remains "$manager"
}

may_go() { # MANAGER PACKAGE...: fail with $reason if a unit of theirs is in use; many start when installed
  for unit in $(files_of "$@" | sed -n 's|.*/systemd/system/\([^/]*\.service\)$|\1|p' | sort -u); do
    may_stop "$unit" || return 1
  done
}

remove_and_purge() { # PACKAGE...: the data that purging would delete is known only after the removal
  if [ $# -gt 0 ]; then
    for package in $(apt -s remove "$@" 2>/dev/null | sed -n 's/^\(Purg\|Remv\) \([^ ]*\).*/\2/p'); do
      case " $* " in
        *" $package "*) ;;
        *) [ -n "$FORCE" ] || { reason="removing $* would also remove $package, installed since"; return 1; } ;;
      esac
    done
    logged apt remove "$@" || return 1
  fi
  set --
  for package in $(in_state '.c' <"$entry/brings"); do
    ! grep -Fqx -e "$package" "$entry/configured" 2>/dev/null || continue
    purge_deletes_data "$package" || set -- "$@" "$package"
  done
  [ $# -eq 0 ] || logged apt purge "$@"
}

purge_deletes_data() { # PACKAGE: true if purging must be skipped; removes the helper that deletes docker's data
  scripts_of apt "$1" postrm >"$STATE/output"
  # docker.io installs this script into /var/lib/docker on removal and runs it there on purge.
  # shellcheck disable=SC2013 # the pattern contains no blanks
  for doomed in $(grep -o '/[A-Za-z0-9_./+-]*/nuke-graph-directory\.sh' "$STATE/output"); do rm -f "$doomed"; done
  # Non-empty directories that existed before may contain users' data.
  # shellcheck disable=SC2013 # the pattern contains no blanks
  for doomed in $(grep -E '(^|[^A-Za-z])rm .*-[A-Za-z-]*[rR]' "$STATE/output" | grep -o '/[A-Za-z0-9_./+-]*'); do
    doomed=${doomed%/}
    [ -d "$doomed" ] && [ -n "$(ls -A "$doomed")" ] && was_there "$doomed" || continue
    record "$seq" note "$1 is removed but not purged: purging would delete $doomed, which existed before the installation"
    return 0
  done
  return 1
}

drop_carried() { # remove the packages copied for this run
  [ -d "$STATE/carried" ] || return 0
  rm -rf "$STATE/carried/$RUN"
  # A run interrupted before its first step is never undone, so remove its packages after a day, when no copy is active.
  find "$STATE"/carried/* -maxdepth 0 -mtime +0 -exec rm -rf {} \; 2>/dev/null
  rmdir "$STATE/carried" 2>/dev/null
}
