# InstallPackages: from the node's repositories, or from files that the controller has carried to the node.

carried=    # the folder of carried packages that the step at hand installs from
indexed=    # the folder whose index this process has built

# Of the two letters the first is only a wish: what is held (hi) is installed as well.
in_state() { # PATTERN of dpkg's letters (wish, state): those of the packages named in the lines read, by one query
  wanted_state=$1
  names=$(tr '\n' ' ')
  [ -n "${names% }" ] || return 0
  # shellcheck disable=SC2086
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

holder_of() { # MANAGER -> $holder and $locked_file; fails when nobody holds the manager's locks
  holder=
  case $1 in
    apt) set -- /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock /var/cache/apt/archives/lock ;;
    *) set -- /var/lib/rpm/.rpm.lock /usr/lib/sysimage/rpm/.rpm.lock /var/cache/dnf/*.pid /var/lib/dnf/*.pid \
      /run/dnf/*.lock ;;
  esac
  for locked_file in "$@"; do
    [ -f "$locked_file" ] || continue
    case $locked_file in
      *.pid) # which dnf 4 leaves behind when it is killed
        held_pid=
        read -r held_pid <"$locked_file" || :
        [ -n "$held_pid" ] && [ -d "/proc/$held_pid" ] && name_holder && return 0
        ;;
      *)
        for held_pid in $(awk -v inode="$(stat -c %i "$locked_file")" \
          '$2 != "->" && $4 == "WRITE" { split($6, at, ":"); if (at[3] == inode) print $5 }' /proc/locks); do
          for held_fd in "/proc/$held_pid/fd"/*; do
            # Inode numbers are one file system's: what the process has open decides.
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
      reason="$holder holds $locked_file; it was waited for $LOCK_WAIT s"
      return 1
    fi
    [ "$held_s" != 0 ] || record "$seq" note "waiting for $holder, which holds $locked_file"
    sleep 1
    held_s=$((held_s + 1))
  done
}

# What is there by now is not upgraded in passing (--no-upgrade below), as undo could not take that back.
apt() {
  [ -z "$carried" ] || set -- -o "Dir::Etc::SourceList=$carried/apt/sources.list" -o Dir::Etc::SourceParts=- \
    -o "Dir::State::Lists=$carried/apt/lists" -o "Dir::Cache=$carried/apt/cache" -o APT::Sandbox::User=root \
    -o Acquire::Languages=none "$@"
  limit 900 apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold "$@" 3>&-
}

dnf_() {
  [ -z "$carried" ] || set -- "--repofrompath=clusterctl-carried,file://$carried/files" --repo=clusterctl-carried \
    --setopt=clusterctl-carried.gpgcheck=0 --setopt=clusterctl-carried.repo_gpgcheck=0 "$@"
  # Without --allowerasing, which dnf must not be given here: see removes_nothing.
  limit 900 dnf -y --setopt=clean_requirements_on_remove=False "$@" 3>&-
}

from_carried() { # MANAGER FOLDER: check what was carried, and let the manager see it and nothing else
  carried=
  [ -n "$2" ] || return 0
  carried=$STATE/carried/$RUN/$2
  [ "$indexed" != "$carried" ] || return 0
  reason="the packages carried to $carried are not those of their SHA256SUMS"
  (cd "$carried/files" && sha256sum -c ../SHA256SUMS) || return 1
  if [ "$1" = apt ]; then
    reason="no index can be made of the packages in $carried"
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

apt_removes() { # what a simulated transaction would take away -> $goes
  goes=$(sed -n 's/^\(Purg\|Remv\) \([^ ]*\).*/\2/p' "$1" | tr '\n' ' ')
  goes=${goes% }
}

removes_nothing() { # PACKAGE...: for apt-get there is --no-remove; dnf is asked what it would do, and fetches it
  logged dnf_ --downloadonly install "$@" || return 1
  # dnf 5 says "replacing" of the older version too; dnf 4 only of what is obsoleted, and with its architecture.
  goes=$(awk '
    /^[A-Z][a-z ]*:$/ { going = /^(Removing|Downgrading)/; own = ""; next }
    /^$/ { going = 0 }
    /^ +replacing / { sub(/\.(noarch|x86_64|aarch64|i[3-6]86|ppc64le|s390x)$/, "", $2); if ($2 != own) print $2; next }
    /^ [^ ]/ { own = $1; if (going) print $1 }' "$STATE/output" | sort -u | tr '\n' ' ')
  goes=${goes% }
  [ -z "$goes" ] || { reason="installing $* would remove or downgrade $goes, which is left to you"; return 1; }
}

rpms_there() { # of the packages named in the lines read
  while read -r package; do ! rpm -q --quiet "$package" || printf '%s\n' "$package"; done
}

# The keys that rpm lists among them are no packages to dnf, and several have one name.
names_of_all() { rpm -qa --qf '%{NAME}\n' | grep -vx gpg-pubkey | sort -u; }

may_bring() { # after removes_nothing: the packages that were not there, by dnf's own table
  awk '
    /^[A-Z][a-z ]*:$/ { coming = /^Installing/; next }
    /^$/ { coming = 0 }
    coming && /^ [^ ]/ { print $1 }' "$STATE/output"
}

may_come_beside() { # FOLDER: as may_bring, of those packages that are there in another version or for another processor
  awk '
    NR == FNR { was[$1] = 1; next }
    /^[A-Z][a-z ]*:$/ { coming = /^Installing/; name = ""; next }
    /^$/ { coming = 0 }
    !coming { next }
    /^ [^ ]/ { name = $1; sub(/^ [^ ]+/, "") }
    name in was && NF > 1 { sub(/^[0-9]+:/, "", $2); print name "-" $2 "." $1; name = "" }
  ' "$1/before" "$STATE/output"
}

come_since() { # the first try; not what others have installed meanwhile, if dnf's table was understood
  names_of_all | comm -13 "$entry/before" - |
    if [ -s "$entry/may-bring" ]; then grep -Fx -f "$entry/may-bring" || :; else cat; fi || return 1
  [ ! -s "$entry/beside" ] || sort -u "$entry/beside" | rpms_there
}

prior_install_packages() {
  keep manager "$1" && wait_for_manager "$1" && from_carried "$1" "$2" || return 1
  reason='what is in /etc cannot be noted in the journal'
  keep_surroundings || return 1
  manager=$1
  shift 2
  if [ "$manager" = apt ]; then
    # What apt would bring is journalled beforehand: after a crash in the middle, undo removes these and no others.
    if ! apt -s --no-upgrade --no-install-recommends install "$@" >"$new/simulated" 2>/dev/null; then
      [ -n "$carried" ] || logged apt update || return 1
      logged apt -s --no-upgrade --no-install-recommends install "$@" || return 1
      cp "$STATE/output" "$new/simulated" || return 1
    fi
    apt_removes "$new/simulated"
    [ -z "$goes" ] || { reason="installing $* would remove $goes, which is left to you"; return 1; }
    : >"$new/brings" && note_brings "$new"
  else
    removes_nothing "$@" && may_bring >"$new/may-bring" || return 1
    names_of_all >"$new/before"
    may_come_beside "$new" >"$new/beside"
  fi
}

note_brings() { # FOLDER: what undo will remove, by what apt has simulated there; what is noted by now stays noted
  reason='what the packages bring cannot be noted in the journal'
  sed -n 's/^Inst \([^ ]*\).*/\1/p' "$1/simulated" | sort -u >"$1/all" && in_state .i <"$1/all" | sort >"$1/there" &&
    comm -23 "$1/all" "$1/there" | comm -23 - "$1/brings" >"$1/comes" || return 1
  # Removed before, but configured still: undo must not take that configuration away.
  in_state '.c' <"$1/comes" >>"$1/configured" && sort -u "$1/brings" "$1/comes" >"$1/brings.tmp" &&
    flush "$1/configured" "$1/brings.tmp" && mv -f "$1/brings.tmp" "$1/brings" && flush "$1" || return 1
  rm -f "$1/simulated" "$1/all" "$1/there" "$1/comes"
}

brings_more() { # PACKAGE...: by lists of packages that are newer than the entry in the journal
  # What cannot be simulated cannot be installed, and that says why.
  simulated=$(apt -s --no-upgrade --no-install-recommends install "$@" 2>/dev/null) || return 0
  reason='the journal cannot be written (disk full or read-only?)'
  printf '%s\n' "$simulated" >"$entry/simulated" && unseal brings configured && note_brings "$entry" && reseal
}

mend_dpkg() { # what a crash of ours in the middle of dpkg has left open
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
    # It may have fetched newer lists than those of the table that was looked at before, and bring more by them.
    note_table && [ -n "$installed" ] || return 1
  fi
  finish_install_packages "$manager" "$again" || return 1
  reason="not installed afterwards: $*"
}

forget() { # NAME...: of $entry, what the next try notes again
  unseal "$@" || return 1
  for forgotten; do rm -f "$entry/$forgotten"; done
}

note_table() { # of dnf, into $entry
  unseal may-bring beside && may_bring >>"$entry/may-bring" && may_come_beside "$entry" >>"$entry/beside" && reseal
}

finish_install_packages() { # MANAGER LATE: note what undo has to know of an installation that was made, once
  [ ! -f "$entry/etc-brought" ] || return 0
  unseal brings users-brought groups-brought etc-brought && note_brought "$@" && reseal
}

note_brought() { # MANAGER LATE
  reason='what the packages have brought cannot be noted in the journal'
  if [ "$1" != apt ] && [ ! -f "$entry/brings" ]; then
    come_since >"$entry/brings.tmp" && flush "$entry/brings.tmp" &&
      mv -f "$entry/brings.tmp" "$entry/brings" || return 1
  fi
  note_remains "$1" "$2"
}

undo_install_packages() {
  carried=
  kept manager; manager=$value
  wait_for_manager "$manager" || return 1
  if [ "$manager" = apt ]; then mend_dpkg || return 1; fi
  # Cut off between the installation and what there was to note of it.
  finish_install_packages "$manager" late || return 1
  set --
  if [ "$manager" = apt ]; then
    # Half installed ones too: all but those that are not there (n) or only configured (c).
    for package in $(in_state '.[^nc]' <"$entry/brings"); do set -- "$@" "$package"; done
    may_go apt "$@" && remove_and_purge "$@" || return 1
  elif
    # shellcheck disable=SC2046
    set -- $(rpms_there <"$entry/brings")
    [ $# -gt 0 ]
  then
    if [ -z "$FORCE" ] && ! logged rpm -e --test "$@"; then
      reason="removing $* would also remove what was installed since: $reason"
      return 1
    fi
    may_go dnf "$@" && logged dnf_ remove "$@" || return 1
  fi
  remove_remains "$manager"
}

may_go() { # MANAGER PACKAGE...: or $reason says whom a unit of theirs serves. Many start by themselves when they come
  for unit in $(files_of "$@" | sed -n 's|.*/systemd/system/\([^/]*\.service\)$|\1|p' | sort -u); do
    may_stop "$unit" || return 1
  done
}

remove_and_purge() { # PACKAGE...: what purging would delete is known, and dealt with, once they are removed
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

purge_deletes_data() { # PACKAGE: may its last script not run? What it would run to delete data is taken away
  scripts_of apt "$1" postrm >"$STATE/output"
  # docker.io puts this into /var/lib/docker when it is removed, and runs it there when it is purged.
  for doomed in $(grep -o '/[A-Za-z0-9_./+-]*/nuke-graph-directory\.sh' "$STATE/output"); do rm -f "$doomed"; done
  # Folders that were there, and hold something, are somebody's.
  for doomed in $(grep -E '(^|[^A-Za-z])rm .*-[A-Za-z-]*[rR]' "$STATE/output" | grep -o '/[A-Za-z0-9_./+-]*'); do
    doomed=${doomed%/}
    [ -d "$doomed" ] && [ -n "$(ls -A "$doomed")" ] && was_there "$doomed" || continue
    record "$seq" note "$1 is removed, but not purged: that would delete $doomed, which was there before it"
    return 0
  done
  return 1
}

drop_carried() { # packages are not kept beyond the run that brought them
  [ -d "$STATE/carried" ] || return 0
  rm -rf "$STATE/carried/$RUN"
  # Nor those of a run that was cut off before it had begun: nothing of it will be undone. A day, as one may be on its way.
  find "$STATE"/carried/* -maxdepth 0 -mtime +0 -exec rm -rf {} \; 2>/dev/null
  rmdir "$STATE/carried" 2>/dev/null
}
