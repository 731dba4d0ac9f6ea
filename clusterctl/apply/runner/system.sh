# Steps that change the running system: SetRegister, Command, LoadModule
# (units.sh: EnableUnit, RestartUnit; packages.sh: InstallPackages; reboot.sh: Reboot).

same_hex() { # A B: equal as hexadecimal numbers ("0" equals "0000")
  case "${1:-x}${2:-x}" in *[!0-9a-fA-F]*) return 1 ;; esac
  [ "$((0x$1))" -eq "$((0x$2))" ]
}

identity_of() { # DEVICE: "vendor device class", because bus numbers may change
  printf '%s %s %s' "$(cat "/sys/bus/pci/devices/$1/vendor")" "$(cat "/sys/bus/pci/devices/$1/device")" \
    "$(cat "/sys/bus/pci/devices/$1/class")"
}

so_set_register() { # DEVICE REGISTER VALUE PRIOR
  same_hex "$(setpci -s "$1" "$2")" "$3"
}

prior_set_register() {
  prior=$(setpci -s "$1" "$2") && [ -n "$prior" ] || { reason="$2 of $1 cannot be read"; return 1; }
  same_hex "$prior" "$4" || remark="$2 of $1 changed after planning: it held $prior, not $4"
  keep device "$1" && keep register "$2" && keep wrote "$3
" && keep prior "$prior" &&
    keep identity "$(identity_of "$1")"
}

do_set_register() {
  claim "$3" || return 1
  logged setpci -s "$1" "$2=$3" || return 1
  reason="$2 of $1 reads back as $(setpci -s "$1" "$2") after $3 was written"
}

ours_in_hex() { # WORD
  kept wrote
  for wrote in $value; do
    ! same_hex "$1" "$wrote" || return 0
  done
  return 1
}

would_set_register() {
  kept device; would=$value
  kept register; would="$value of $would"
  kept prior; would="~ write $value to $would"
}

undo_set_register() {
  kept device; device=$value
  kept register; register=$value
  kept prior; prior=$value
  kept identity
  if [ "$(identity_of "$device")" != "$value" ]; then
    if [ ! -e "/sys/bus/pci/devices/$device" ]; then
      record "$seq" note "$device no longer exists, so its register cannot be restored"
      return 0
    fi
    reason="another device is at $device now ($(identity_of "$device"), was $value)"
    return 1
  fi
  now=$(setpci -s "$device" "$register")
  ! same_hex "$now" "$prior" || return 0
  if ! ours_in_hex "$now" && [ -z "$FORCE" ]; then
    reason="$register of $device holds $now, which this run did not write; use --force to restore $prior anyway"
    return 1
  fi
  logged setpci -s "$device" "$register=$prior" || return 1
  now=$(setpci -s "$device" "$register")
  same_hex "$now" "$prior" || { reason="$register of $device reads back as $now after $prior was written"; return 1; }
}

so_command() { # SECONDS COMMAND UNDO GUARD, the last three quoted for the shell
  [ -n "$4" ] || return 1
  so_seconds=$1
  eval "set -- $4"
  # A shell built-in needs no time limit, which saves starting two programs.
  case $1 in test) "$@" ;; *) limit "$so_seconds" "$@" 3>&- ;; esac
}

prior_command() { keep seconds "$1" && keep undo "$3"; }

do_command() {
  do_seconds=$1
  eval "set -- $2"
  logged limit "$do_seconds" "$@" || return 1
  reason='the command succeeded, but its check still fails afterwards'
}

would_command() { # the description names the change, because the command may be a long script
  kept undo
  if [ -n "$value" ]; then would='~ take back:'; else would='. nothing to take back:'; fi
  kept description; would="$would $value"
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
  reason="modprobe $1 succeeded, but the module is not loaded"
}

would_load_module() { kept module; would="- unload the module $value"; }

undo_load_module() {
  kept module
  unload "$value"
}

unload() { # MODULE: unload first the modules that depend on it, which were loaded after it
  ! module_is_there "$1" || for holder in "/sys/module/$(printf '%s' "$1" | tr - _)/holders"/*; do
    [ ! -e "$holder" ] || unload "${holder##*/}" || return 1
  done
  # The module may have been unloaded with the last of its dependents.
  ! module_is_there "$1" || logged modprobe -r "$1"
}
