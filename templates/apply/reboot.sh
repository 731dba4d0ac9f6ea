# Reboot: who is at work on the node, and booting it anew as the last thing that a run does there.

booting=    # the number of the step that boots the node, once it is clear that it will

so_reboot() { # an entry of another boot: it has been
  [ -n "$entry" ] || return 1
  kept boot
  [ -n "$value" ] && [ "$value" != "$boot" ]
}

prior_reboot() {
  # Without an entry of the boot that has just ended: booting again, and again, would bring nothing back.
  [ -z "$BOOTED_FROM" ] || {
    reason="the node has booted anew, and its journal below $STATE is gone: are its files made anew at each boot"
    reason="$reason (from an image, in memory)? Then what this run has changed belongs into that image"
    return 1
  }
  keep boot "$boot"
}

undo_reboot() { :; }

at_work() { # who or what a reboot would cut off, one per line
  on_gpus >&4
  containers >&4 || :
  if command -v squeue; then
    limit 30 squeue -h -w "$(uname -n | cut -d. -f1)" -o 'Slurm job %i of %u' </dev/null 2>/dev/null 3>&- >&4
  elif command -v scontrol; then
    limit 30 scontrol show node "$(uname -n | cut -d. -f1)" </dev/null 2>/dev/null 3>&- |
      sed -n 's/.*State=\(\(ALLOC\|MIXED\|COMPLETING\)[^ ]*\).*/Slurm (node state \1)/p' >&4
  fi
  ! command -v who || who | awk '{ print "user " $1 " on " $2 }' >&4
  # People's own processes; those of a login session as such, and ours, are none.
  mine=" $$ "
  up=$$
  while [ "${up:-1}" -gt 1 ]; do
    up=$(awk '/^PPid:/ { print $2 }' "/proc/$up/status" 2>/dev/null) || break
    mine="$mine$up "
  done
  # Through cat, which passes over a process that ends meanwhile: mawk would stop there. Directory services give people
  # numbers from 60000 up as well; systemd has 61184 to 65519 for services without a user, and 65534 is nobody.
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
    reason='clusterctl runs on this machine: boot it by hand, then go on with --resume'
    return 1
  fi
  [ -n "$FORCE_REBOOT" ] || {
    busy=$(at_work 4>&1 >/dev/null | sort -u | head -n 8 | tr '\n' ';' | sed 's/;$//; s/;/; /g')
    [ -z "$busy" ] || {
      reason="not booted anew while at work: $busy (end them, or allow it with --force-reboot)"
      return 1
    }
  }
  booting=$seq
}

boot_now() { # the controller waits for another boot id; nothing may be left to be done here
  record "$booting" rebooting "$boot"
  sync
  logged limit 60 systemctl reboot || logged limit 60 shutdown -r now || logged limit 60 reboot ||
    record "$booting" failed "the node cannot be booted anew: $reason"
}
