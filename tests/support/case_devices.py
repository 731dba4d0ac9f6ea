"""What a requirement's recorded case says of devices, in a line each: PCI, GPUs, RDMA, interfaces."""

from __future__ import annotations

from dataclasses import replace

from clusterctl.facts.base import Reading, ReadStatus
from clusterctl.facts.model.devices import Acs, Bridge, Gpu, GpuTopology, Link, NvLinks, PciDevice
from clusterctl.facts.model.fabric import Bond, Gid, Interface, RdmaDevice, RdmaPort


def reading(value, status=ReadStatus.OK):
    """A value, or one of the words that stand for the lack of one."""
    if isinstance(value, str) and value in {s.value for s in ReadStatus if s is not ReadStatus.OK}:
        return Reading(None, ReadStatus(value), f"recorded as {value}")
    return Reading(value, status)


def pci_device(text):
    """``PARENT/.../ADDRESS CLASS VENDOR:DEVICE [driver=..] [port=..] [acs=WORD|absent|denied|failed]``."""
    place, class_code, product, *rest = text.split()
    options = dict(word.split("=", 1) for word in rest)
    path = tuple(place.split("/"))
    bridge = None
    if class_code.startswith("0604"):
        word = options.get("acs", "absent")
        acs = reading(word) if not word[0].isdigit() else Reading(Acs(0x148, 0x5F, int(word, 16)))
        bridge = Bridge(options.get("port", "root-port"), acs)
    vendor, device = product.split(":")
    return PciDevice(
        path[-1], class_code, vendor, device, options.get("driver"), 0,
        int(options["iommu"]) if "iommu" in options else None, path,
        _link(options.get("link", "32/16/32/16")), bridge, options.get("physfn"),
    )  # fmt: skip


def _link(text):
    """``GT/WIDTH/MAX_GT/MAX_WIDTH``."""
    speed, width, max_speed, max_width = text.split("/")
    return Link(float(speed), int(width), float(max_speed), int(max_width))


def gpu_reading(value):
    """``ADDRESS NAME_WITH_UNDERSCORES [pm=on] [mig=on] [lanes=8] [fabric=STATE/STATUS] [fault=WORDS]``; or a status.

    With a status stands its detail. With ``answered`` a detail is what nvidia-smi warned of beside its table.
    """
    if isinstance(value, dict) and "answered" in value:
        return replace(gpu_reading(value["answered"]), detail=value["detail"])
    if isinstance(value, dict):
        return Reading(None, ReadStatus(value["status"]), value["detail"])
    if isinstance(value, str):
        return reading(value)
    gpus = []
    for index, text in enumerate(value):
        address, name, *rest = text.split()
        options = dict(word.split("=", 1) for word in rest)
        state, _, status = options.get("fabric", "").replace("_", " ").partition("/")
        gpus.append(
            Gpu(
                index, f"GPU-{index}", name.replace("_", " "), address, "580.1", 1, _on(options.get("pm")), True, 0,
                Link(32.0, int(options.get("lanes", 16)), 32.0, 16),
                _on(options.get("mig", "off")), "Default", state or None, status or None,
                options.get("fault", "").replace("_", " ") or None,
            )
        )  # fmt: skip
    return Reading(tuple(gpus))


def nvlinks(text):
    """How many NVLinks are active on each GPU, of the most that one has."""
    counts = [int(word) for word in text.split()]
    rows = ((25.0,) * count + (None,) * (max(counts) - count) for count in counts)
    return (
        Reading(tuple(NvLinks(index, row) for index, row in enumerate(rows))) if counts else reading("absent")
    )


def gpu_topology(text):
    """``GPU0-NIC0=PXB ...``: how far each is from the other."""
    if not text:
        return reading("absent")
    cells = {tuple(pair.split("-")): word for pair, word in (item.split("=") for item in text.split())}
    columns = tuple(sorted({column for _, column in cells}))
    names = sorted({row for row, _ in cells})
    rows = tuple((name, tuple(cells.get((name, column), "SYS") for column in columns)) for name in names)
    return Reading(GpuTopology(columns, rows, ()))


def _on(word):
    return {"on": True, "off": False}.get(word)


def rdma_device(text):
    """``NAME [pci=ADDRESS] [guid=..] [fw=..] [board=..] [netdev=..] [type=..] [nvlink=yes] PORT...``.

    A port is ``1:ACTIVE:LinkUp:400:InfiniBand`` and may end in ``:WIDTH``; ``gid=PORT/INDEX/GID/TYPE/NETDEV`` and
    ``count=PORT/NAME/VALUE`` add to one.
    """
    name, *words = text.split()
    options = {"guid": "0000:0000:0000:0001", "fw": "28.39", "netdev": ""}
    gids, counters, ports = {}, {}, []
    for word in words:
        key, equals, value = word.partition("=")
        if key == "gid":
            port, index, gid, kind, netdev = value.split("/")
            entry = Gid(int(index), gid, kind.replace("_", " ") or None, netdev or None)
            gids.setdefault(int(port), []).append(entry)
        elif key == "count":
            port, counter, number = value.split("/")
            counters.setdefault(int(port), []).append((counter, int(number)))
        elif equals:
            options[key] = value
    for word in words:
        if "=" in word:
            continue
        number, state, phys, rate, layer, *width = word.split(":")
        at = int(number)
        ports.append(
            RdmaPort(
                at, state, phys, float(rate), f"{rate} Gb/sec ({''.join(width) or '4X'})", layer, 1, 1,
                tuple(gids.get(at, ())), tuple(counters.get(at, ())),
            )
        )  # fmt: skip
    return RdmaDevice(
        name, options["guid"], options["fw"], options.get("board"), options.get("type", "CA"), options.get("pci"), 0,
        tuple(filter(None, options["netdev"].split(","))), tuple(ports), options.get("nvlink") == "yes",
    )  # fmt: skip


def interface_reading(value):
    """``NAME MTU[@GBPS] [MASTER] [ADDRESS/LENGTH...]``."""
    if isinstance(value, str):
        return reading(value)
    found = []
    for text in value:
        name, mtu, *rest = text.split()
        addresses = tuple(word for word in rest if "/" in word)
        master = "".join(word for word in rest if "/" not in word) or None
        mtu, _, gbps = mtu.partition("@")
        speed = int(gbps) * 1000 if gbps else None
        found.append(Interface(name, "up", int(mtu), "", speed, None, None, None, master, addresses))
    return Reading(tuple(found))


def bonds(value):
    """``NAME MODE POLICY|- MEMBER...``; a member ends with ``!`` if its link is down, ``?`` if LACP left it out."""
    found = []
    for text in value:
        name, mode, policy, *members = text.split()
        down, outside = ([word[:-1] for word in members if word.endswith(sign)] for sign in "!?")
        names = tuple(word.rstrip("!?") for word in members)
        found.append(Bond(name, mode, None if policy == "-" else policy, names, tuple(down), tuple(outside)))
    return tuple(found)
