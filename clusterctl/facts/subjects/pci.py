"""The PCI tree from sysfs: classes, drivers, links, paths, and ports with their ACS words."""

from __future__ import annotations

import re
from functools import lru_cache

from clusterctl.facts.base import Files, Fragment, Reading, ReadStatus, Section, Sections, Unparsable, links
from clusterctl.facts.model.devices import Bridge, Link, Pci, PciDevice
from clusterctl.facts.subjects import pci_config
from clusterctl.text.foreign import is_whole, whole

BDF = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"

_FILES = (
    *("class", "vendor", "device", "numa_node"),
    *("current_link_speed", "current_link_width", "max_link_speed", "max_link_width"),
)

FRAGMENTS = (
    Fragment(
        "pci",
        needs="[ -d /sys/bus/pci/devices ]",
        missing="the node has no PCI bus (/sys/bus/pci not found)",
        files=tuple(f"/sys/bus/pci/devices/*/{name}" for name in _FILES),
        links=(
            "/sys/bus/pci/devices/*",
            *(f"/sys/bus/pci/devices/*/{name}" for name in ("driver", "iommu_group", "physfn")),
        ),
        folder="/sys/bus/pci/devices/",
    ),
    pci_config.FRAGMENT,
)


def _speed(text: str | None) -> float | None:
    match = re.match(r"(\d{1,4}(?:\.\d{1,3})?) GT/s", text or "")
    return float(match[1]) if match else None


def _width(number: int | None) -> int | None:
    # The kernel prints 0, 63 or 255 if the device does not report a valid width.
    return number if number is not None and 0 < number < 63 else None


def _device(
    address: str, files: Files, targets: dict[str, str], spaces: pci_config.ConfigSpaces
) -> PciDevice:
    def word(name: str, digits: int) -> str:
        text = (files.text(f"{address}/{name}") or "").removeprefix("0x").lower()
        if not re.fullmatch(rf"[0-9a-f]{{{digits}}}", text):
            raise Unparsable(f"{address}/{name} is not {digits} hexadecimal digits: {text[:40]!r}")
        return text

    def base(name: str) -> str | None:
        target = targets.get(f"{address}/{name}")
        return target.rsplit("/", 1)[-1] if target else None

    class_code = word("class", 6)
    group, node = base("iommu_group"), files.number(f"{address}/numa_node")
    above = re.findall(BDF, targets.get(address, ""))
    return PciDevice(
        address=address,
        class_code=class_code,
        vendor=word("vendor", 4),
        device=word("device", 4),
        driver=base("driver"),
        numa_node=node if node is not None and node >= 0 else None,
        iommu_group=whole(group) if group and is_whole(group) else None,
        path=tuple(above) if above and above[-1] == address else (address,),
        link=Link(
            speed_gtps=_speed(files.text(f"{address}/current_link_speed")),
            width=_width(files.number(f"{address}/current_link_width")),
            max_speed_gtps=_speed(files.text(f"{address}/max_link_speed")),
            max_width=_width(files.number(f"{address}/max_link_width")),
        ),
        bridge=spaces.bridge(address) if class_code.startswith("0604") else None,
        physical_function=base("physfn"),
    )


# Cached, because most nodes of a fleet have the same hardware.
@lru_cache(maxsize=16)
def parse_devices(text: str, config: Section) -> tuple[PciDevice, ...]:
    """Parse the attributes and links of every function, and the registers of bridges."""
    files, targets = Files.of_text(text), links(text)
    addresses = [match[1] for match, _ in files.matching(rf"({BDF})/class")]
    if not addresses:
        raise Unparsable("no PCI device in the output")
    spaces = pci_config.ConfigSpaces(config)
    return tuple(_device(address, files, targets, spaces) for address in sorted(addresses))


def parse(sections: Sections) -> Pci:
    """Return the facts of the sections ``pci`` and ``pci_config``; an empty bus gives an empty tuple."""
    section = sections["pci"]
    if section.status is ReadStatus.EMPTY:
        return Pci(Reading((), ReadStatus.OK, "the bus has no devices"))
    return Pci(section.read(lambda text: parse_devices(text, sections["pci_config"])))


__all__ = ["BDF", "FRAGMENTS", "Bridge", "parse", "parse_devices"]
