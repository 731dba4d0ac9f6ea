"""Files and links of all sections: one grep and one ls read them on the node, this module distributes the lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

from clusterctl.facts.base import Fragment, Section, Sections, path_line

FILES = "shared_files"
LINKS = "shared_links"
# Comments of configuration files are skipped. Empty lines are kept, because a kernel's file may hold only one.
_SAYING = "^[[:space:]]*([^#;[:space:]]|$)"
# Only the directories of PCI devices have colons in their names.
_DEVICE = re.compile(r"(/sys/bus/pci/devices/[^/\n]*/[^/:\n]+):(.*)")


def fragments(chosen: Iterable[Fragment]) -> tuple[Fragment, ...]:
    """Return the fragments that read the files and links of the chosen fragments, each only once."""
    wanted = tuple(chosen)
    files = dict.fromkeys(name for fragment in wanted for name in fragment.files)
    links = dict.fromkeys(name for fragment in wanted for name in fragment.links)
    found = []
    if files:
        found.append(Fragment(FILES, f"grep -HsE '{_SAYING}' {' '.join(files)}; n $?"))
    if links:
        found.append(Fragment(LINKS, f"ls -ld -- {' '.join(links)} 2>/dev/null\nreturn 0"))
    return tuple(found)


def distribute(sections: Sections, chosen: tuple[Fragment, ...]) -> None:
    """Add every line of the shared sections to the sections that declare its path; remove the shared sections."""
    files, links = sections.pop(FILES, None), sections.pop(LINKS, None)
    if files is None and links is None:
        return
    texts: dict[str, list[str]] = {}
    of_files, of_links = _tables(chosen)
    if files is not None:
        for line in files.text.splitlines():
            for name, said in of_files.shares(line):
                texts.setdefault(name, []).append(said)
    if links is not None:
        for line in links.text.splitlines():
            # The columns before the name hold sizes and times, which differ from node to node.
            head, arrow, target = line.partition(" -> ")
            for name, said in of_links.shares(head.rpartition(" ")[2] + arrow + target):
                texts.setdefault(name, []).append(said)
    for fragment in chosen:
        if not (fragment.files or fragment.links):
            continue
        own = sections.get(fragment.name)
        if own is None and fragment.script:
            # The section's own output is missing, so its content is unknown.
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


def _of_file(line: str) -> tuple[str, str]:
    device = _DEVICE.fullmatch(line)
    return (device[1], device[2]) if device else path_line(line) or ("", "")


def _of_link(line: str) -> tuple[str, str]:
    path, _, target = line.partition(" -> ")
    return path, target


class _Table:
    """The sections that declare a line's path, cached by line, since most nodes of a fleet print the same lines.

    Lines that differ between nodes (counters, addresses) come from the same files; their sections are cached by path.
    """

    def __init__(
        self,
        declared: list[tuple[str, str, tuple[str, ...]]],
        parse: Callable[[str], tuple[str, str]],
        between: str,
    ) -> None:
        self._parse = parse
        self._between = between
        self._declared = [
            (name, folder, tuple(_pattern(glob) for glob in globs))
            for name, folder, globs in declared
            if globs
        ]
        self._known: dict[str, tuple[tuple[str, str], ...]] = {}
        self._heads: dict[str, tuple[tuple[str, str], ...]] = {}

    def shares(self, line: str) -> tuple[tuple[str, str], ...]:
        """Return (section, the line in the form in which the section itself would print it)."""
        found = self._known.get(line)
        if found is None:
            path, said = self._parse(line)
            found = tuple((name, f"{head}{said}\n") for name, head in self._declaring(path))
            _remember(self._known, line, found)
        return found

    def _declaring(self, path: str) -> tuple[tuple[str, str], ...]:
        """Return (section, the beginning of its lines about this path)."""
        found = self._heads.get(path)
        if found is None:
            found = tuple(
                (name, path.removeprefix(folder) + self._between)
                for name, folder, patterns in self._declared
                if any(pattern.fullmatch(path) for pattern in patterns)
            )
            _remember(self._heads, path, found)
        return found


def _remember(
    known: dict[str, tuple[tuple[str, str], ...]], words: str, found: tuple[tuple[str, str], ...]
) -> None:
    if len(words) <= _KNOWN_CHARACTERS:
        if len(known) >= _KNOWN_LINES:
            known.clear()
        known[words] = found


_KNOWN_LINES, _KNOWN_CHARACTERS = 16384, 512


@cache
def _tables(chosen: tuple[Fragment, ...]) -> tuple[_Table, _Table]:
    return (
        _Table([(fragment.name, fragment.folder, fragment.files) for fragment in chosen], _of_file, ":"),
        _Table([(fragment.name, fragment.folder, fragment.links) for fragment in chosen], _of_link, " -> "),
    )


def _pattern(glob: str) -> re.Pattern[str]:
    """Convert a shell pattern to a regular expression; only ``*`` and sets like ``[0-9]`` are supported."""
    parts = re.split(r"(\*|\[[^\[\]]*\])", glob)
    return re.compile(
        "".join("[^/]*" if p == "*" else p if p.startswith("[") else re.escape(p) for p in parts)
    )
