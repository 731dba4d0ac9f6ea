# Steps that change the running system: SetRegister, Command, LoadModule, EnableUnit, RestartUnit, InstallPackages.

same_hex() { # A B: equal as numbers ("0" and "0000" are)
  case "${1:-x}${2:-x}" in *[!0-9a-fA-F]*) return 1 ;; esac
  [ "$((0x$1))" -eq "$((0x$2))" ]
}

identity_of() { # DEVICE: "vendor device class", since bus numbers may move
  printf '%s %s %s' "$(cat "/sys/bus/pci/devices/$1/vendor")" "$(cat "/sys/bus/pci/devices/$1/device")" \
    "$(cat "/sys/bus/pci/devices/$1/class")"
}

so_set_register() { # DEVICE REGISTER VALUE PRIOR
  same_hex "$(setpci -s "$1" "$2")" "$3"
}

prior_set_register() {
  prior=$(setpci -s "$1" "$2") && [ -n "$prior" ] || { reason="$2 of $1 cannot be read"; return 1; }
  same_hex "$prior" "$4" || remark="$2 of $1 held $prior, not $4 as when the plan was made"
  keep device "$1" && keep register "$2" && keep wrote "$3" && keep prior "$prior" &&
    keep identity "$(identity_of "$1")"
}

do_set_register() {
  logged setpci -s "$1" "$2=$3" || return 1
  reason="$2 of $1 reads back $(setpci -s "$1" "$2") after $3 was written"
}

undo_set_register() {
  kept device; device=$value
  kept register; register=$value
  kept wrote; wrote=$value
  kept prior; prior=$value
  kept identity
  if [ "$(identity_of "$device")" != "$value" ]; then
    reason="another device is at $device now ($(identity_of "$device"), was $value)"
    return 1
  fi
  now=$(setpci -s "$device" "$register")
  ! same_hex "$now" "$prior" || return 0
  if ! same_hex "$now" "$wrote" && [ -z "$FORCE" ]; then
    reason="$register of $device holds $now, which this run did not write; --force restores $prior all the same"
    return 1
  fi
  logged setpci -s "$device" "$register=$prior" || return 1
  now=$(setpci -s "$device" "$register")
  same_hex "$now" "$prior" || { reason="$register of $device reads back $now after $prior was written"; return 1; }
}

so_command() { # SECONDS COMMAND UNDO GUARD, the last three quoted for the shell
  [ -n "$4" ] && limit "$1" sh -c "$4" 3>&-
}

prior_command() { keep seconds "$1" && keep undo "$3"; }

do_command() {
  logged limit "$1" sh -c "$2" || return 1
  reason='the command ended well, but what it should bring about is not so'
}

undo_command() {
  kept seconds; seconds=$value
  kept undo
  [ -z "$value" ] || logged limit "$seconds" sh -c "$value"
}

module_is_there() { [ -d "/sys/module/$(printf '%s' "$1" | tr - _)" ]; }

so_load_module() { module_is_there "$1"; } # MODULE

prior_load_module() { keep module "$1"; }

do_load_module() {
  logged modprobe "$1" || return 1
  reason="modprobe $1 ended well, but the module is not there"
}

undo_load_module() {
  kept module
  ! module_is_there "$value" || logged modprobe -r "$value"
}

state_of() { systemctl "is-$1" "$2" 2>/dev/null | head -n 1; }

so_enable_unit() { # UNIT START(0|1)
  [ "$(state_of enabled "$1")" = enabled ] || return 1
  [ "$2" = 0 ] || [ "$(state_of active "$1")" = active ]
}

prior_enable_unit() {
  command -v systemctl || { reason='systemctl is not there'; return 1; }
  keep unit "$1" && keep enabled "$(state_of enabled "$1")" && keep active "$(state_of active "$1")"
}

do_enable_unit() {
  logged limit 180 systemctl enable "$1" || return 1
  [ "$2" = 0 ] || logged limit 180 systemctl restart "$1" || return 1
  reason="$1 is $(state_of enabled "$1") and $(state_of active "$1") after it was enabled"
}

undo_enable_unit() {
  kept unit; unit=$value
  kept active
  if [ "$value" != active ] && [ "$value" != activating ]; then
    logged limit 180 systemctl stop "$unit" || :
  fi
  kept enabled
  [ "$value" = enabled ] || [ "$(state_of enabled "$unit")" != enabled ] ||
    logged limit 180 systemctl disable "$unit"
}

# A unit that must read its files anew. Its undo comes after that of all other steps, when the old files are back.
so_restart_unit() { return 1; } # UNIT

prior_restart_unit() {
  command -v systemctl || { reason='systemctl is not there'; return 1; }
  keep unit "$1"
}

do_restart_unit() { logged limit 180 systemctl try-restart "$1"; }

undo_restart_unit() {
  kept unit
  logged limit 180 systemctl try-restart "$value"
}

installed() { # MANAGER PACKAGE
  case $1 in
    apt) [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$2" 2>/dev/null | cut -c1-2)" = ii ] ;;
    *) rpm -q --quiet "$2" ;;
  esac
}

so_install_packages() { # MANAGER PACKAGE...
  so_manager=$1
  shift
  for so_package in "$@"; do installed "$so_manager" "$so_package" || return 1; done
}

apt() { limit 900 apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold "$@" 3>&-; }

prior_install_packages() {
  keep manager "$1" || return 1
  manager=$1
  shift
  if [ "$manager" = apt ]; then
    # What apt would bring is journalled beforehand: after a crash in the middle, undo removes these and no others.
    if ! apt -s --no-install-recommends install "$@" >"$new/simulated" 2>/dev/null; then
      logged apt update || return 1
      logged apt -s --no-install-recommends install "$@" || return 1
      cp "$STATE/output" "$new/simulated" || return 1
    fi
    for package in $(sed -n 's/^Inst \([^ ]*\).*/\1/p' "$new/simulated"); do
      installed apt "$package" || printf '%s\n' "$package"
    done >"$new/brings"
    rm -f "$new/simulated"
  else
    rpm -qa --qf '%{NAME}\n' | sort -u >"$new/before"
  fi
}

do_install_packages() {
  manager=$1
  shift
  if [ "$manager" = apt ]; then
    logged apt --no-install-recommends install "$@" || { logged apt update &&
      logged apt --no-install-recommends install "$@"; } || return 1
  else
    logged limit 900 dnf -y install "$@" || return 1
    rpm -qa --qf '%{NAME}\n' | sort -u | comm -13 "$entry/before" - >"$entry/brings"
  fi
  reason="not installed afterwards: $*"
}

undo_install_packages() {
  kept manager; manager=$value
  [ -f "$entry/brings" ] || rpm -qa --qf '%{NAME}\n' | sort -u | comm -13 "$entry/before" - >"$entry/brings"
  set --
  while read -r package; do
    ! installed "$manager" "$package" || set -- "$@" "$package"
  done <"$entry/brings"
  [ $# -gt 0 ] || return 0
  if [ "$manager" != apt ]; then
    logged limit 900 dnf -y --noautoremove remove "$@"
    return
  fi
  for package in $(apt -s purge "$@" 2>/dev/null | sed -n 's/^\(Purg\|Remv\) \([^ ]*\).*/\2/p'); do
    case " $* " in
      *" $package "*) ;;
      *) [ -n "$FORCE" ] || { reason="removing $* would also remove $package, installed since"; return 1; } ;;
    esac
  done
  logged apt purge "$@"
}
