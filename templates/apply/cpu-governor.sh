#!/bin/sh
# Written by clusterctl (requirement cpu-governor).

status=0
for policy in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do
  [ -w "$policy" ] || continue
  echo {{ governor }} >"$policy" || status=1
done
exit "$status"
