# Reboot: check who uses the node, and reboot it as the last action of a run there.

booting=    # the number of the step that reboots the node, once the reboot is certain

so_reboot() { # an entry with another boot ID means that the reboot has taken place
  [ -n "$entry" ] || return 1
  kept boot
  [ -n "$value" ] && [ "$value" != "$boot" ]
}

prior_reboot() {
  # The entry of the boot that has just ended is missing, and further reboots would not restore it.
  [ -z "$BOOTED_FROM" ] || {
    reason="the node has rebooted, but its journal below $STATE is missing. If the node is stateless (boots from an image"
    reason="$reason into memory), make the changes of this run in that image instead"
    return 1
  }
  keep boot "$boot"
}

would_reboot() { would='. a reboot cannot be taken back'; }

undo_reboot() { :; }

at_work() { # print users, jobs and programs that a reboot would interrupt, one per line
  on_gpus >&4
  containers >&4 || :
  if command -v squeue; then
    limit 30 squeue -h -w "$(uname -n | cut -d. -f1)" -o 'Slurm job %i of %u' </dev/null 2>/dev/null 3>&- >&4
  elif command -v scontrol; then
    limit 30 scontrol show node "$(uname -n | cut -d. -f1)" </dev/null 2>/dev/null 3>&- |
      sed -n 's/.*State=\(\(ALLOC\|MIXED\|COMPLETING\)[^ ]*\).*/Slurm (node state \1)/p' >&4
  fi
  ! command -v who || who | awk '{ print "user " $1 " on " $2 }' >&4
  # Processes of users, except those of a login session as such and the runner's own ancestors.
  mine=" $$ "
  up=$$
  while [ "${up:-1}" -gt 1 ]; do
    up=$(awk '/^PPid:/ { print $2 }' "/proc/$up/status" 2>/dev/null) || break
    mine="$mine$up "
  done
  # cat skips processes that end meanwhile, where mawk would stop. Directory services assign users IDs from 60000 up as
  # well; systemd reserves 61184 to 65519 for dynamic service users, and 65534 is the user nobody.
  printf '%s\n' /proc/[0-9]*/status | xargs cat 2>/dev/null | awk -v mine="$mine" '
    /^Name:/ { name = $2 }
    /^Pid:/ { pid = $2 }
    /^Uid:/ && $2 >= 1000 && ($2 < 61184 || $2 > 65519) && $2 != 65534 && index(mine, " " pid " ") == 0 &&
      name !~ /^(systemd|\(sd-pam\)|sshd|sshd-session|sftp-server|dbus-daemon|dbus-broker|gpg-agent|ssh-agent|sudo)$/ {
      print name " (process " pid ") of uid " $2 }' >&4
  for at_manager in apt dnf; do
    ! holder_of "$at_manager" || printf '%s installs packages\n' "$holder" >&4
  done
}

do_reboot() {
  if [ "$boot" = "$CONTROLLER_BOOT" ]; then
    reason='clusterctl runs on this machine: reboot it by hand, then continue with --resume'
    return 1
  fi
  [ -n "$FORCE_REBOOT" ] || {
    busy=$(at_work 4>&1 >/dev/null | sort -u | head -n 8 | tr '\n' ';' | sed 's/;$//; s/;/; /g')
    [ -z "$busy" ] || {
      reason="not rebooted while in use: $busy (end these, or allow the reboot with --force-reboot)"
      return 1
    }
  }
  booting=$seq
}

boot_now() { # the controller waits for another boot ID; no work may remain here
  record "$booting" rebooting "$boot"
  sync
  logged limit 60 systemctl reboot || logged limit 60 shutdown -r now || logged limit 60 reboot ||
    record "$booting" failed "the node cannot be rebooted: $reason"
}
