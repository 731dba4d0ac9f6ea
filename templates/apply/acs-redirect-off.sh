#!/bin/sh
# Written by clusterctl (requirement acs): clear PCIe ACS redirection on the ports between GPUs and NICs.
# Bus numbers may move: a port is written to only if the device at its address is the one that was there.

PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin
status=0

clear_port() { # ADDRESS VENDOR DEVICE CLASS
  at=/sys/bus/pci/devices/$1
  found="$(cat "$at/vendor" 2>/dev/null) $(cat "$at/device" 2>/dev/null) $(cat "$at/class" 2>/dev/null)"
  if [ "$found" != "0x$2 0x$3 0x$4" ]; then
    echo "$1: left alone, another device is there now ($found); run clusterctl bootstrap again" >&2
    status=1
    return
  fi
  word=$(setpci -s "$1" {{ register }})
  if [ -n "$word" ] && [ "$((0x$word & 0x{{ redirects }}))" -eq 0 ]; then
    return # What else is set there does no harm.
  fi
  setpci -s "$1" {{ register }}=0000
  word=$(setpci -s "$1" {{ register }})
  if [ "$((0x${word:-1}))" -ne 0 ]; then
    echo "$1: reads back $word" >&2
    status=1
  fi
}

{% for port in ports %}
clear_port {{ port.address }} {{ port.vendor }} {{ port.device }} {{ port.class_code }}
{% endfor %}
exit "$status"
