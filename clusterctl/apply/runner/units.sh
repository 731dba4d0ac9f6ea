# Steps on systemd units, EnableUnit and RestartUnit, and the check of who uses a unit before it stops.

unit_state() { systemctl "is-$1" "$2" 2>/dev/null | head -n 1; }

runs() { case $(unit_state active "$1") in active | reloading) ;; *) return 1 ;; esac; }

on_gpus() {
  command -v nvidia-smi >/dev/null || return 0
  limit 30 nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader </dev/null 2>/dev/null 3>&- |
    sed -n 's/^ *\([0-9][0-9]*\), *\(.*\)$/\2 (process \1) on a GPU/p'
}

containers() { # fails if docker does not answer
  command -v docker >/dev/null || return 0
  running=$(limit 30 docker ps --format '{{.Names}}' </dev/null 2>/dev/null 3>&-) || return 1
  [ -z "$running" ] || printf '%s\n' "$running" | sed 's/^/container /'
}

containers_lost() { # with live-restore, containers survive a stop of the engine
  runs docker.service || return 0
  [ "$(limit 30 docker info --format '{{.LiveRestoreEnabled}}' </dev/null 2>/dev/null 3>&-)" != true ] || return 0
  containers || printf 'any container (docker does not answer)\n'
}

nfs_clients() {
  for client in /proc/fs/nfsd/clients/*/info; do # NFS 4, from Linux 5.3
    [ -f "$client" ] && ! grep -q '^status: courtesy' "$client" || continue
    sed -n 's/^address: "\(.*\):[0-9]*".*/NFS client \1/p' "$client"
  done
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
    awk '$2 ~ /:0801$/ && $4 == "01" { many++ } END { if (many) print many " connections of NFS clients" }'
}

served_by() { # UNIT: print its users, one per line
  case $1 in
    docker.service | containerd.service) containers_lost ;;
    nvidia-fabricmanager.service) on_gpus ;;
    nfs-server.service | nfs-kernel-server.service) nfs_clients ;;
  esac
}

nobody_lost() { # UNIT WHAT(stopped|restarted) ADVICE: fail with $reason if the unit is in use
  [ -z "$FORCE" ] && runs "$1" || return 0
  lost=$(served_by "$1" | sort -u | head -n 8 | tr '\n' ';' | sed 's/;$//; s/;/; /g')
  [ -n "$lost" ] || return 0
  reason="$1 is not $2, because it is in use by $lost ($3)"
  return 1
}

so_enable_unit() { # UNIT START(0|1)
  [ "$(unit_state enabled "$1")" = enabled ] || return 1
  [ "$2" = 0 ] || [ "$(unit_state active "$1")" = active ]
}

prior_enable_unit() {
  command -v systemctl || { reason='systemctl is not installed'; return 1; }
  keep unit "$1" && keep enabled "$(unit_state enabled "$1")" && keep active "$(unit_state active "$1")" &&
    keep silent "$(silent_sockets "$1")"
}

silent_sockets() { # UNIT: print its socket units that do not listen yet; the unit may start them, as docker does
  for socket in $(systemctl show -p TriggeredBy "$1" 2>/dev/null); do
    socket=${socket#TriggeredBy=}
    case $socket in *.socket) runs "$socket" || printf '%s\n' "$socket" ;; esac
  done
}

do_enable_unit() { # a running unit is not restarted, because others may be using it
  logged limit 180 systemctl enable "$1" || return 1
  [ "$2" = 0 ] || runs "$1" || logged limit 180 systemctl start "$1" || return 1
  reason="$1 is $(unit_state enabled "$1") and $(unit_state active "$1") after it was enabled"
}

# The other nodes of the same undo unmount this server's exports at the same time.
leaving_soon() { # UNIT
  case $1 in nfs-server.service | nfs-kernel-server.service) ;; *) return 1 ;; esac
  [ "$patience" -gt 0 ] && [ -z "$gone" ] || return 1
  patience=$((patience - 1))
  sleep 2
}

may_stop() { # UNIT: fail with $reason if the unit is in use
  patience=15
  until nobody_lost "$1" stopped 'end these and undo again, or stop it anyway with --force'; do
    leaving_soon "$1" || return 1
  done
}

would_enable_unit() {
  would=
  kept active
  case $value in active | activating | reloading) ;; *) would=stop ;; esac
  kept enabled
  [ "$value" = enabled ] || would="${would:+$would and }disable"
  kept unit
  if [ -n "$would" ]; then would="- $would $value"; else would=". leave $value enabled and active, as it was"; fi
}

undo_enable_unit() {
  kept unit; unit=$value
  kept active
  case $value in
    active | activating | reloading) ;;
    *)
      may_stop "$unit" || return 1
      # A listening socket would start the unit again for any client, for example the next check.
      kept silent
      # A missing unit cannot be stopped, nor can a mount that is in use.
      # shellcheck disable=SC2086 # one word per socket
      logged limit 180 systemctl stop "$unit" $value || ! runs "$unit" || { reason="$unit cannot be stopped: $reason"; return 1; }
      ;;
  esac
  kept enabled
  [ "$value" = enabled ] || [ "$(unit_state enabled "$unit")" != enabled ] ||
    logged limit 180 systemctl disable "$unit"
}

# A unit that must read its files again. It is undone after all other steps, when the old files are restored.
so_restart_unit() { return 1; } # UNIT

prior_restart_unit() {
  command -v systemctl || { reason='systemctl is not installed'; return 1; }
  keep unit "$1"
}

sound() { # UNIT: would it start again? Without its SSH server the node would be unreachable.
  case $1 in ssh.service | sshd.service | ssh | sshd) ;; *) return 0 ;; esac
  sshd=$(command -v sshd) || sshd=/usr/sbin/sshd # sshd must be called by its full path
  [ ! -x "$sshd" ] || logged limit 30 "$sshd" -t || {
    reason="$1 is not restarted, because sshd -t rejects its configuration: $reason"
    return 1
  }
}

restart() { # UNIT ADVICE
  if ! runs "$1"; then
    logged limit 180 systemctl try-restart "$1"
    return
  fi
  nobody_lost "$1" restarted "$2" && sound "$1" || return 1
  logged limit 180 systemctl try-restart "$1" || return 1
  for patience in 4 3 2 1 0; do
    ! runs "$1" || return 0
    [ "$patience" = 0 ] || sleep 1
  done
  reason="$1 was running, but is $(unit_state active "$1") after its restart (see journalctl -u $1)"
  return 1
}

do_restart_unit() { restart "$1" 'end these and run this again'; }

would_restart_unit() { kept unit; would="~ restart $value"; }

undo_restart_unit() {
  kept unit
  # An earlier step of this undo may have removed the unit with its package.
  case $(systemctl show -p LoadState "$value") in *not-found*) return 0 ;; esac
  restart "$value" 'end these and undo again, or restart it anyway with --force'
}
