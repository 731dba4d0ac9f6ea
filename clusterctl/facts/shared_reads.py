"""Files and links that all sections read together: one grep and one ls on the node, shared out here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from clusterctl.facts.base import Fragment, Section, Sections, path_line

FILES = "shared_files"
LINKS = "shared_links"
# Of all folders only those of PCI devices have colons in their names.
_DEVICE = re.compile(r"(/sys/bus/pci/devices/[^/\n]*/[^/:\n]+):(.*)")


def fragments(chosen: Iterable[Fragment]) -> tuple[Fragment, ...]:
    """Return the fragments that read what the chosen ones declare, without naming a file twice."""
    wanted = tuple(chosen)
    files = dict.fromkeys(name for fragment in wanted for name in fragment.files)
    links = dict.fromkeys(name for fragment in wanted for name in fragment.links)
    found = []
    if files:
        found.append(Fragment(FILES, f"g {' '.join(files)}"))
    if links:
        found.append(Fragment(LINKS, f"ls -ld -- {' '.join(links)} 2>/dev/null\nreturn 0"))
    return tuple(found)


def distribute(sections: Sections, chosen: tuple[Fragment, ...]) -> None:
    """Put every line of the shared sections into the sections that declare its path; remove the shared ones."""
    files, links = sections.pop(FILES, None), sections.pop(LINKS, None)
    if files is None and links is None:
        return
    texts: dict[str, list[str]] = {}
    of_files, of_links = _tables(chosen)
    if files is not None:
        for line in files.text.splitlines():
            device = _DEVICE.fullmatch(line)
            path, said = (device[1], device[2]) if device else path_line(line) or ("", "")
            for name, shown in of_files.owners(path):
                texts.setdefault(name, []).append(f"{shown}:{said}\n")
    if links is not None:
        for line in links.text.splitlines():
            head, _, target = line.partition(" -> ")
            path = head.rpartition(" ")[2]
            for name, shown in of_links.owners(path):
                texts.setdefault(name, []).append(f"{shown} -> {target}\n")
    for fragment in chosen:
        if not (fragment.files or fragment.links):
            continue
        own = sections.get(fragment.name)
        if own is None and fragment.script:
            # The section's own words never came: what it would have said is not known.
            continue
        if own is None or own.exit_status == 0:
            sections[fragment.name] = _joined(fragment, "".join(texts.get(fragment.name, ())), own, files)


def _joined(fragment: Fragment, text: str, own: Section | None, files: Section | None) -> Section:
    shared = files if fragment.files else None
    status = shared.exit_status if shared is not None else 0
    error = shared.error if shared is not None and status != 0 else ""
    if own is None:
        return Section(fragment.name, text, status, error)
    words = "\n".join(filter(None, (error, own.error)))
    return replace(own, text=text + own.text, exit_status=status, error=words)


class _Table:
    """Which sections declare a path: worked out once for each path, as the nodes of a fleet have the same."""

    def __init__(self, declared: list[tuple[str, str, tuple[str, ...]]]) -> None:
        self._declared = [
            (name, folder, tuple(_pattern(glob) for glob in globs))
            for name, folder, globs in declared
            if globs
        ]
        self._known: dict[str, tuple[tuple[str, str], ...]] = {}

    def owners(self, path: str) -> tuple[tuple[str, str], ...]:
        """Return (section, path as the section names it)."""
        found = self._known.get(path)
        if found is None:
            if len(self._known) >= _KNOWN_PATHS:
                self._known.clear()
            found = self._known[path] = tuple(
                (name, path.removeprefix(folder))
                for name, folder, patterns in self._declared
                if any(pattern.fullmatch(path) for pattern in patterns)
            )
        return found


_KNOWN_PATHS = 16384


@cache
def _tables(chosen: tuple[Fragment, ...]) -> tuple[_Table, _Table]:
    return (
        _Table([(fragment.name, fragment.folder, fragment.files) for fragment in chosen]),
        _Table([(fragment.name, fragment.folder, fragment.links) for fragment in chosen]),
    )


def _pattern(glob: str) -> re.Pattern[str]:
    """Return the shell's pattern as a regular expression; only ``*`` and sets like ``[0-9]`` are used."""
    parts = re.split(r"(\*|\[[^\]]*\])", glob)
    return re.compile(
        "".join("[^/]*" if p == "*" else p if p.startswith("[") else re.escape(p) for p in parts)
    )
