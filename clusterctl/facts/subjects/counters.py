"""Counters that mean something only beside an earlier reading: network, RDMA, PCIe, memory, CPU and oom kills."""

from __future__ import annotations

import re

from clusterctl.facts.base import Fragment, Unparsable, path_lines
from clusterctl.facts.model.health import DeviceCount
from clusterctl.text.foreign import is_whole, lines, whole

ETHERNET = ("rx_errors", "tx_errors", "rx_missed_errors", "rx_dropped", "tx_dropped")
RDMA = (
    *("symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors"),
    *("port_rcv_remote_physical_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors"),
)
RDMA_HW = (
    *("out_of_sequence", "packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err"),
    *("rnr_nak_retry_err", "rx_icrc_encapsulated", "rx_drops"),
    *("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored"),
)

# Error counters of PCI devices are many and nearly all zero, so that zeros are left out; the class tells what the
# device is. Interfaces without a device (bridges, tunnels, those of containers) count only on a node with just those,
# such as a container.
_COUNTERS = f"""\
for f in /sys/class/infiniband/*/ports/1/link_layer; do
  x=; {{ read -r x <"$f"; }} 2>/dev/null
  [ "$x" = Ethernet ] || continue
  for d in "${{f%/ports/*}}"/device/net/*; do
    [ -e "$d" ] || continue
    # The device of a bond has the interface of its first port.
    y=; {{ read -r y <"/sys/class/net/${{d##*/}}/master/bonding/slaves"; }} 2>/dev/null
    for d in ${{y:-${{d##*/}}}}; do
      # Drivers of other vendors have other names (bnxt: rx_pfc_ena_frames_pri3); dcb reads the same of each.
      t 10 ethtool -S "$d" 2>/dev/null |
        grep -E '^ *([rt]x_prio[0-7]_(bytes|discards)|tx_pause_storm_[a-z]+_events): [0-9]' |
        while read -r x y; do echo "roce $d $x $y"; done
      t 10 dcb -s pfc show dev "$d" 2>/dev/null | while read -r x y; do echo "dcb $d $x $y"; done
    done
  done
done
set --
for f in /sys/class/net/*; do [ -e "$f/device" ] && set -- "$@" "$f"; done
[ $# -gt 0 ] || for f in /sys/class/net/*; do
  [ "$f" = /sys/class/net/lo ] || [ -e "$f/bridge" ] || [ -e "$f/brport" ] || set -- "$@" "$f"
done
w=; for f in "$@"; do
  for x in {" ".join(ETHERNET)}; do w="$w $f/statistics/$x"; done
  w="$w $f/carrier_changes"
done
g $w {" ".join(f"/sys/class/infiniband/*/ports/*/counters/{name}" for name in RDMA)} \\
  {" ".join(f"/sys/class/infiniband/*/ports/*/hw_counters/{name}" for name in RDMA_HW)} \\
  /sys/devices/system/edac/mc/mc*/ce_count /sys/devices/system/edac/mc/mc*/ue_count
grep -Hs '[1-9]' /sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count
grep -Hs '^oom_kill ' /proc/vmstat
grep -Hs ' [1-9]' /sys/bus/pci/devices/*/aer_dev_correctable /sys/bus/pci/devices/*/aer_dev_nonfatal \\
  /sys/bus/pci/devices/*/aer_dev_fatal | while IFS= read -r y; do
  x=; {{ read -r x <"${{y%%/aer_dev_*}}/class"; }} 2>/dev/null
  printf '%s %s\\n' "${{x:--}}" "$y"
done
for f in /sys/bus/pci/devices/*/aer_dev_correctable; do
  if [ -e "$f" ]; then echo aer; break; fi
done
return 0"""

FRAGMENTS = (Fragment("counters", _COUNTERS, limit_bytes=1024 * 1024),)


def parse_counts(text: str) -> tuple[DeviceCount, ...]:
    """Parse the counters of the devices; those of the CPUs' throttling are the largest of all CPUs."""
    found: dict[tuple[str, str, str], int] = {}
    pci = False
    for line in lines(text):
        if line == "aer":
            pci = True
        elif match := re.fullmatch(
            r"(\S{1,12}) /sys/bus/pci/devices/([0-9a-f:.]{7,16})/aer_dev_(\w{1,12}):(\w{1,40}) (\d{1,20})",
            line,
        ):
            # Network cards, displays (GPUs) and bridges; the sums are those of the other lines.
            kind = "pcie" if re.match(r"0x0[236]", match[1]) else "pcie_other"
            if not match[4].startswith("TOTAL"):
                found[kind, match[2], f"{match[3]}: {match[4]}"] = int(match[5])
        elif line.startswith(("roce ", "dcb ")):
            found.update(_of_priorities(line))
    for path, said in path_lines(text):
        place, value = _place(path), said.removeprefix("oom_kill ")
        if place is not None and is_whole(value):
            found[place] = max(whole(value), found.get(place, 0) if place[0] == "cpu" else 0)
    if pci:
        found["pcie", "", "devices"] = 0
    if not found:
        raise Unparsable("no counter in the output")
    return tuple(DeviceCount(*key, value) for key, value in sorted(found.items()))


def _of_priorities(line: str) -> dict[tuple[str, str, str], int]:
    """Return the counters in a line of ``ethtool -S`` (mlx5's names) or ``dcb -s pfc show``, after the interface.

    Source: Linux, Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst, and dcb-pfc(8).
    """
    if match := re.fullmatch(r"roce (\S{1,40}) ([rt]x)_prio([0-7])_(bytes|discards): (\d{1,20})", line):
        return {("roce", match[1], f"{match[2]}_{match[4]}: priority {match[3]}"): int(match[5])}
    if match := re.fullmatch(r"roce (\S{1,40}) tx_pause_storm_([a-z]{1,20})_events: (\d{1,20})", line):
        return {("roce", match[1], f"pause_storm: {match[2]}"): int(match[3])}
    match = re.fullmatch(
        r"dcb (\S{1,40}) (prio-pfc|requests|indications)((?: [0-7]:(?:on|off|\d{1,20})){1,8})", line
    )
    if match is None:
        return {}
    name = {"prio-pfc": "pfc", "requests": "tx_pause", "indications": "rx_pause"}[match[2]]
    values = (word.split(":") for word in match[3].split())
    return {
        ("roce", match[1], f"{name}: priority {priority}"): int(value == "on")
        if name == "pfc"
        else whole(value)
        for priority, value in values
        if name == "pfc" or is_whole(value)
    }


def _place(path: str) -> tuple[str, str, str] | None:
    """Return kind, place and name of the counter in a file; None for another file."""
    if match := re.fullmatch(r"/sys/class/net/([^/]{1,40})/(?:statistics/)?(\w{1,40})", path):
        return "ethernet", match[1], match[2]
    if match := re.fullmatch(
        r"/sys/class/infiniband/([^/]{1,40})/ports/(\d{1,4})/(?:hw_)?counters/(\w{1,60})", path
    ):
        return "rdma", f"{match[1]}:{match[2]}", match[3]
    if match := re.fullmatch(r"/sys/devices/system/edac/mc/(mc\d{1,4})/([cu]e_count)", path):
        return "memory", match[1], match[2]
    if match := re.fullmatch(r"/sys/devices/system/cpu/cpu\d{1,6}/thermal_throttle/(\w{1,40})", path):
        return "cpu", "CPU", match[1]
    return ("host", "memory", "oom_kill") if path == "/proc/vmstat" else None
