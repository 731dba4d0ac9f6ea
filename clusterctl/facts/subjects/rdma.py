"""RDMA devices, ports and GID tables from sysfs, and the userspace libraries that programs need to use them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from clusterctl.facts.base import Files, Fragment, Reading, ReadStatus, Section, Sections, Unparsable, links
from clusterctl.facts.model.fabric import Gid, Rdma, RdmaDevice, RdmaPort
from clusterctl.facts.subjects.pci import BDF
from clusterctl.text.foreign import is_whole, whole

COUNTERS = (
    *("symbol_error", "link_downed", "link_error_recovery"),
    *("port_rcv_errors", "port_xmit_discards", "port_xmit_wait"),
)
HW_COUNTERS = (
    *("out_of_sequence", "packet_seq_err", "local_ack_timeout_err"),
    *("rnr_nak_retry_err", "roce_slow_restart"),
)
_COUNTER_GLOBS = " ".join(
    [f"*/ports/*/counters/{name}" for name in COUNTERS]
    + [f"*/ports/*/hw_counters/{name}" for name in HW_COUNTERS]
)

AMAZON = "/sys/class/dmi/id/sys_vendor:Amazon EC2"
"""The line of Amazon's machines in the section ``system``."""
_CONNECTX_7 = 0x1021
_BRIDGE_FUNCTIONS = 4

FRAGMENTS = (
    # GID tables have hundreds of entries, nearly all zero. Zero entries are dropped; type and network device are
    # read only for the others (the kernel returns EINVAL for an unset type, which is not a failure).
    Fragment(
        "rdma",
        f"""\
cd /sys/class/infiniband || return 127
g */fw_ver */board_id */node_guid */sys_image_guid */hca_type */hw_rev */node_type */parent \\
  */device/numa_node */device/device */ports/*/state */ports/*/phys_state */ports/*/rate */ports/*/link_layer \\
  */ports/*/lid */ports/*/lid_mask_count */ports/*/sm_lid */ports/*/cap_mask \\
  {_COUNTER_GLOBS}
grep -Hsv '^0000:0000:0000:0000:0000:0000:0000:0000$' */ports/*/gids/* | while IFS=: read -r p x; do
  printf '%s:%s\\n' "$p" "$x"
  b=${{p%/gids/*}}/gid_attrs; i=${{p##*/}}
  {{ read -r v <"$b/types/$i"; }} 2>/dev/null && printf '%s\\n' "$b/types/$i:$v"
  {{ read -r v <"$b/ndevs/$i"; }} 2>/dev/null && printf '%s\\n' "$b/ndevs/$i:$v"
done
for f in */device/net/*; do [ -e "$f" ] && echo "netdev $f"; done
ls -ld -- * 2>/dev/null
return 0""",
        needs="[ -d /sys/class/infiniband ]",
        missing="no RDMA stack is loaded (/sys/class/infiniband not found)",
    ),
    # An HGX B100, B200 or B300 manages its NVLink switches through four functions of one ConnectX-7. Only their
    # vital product data (NVIDIA fabric manager user guide, HGX B200/B300 GPU baseboard) and their number distinguish
    # them from network cards, which have two ports at most. Only root may read the vital product data, and the card
    # returns them slowly, so they are read only on nodes that may have such a board.
    Fragment(
        "nvlink_bridges",
        """\
r 'cd /sys/class/infiniband && { set --
for d in *; do
  i=; { read -r i <"$d/device/device"; } 2>/dev/null
  [ "$i" != 0x1021 ] || set -- "$@" "./$d/device/vpd"
done
timeout -s KILL 10 grep -ls SMDL=SW_MNG "$@"; }'
n $?""",
        needs="""\
k=; for f in /sys/class/infiniband/*/device/device; do
  i=; { read -r i <"$f"; } 2>/dev/null
  [ "$i" != 0x1021 ] || k=1
done
b=; [ "$k" ] && for f in /sys/bus/pci/devices/*/device; do
  i=; { read -r i <"$f"; } 2>/dev/null
  case $i in 0x29??|0x31??) ;; *) continue;; esac
  v=; c=; { read -r v <"${f%device}vendor"; read -r c <"${f%device}class"; } 2>/dev/null
  case $v$c in 0x10de0x0302*) b=1;; esac
done
[ "$b" ]""",
        missing="no GPUs of a board whose NVLink switches are managed through a ConnectX-7",
        root=True,
    ),
    Fragment(
        "rdma_userspace",
        """\
for f in /usr/lib/*-linux-gnu*/libibverbs.so.1 /usr/lib64/libibverbs.so.1 /usr/lib/libibverbs.so.1 \\
  /lib/*-linux-gnu*/libibverbs.so.1 /lib64/libibverbs.so.1 /usr/local/lib/libibverbs.so.1 \\
  /usr/lib/*-linux-gnu*/libibverbs/*.so /usr/lib64/libibverbs/*.so /usr/lib/libibverbs/*.so \\
  /dev/infiniband/*; do
  [ -e "$f" ] && [ ! -d "$f" ] && echo "$f"
done
return 0""",
    ),
    Fragment(
        "ibv_devices",
        "t 10 ibv_devices",
        needs="command -v ibv_devices >/dev/null 2>&1",
        missing="ibv_devices is not installed",
        limit_bytes=64 * 1024,
    ),
)


def _state(text: str | None) -> str:
    """Return the word of the kernel's number and word: ``ACTIVE`` for ``4: ACTIVE``."""
    return (text or "").rpartition(":")[2].strip()


def _gids(files: Files, port: str) -> tuple[Gid, ...]:
    folder = re.escape(port)
    found = [
        Gid(
            index=int(match[1]),
            gid=value,
            type=files.text(f"{port}/gid_attrs/types/{match[1]}") or None,
            netdev=files.text(f"{port}/gid_attrs/ndevs/{match[1]}") or None,
        )
        for match, value in files.matching(rf"{folder}/gids/(\d{{1,6}})")
    ]
    return tuple(sorted(found, key=lambda gid: gid.index))


def _port(files: Files, device: str, number: str) -> RdmaPort:
    port = f"{device}/ports/{number}"
    rate = files.text(f"{port}/rate") or ""
    gbps = re.match(r"(\d{1,5}(?:\.\d{1,3})?) Gb/sec", rate)
    counters = [
        (match[1], whole(value))
        for match, value in files.matching(rf"{re.escape(port)}/(?:hw_)?counters/(\w+)")
        if is_whole(value)
    ]
    gids = _gids(files, port)
    return RdmaPort(
        number=int(number),
        state=_state(files.text(f"{port}/state")),
        phys_state=_state(files.text(f"{port}/phys_state")),
        rate_gbps=float(gbps[1]) if gbps else None,
        rate=rate,
        link_layer=files.text(f"{port}/link_layer") or "",
        lid=files.number(f"{port}/lid"),
        sm_lid=files.number(f"{port}/sm_lid"),
        gids=gids,
        counters=tuple(sorted(counters)),
        guid=gids[0].gid[20:] if gids and gids[0].index == 0 else None,
        lmc=files.number(f"{port}/lid_mask_count"),
        capability_mask=files.number(f"{port}/cap_mask"),
    )


def parse_devices(text: str) -> tuple[RdmaDevice, ...]:
    """Parse the files of /sys/class/infiniband; devices have the kernel's names (mlx5_0, rxe0).

    Raise Unparsable if the text has files but no device.
    """
    files, targets = Files.of_text(text), links(text)
    names = sorted({match[1] for match, _ in files.matching(r"([^/]+)/(?:node_guid|ports/\d+/state)")})
    if not names:
        raise Unparsable("the output has files of RDMA devices, but no device")
    devices = []
    for name in names:
        found = re.findall(BDF, targets.get(name, ""))
        netdevs = re.findall(rf"^netdev {re.escape(name)}/device/net/(\S+)$", text, re.MULTILINE)
        parent = files.text(f"{name}/parent")
        numa = files.number(f"{name}/device/numa_node")
        ports = {match[1] for match, _ in files.matching(rf"{re.escape(name)}/ports/(\d{{1,4}})/state")}
        devices.append(
            RdmaDevice(
                name=name,
                node_guid=files.text(f"{name}/node_guid") or "",
                fw_ver=files.text(f"{name}/fw_ver") or None,
                board_id=files.text(f"{name}/board_id") or None,
                node_type=_state(files.text(f"{name}/node_type")) or None,
                pci_address=found[-1] if found else None,
                numa_node=numa if numa is not None and numa >= 0 else None,
                netdevs=tuple(sorted(set(netdevs) | ({parent} if parent else set()))),
                ports=tuple(_port(files, name, number) for number in sorted(ports, key=int)),
                system_image_guid=files.text(f"{name}/sys_image_guid") or None,
                hca_type=files.text(f"{name}/hca_type") or None,
                hw_rev=files.text(f"{name}/hw_rev") or None,
            )
        )
    return tuple(devices)


def _with_bridges(devices: tuple[RdmaDevice, ...], text: str, said: str) -> tuple[RdmaDevice, ...]:
    """Mark the devices of cards that manage NVLink switches.

    These are the cards of which ``said``, the section ``nvlink_bridges``, names a function, and each ConnectX-7
    with four InfiniBand functions, which can be recognized without root.
    """
    named = set(re.findall(r"^\./([^/\n]+)/device/vpd$", said, re.MULTILINE))
    cards = {_card(device) for device in devices if device.name in named}
    files = Files.of_text(text)
    functions = Counter(
        _card(device)
        for device in devices
        if files.number(f"{device.name}/device/device") == _CONNECTX_7 and _is_infiniband(device)
    )
    cards |= {card for card, count in functions.items() if count >= _BRIDGE_FUNCTIONS}
    return tuple(replace(d, manages_nvlink=True) if _card(d) in cards - {None} else d for d in devices)


def _is_infiniband(device: RdmaDevice) -> bool:
    return bool(device.ports) and all(port.link_layer == "InfiniBand" for port in device.ports)


def _card(device: RdmaDevice) -> str | None:
    return device.pci_address and device.pci_address.rpartition(".")[0]


def _with_bridges_of_amazon(devices: tuple[RdmaDevice, ...], system: str) -> tuple[RdmaDevice, ...]:
    """Mark the InfiniBand devices of Amazon's machines, which have no InfiniBand network.

    A P6-B200 has two InfiniBand devices besides its EFAs, for its NVLink switches (sagemaker-hyperpod-cli #282),
    and does not give access to their vital product data (NVIDIA gpu-driver-container #606).
    """
    if re.search(rf"^{AMAZON}$", system, re.MULTILINE) is None:
        return devices
    return tuple(replace(d, manages_nvlink=True) if _is_infiniband(d) else d for d in devices)


def parse_ibv_devices(text: str) -> tuple[str, ...]:
    """Parse the list of ``ibv_devices``: two lines of header, then name and node GUID."""
    lines = text.splitlines()
    start = next(
        (i for i, line in enumerate(lines) if set(line.split()) and set(line) <= {" ", "-", "\t"}), None
    )
    if start is None:
        raise Unparsable(f"not output of ibv_devices: {text[:160]!r}")
    return tuple(line.split()[0] for line in lines[start + 1 :] if line.strip())


def _userspace(section: Section) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    paths = section.text.split()
    library = next((path for path in paths if path.endswith("/libibverbs.so.1")), None)
    providers = {m[1] for path in paths if (m := re.search(r"/lib(\w+)-rdmav\d+\.so$", path))}
    uverbs = tuple(path for path in paths if path.startswith("/dev/infiniband/"))
    return library, tuple(sorted(providers)), uverbs


def parse(sections: Sections) -> Rdma:
    """Return the facts of all sections about RDMA; a loaded stack without devices gives an empty tuple."""
    section = sections["rdma"]
    library, providers, uverbs = _userspace(sections["rdma_userspace"])
    devices: Reading[tuple[RdmaDevice, ...]]
    if section.status is ReadStatus.EMPTY:
        devices = Reading((), ReadStatus.OK, "the RDMA stack is loaded and has no device")
    else:
        bridges, system = sections["nvlink_bridges"].text, sections["system"].text
        devices = section.read(
            lambda text: _with_bridges_of_amazon(_with_bridges(parse_devices(text), text, bridges), system)
        )
    return Rdma(devices, library, providers, uverbs, sections["ibv_devices"].read(parse_ibv_devices))
