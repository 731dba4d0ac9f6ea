"""``/etc/hosts`` (hosts(5)): an address, its name, and other names of it on each line."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from clusterctl.inventory.imports.found import (
    FoundNode,
    ImportedInventory,
    ImportNote,
    Source,
    numbered_lines,
)


def looks_like(text: str) -> bool:
    """Return whether each line is an address with names, and one of them is the loopback address."""
    lines = [words for line in text.splitlines() if (words := _words(line))]
    addresses = [_address(words[0]) for words in lines]
    named = all(len(words) > 1 and not any("=" in word for word in words) for words in lines)
    return named and None not in addresses and any(one is not None and one.is_loopback for one in addresses)


def read(source: Source) -> ImportedInventory:
    """Read the first line of each name; addresses of this machine, of groups and of no machine are left out."""
    nodes: dict[str, FoundNode] = {}
    notes: list[ImportNote] = []
    for number, line in numbered_lines(source.name, source.text):
        words = _words(line)
        if not words:
            continue
        address = _address(words[0])
        if address is None or len(words) < 2:
            notes.append(ImportNote(source.name, number, "not imported: not an address with a name"))
            continue
        if any((address.is_loopback, address.is_multicast, address.is_reserved, address.is_unspecified)):
            notes.append(
                ImportNote(source.name, number, f"{address} is not imported: not the address of a node")
            )
            continue
        name = _short(words[1], words[2:])
        others = [word for word in words[1:] if word != name]
        if name in nodes:
            notes.append(
                ImportNote(
                    source.name, number, f"{address} is not imported: {name} is on line {nodes[name].line}"
                )
            )
            continue
        if others:
            notes.append(ImportNote(source.name, number, f"other names are not imported: {' '.join(others)}"))
        nodes[name] = FoundNode(name, source.name, number, str(address))
    return ImportedInventory(tuple(nodes.values()), {}, tuple(notes))


def _words(line: str) -> list[str]:
    return line.partition("#")[0].split()


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _short(name: str, aliases: list[str]) -> str:
    """Return the name without its domain if the line has it, too: files have either of them first."""
    first = name.partition(".")[0]
    return first if first in aliases else name
