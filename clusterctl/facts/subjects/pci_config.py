"""The configuration space of PCI bridges: the kind of each port, and its ACS capability and control words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterctl.facts.base import (
    Fragment,
    Reading,
    ReadStatus,
    Section,
    Unparsable,
    absent,
    failed,
    read_text,
    unparsable,
)
from clusterctl.facts.model.devices import Acs, Bridge
from clusterctl.text.foreign import whole

FRAGMENT = Fragment(
    "pci_config",
    # One od dumps all bridges as one stream, so the files' order and sizes are printed before the dump. od omits
    # repeated lines ("*"), which reduces the mostly empty 4 KiB of a port to a few hundred bytes.
    """\
r 'LC_ALL=C; export LC_ALL; set --; cd /sys/bus/pci/devices
for d in *; do
  c=; read -r c <"$d/class"
  case $c in 0x0604*) set -- "$@" "$d/config";; esac
done
if [ $# -gt 0 ]; then printf "file %s\\n" "$@"; ls -lL "$@"; od -A x -t x1 "$@"; fi'""",
    needs="[ -d /sys/bus/pci/devices ]",
    missing="the node has no PCI bus (/sys/bus/pci not found)",
    root=True,
)

HEADER_BYTES = 256
EXTENDED_BYTES = 4096
ACS_CAPABILITY = 0x000D
PCIE_CAPABILITY = 0x10
PORT_KINDS = {
    4: "root-port",
    5: "upstream-port",
    6: "downstream-port",
    7: "pcie-to-pci",
    8: "pci-to-pcie",
}
"""Device/Port Type of the PCI Express Capabilities register (bits 7:4 at +2)."""

_DUMP_LIMIT = 64 * 1024 * 1024


def undump(text: str) -> bytes:
    """Return the bytes of a dump by ``od -A x -t x1``, including the repeated lines that it omits ("*").

    Raise Unparsable if offsets are missing, out of order or above 64 MiB.
    """
    data = bytearray()
    last = b""
    repeats = False
    for line in text.splitlines():
        if line.strip() == "*":
            repeats = True
            continue
        words = line.split()
        offset = whole(words[0], 16)
        if offset > _DUMP_LIMIT or offset < len(data):
            raise Unparsable(f"the offsets of od are out of order at {line[:40]!r}")
        if repeats and last:
            data += last * ((offset - len(data)) // len(last))
        repeats = False
        if offset != len(data):
            raise Unparsable(f"bytes are missing before {line[:40]!r}")
        last = bytes(whole(word, 16) for word in words[1:])
        data += last
    return bytes(data)


def parse_spaces(text: str) -> dict[str, bytes]:
    """Return each bridge's configuration space, with as many bytes as the node could read."""
    names = re.findall(r"^file (\S+)/config$", text, re.MULTILINE)
    # -r--r--r-- 1 root root 4096 Nov 20 10:00 0000:00:01.0/config
    listed = [line.split() for line in text.splitlines() if line.startswith("-") and line.endswith("/config")]
    sizes = {words[-1].removesuffix("/config"): whole(words[-5]) for words in listed if len(words) >= 8}
    dump = undump("\n".join(re.findall(r"^(?:[0-9a-f]{6,}(?: +[0-9a-f]{2})*|\*) *$", text, re.MULTILINE)))
    if not names or sum(sizes.get(name, 0) for name in names) != len(dump):
        raise Unparsable(f"{len(dump)} bytes of configuration space do not match the files' sizes")
    spaces: dict[str, bytes] = {}
    offset = 0
    for name in names:
        spaces[name] = dump[offset : offset + sizes[name]]
        offset += sizes[name]
    return spaces


def _word(data: bytes, offset: int) -> int:
    if offset + 2 > len(data):
        raise Unparsable(f"the configuration space ends before {offset:#x}")
    return data[offset] | data[offset + 1] << 8


def port_kind(space: bytes) -> str:
    """Return the kind of a bridge from its PCI Express capability; ``pci`` without that capability."""
    if len(space) < HEADER_BYTES or space[:4] == b"\xff" * 4:
        raise Unparsable("the device does not respond: its configuration space is short or all ones")
    pointer = space[0x34] & 0xFC if space[0x06] & 0x10 else 0
    for _ in range(HEADER_BYTES // 4):
        if pointer < 0x40:
            return "pci"
        if space[pointer] == PCIE_CAPABILITY:
            kind = _word(space, pointer + 2) >> 4 & 0xF
            return PORT_KINDS.get(kind, f"pcie-type-{kind}")
        pointer = space[pointer + 1] & 0xFC
    raise Unparsable("the list of capabilities is circular")


def find_acs(space: bytes) -> Acs | None:
    """Return the ACS capability from the extended capabilities (from 0x100); None without one."""
    pointer = HEADER_BYTES
    for _ in range((EXTENDED_BYTES - HEADER_BYTES) // 8):
        header = _word(space, pointer) | _word(space, pointer + 2) << 16
        if header in (0, 0xFFFFFFFF):
            return None
        if header & 0xFFFF == ACS_CAPABILITY:
            return Acs(pointer, capability=_word(space, pointer + 4), control=_word(space, pointer + 6))
        pointer = header >> 20 & 0xFFC
        if pointer < HEADER_BYTES:
            return None
    raise Unparsable("the list of extended capabilities is circular")


def _acs(space: bytes, kind: str) -> Reading[Acs]:
    if len(space) <= HEADER_BYTES:
        if kind == "pci":
            return absent("a conventional PCI bridge has no ACS")
        return failed("the extended configuration space is not accessible on this node")
    found = read_text("", lambda _: find_acs(space))
    if found.status is not ReadStatus.OK:
        return Reading(None, found.status, found.detail)
    return absent("the port has no ACS capability") if found.value is None else Reading(found.value)


@dataclass(frozen=True, slots=True, init=False)
class ConfigSpaces:
    """All bridges' configuration spaces, or the reason why reading them failed."""

    spaces: Reading[dict[str, bytes]]

    def __init__(self, section: Section) -> None:
        object.__setattr__(self, "spaces", section.read(parse_spaces))

    def bridge(self, address: str) -> Bridge:
        """Return kind and ACS of one bridge, or the reasons why they are unknown."""
        if self.spaces.value is None:
            return Bridge(None, Reading(None, self.spaces.status, self.spaces.detail))
        space = self.spaces.value.get(address)
        if space is None:
            return Bridge(None, failed("the configuration space of this bridge was not read"))
        kind = read_text("", lambda _: port_kind(space))
        if kind.value is None:
            return Bridge(None, unparsable(kind.detail))
        return Bridge(kind.value, _acs(space, kind.value))
