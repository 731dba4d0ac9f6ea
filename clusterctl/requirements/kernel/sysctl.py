"""Compare kernel parameters with wanted values, write them, and find what overrides them at boot."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from clusterctl.facts.base import ReadStatus
from clusterctl.facts.subjects.configuration import READ_ONLY
from clusterctl.requirements.rendering import render
from clusterctl.requirements.steps import Step, WriteFile, WriteValue
from clusterctl.text.foreign import is_whole, whole

if TYPE_CHECKING:
    from clusterctl.facts.model.host import ConfigLine
    from clusterctl.facts.model.node import NodeFacts

_FOLDERS = ("/etc/", "/run/", "/usr/local/lib/", "/usr/lib/")
"""Directories by precedence: a file hides files of the same name in later directories (sysctl.d(5))."""

Kind = Literal["least", "exact", "range", "ports"]
"""``least``: each number at least as large; ``range``: at least as wide; ``ports``: a superset; else ``exact``."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A parameter by its dotted name, and its required value."""

    name: str
    value: str
    kind: Kind = "least"

    def target(self, now: str) -> str:
        """Return the value to write when ``now`` is the current one; parts that are already better are kept."""
        if self.kind == "exact":
            return self.value
        if self.kind == "ports":
            return _all_ports(now, self.value)
        have, want = _numbers(now), _numbers(self.value)
        if len(have) != len(want):
            return self.value
        if self.kind == "range" and len(want) == 2:
            return f"{min(have[0], want[0])} {max(have[1], want[1])}"
        return " ".join(str(max(pair)) for pair in zip(have, want, strict=True))

    def satisfied(self, now: str) -> bool:
        """Return whether a value is at least as good as the wanted one."""
        return self.target(now).split() == (_all_ports(now).split() if self.kind == "ports" else now.split())


def is_number(word: str) -> bool:
    """Return whether a word is a whole number."""
    return is_whole(word)


def _numbers(text: str) -> list[int]:
    words = text.split()
    return [whole(word) for word in words] if all(is_number(word.removeprefix("-")) for word in words) else []


def _ports(text: str) -> frozenset[int]:
    """Expand the kernel's list of ports (``8080,9000-9002``); invalid parts are left out."""
    found: set[int] = set()
    for part in text.replace(",", " ").split():
        first, _, last = part.partition("-")
        if is_number(first) and is_number(last or first):
            found.update(range(whole(first), min(whole(last or first), 65535) + 1))
    return frozenset(found)


# Thousands of ports, and nearly all nodes of a fleet have the same lists.
@lru_cache(maxsize=64)
def _all_ports(*lists: str) -> str:
    """Return one list with the ports of all lists, in the kernel's spelling."""
    ports = frozenset().union(*map(_ports, lists))
    parts: list[str] = []
    run: list[int] = []
    for port in [*sorted(ports), -1]:
        if run and port != run[-1] + 1:
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
            run = []
        run.append(port)
    return ",".join(parts)


def unreadable(facts: NodeFacts) -> str | None:
    """Return why the kernel parameters are unknown; None when they were read."""
    section = next((s for s in facts.sections if s.name == "sysctl"), None)
    if section is None or section.status in (ReadStatus.OK, ReadStatus.EMPTY):
        return None
    return f"kernel parameters could not be read ({section.error or section.status.value})"


def read_only(facts: NodeFacts) -> bool:
    """Return whether even root cannot write below /proc/sys; then the parameters are set by the host."""
    return any(s.name == "sysctl" and READ_ONLY in s.error for s in facts.sections)


def lacking(facts: NodeFacts, wanted: tuple[Wanted, ...]) -> tuple[tuple[Wanted, str], ...]:
    """Return the unsatisfied parameters with their current values; those that this kernel lacks are left out."""
    found = ((item, facts.sysctl(item.name)) for item in wanted)
    return tuple((item, now) for item, now in found if now is not None and not item.satisfied(now))


def not_kept(facts: NodeFacts, path: str, wanted: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
    """Return the parameters that our sysctl.d file sets to other values than wanted; empty without that file.

    A node that has the values without the file has them from its own configuration or from its kernel.
    """
    text = facts.managed_file(path)
    if text is None:
        return ()
    lines = dict(_split(line) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    there = [item for item in wanted if facts.sysctl(item.name) is not None]
    return tuple(item for item in there if item.name in lines and not item.satisfied(lines[item.name]))


def overriding(facts: NodeFacts, path: str, wanted: tuple[Wanted, ...]) -> tuple[str, ...]:
    """Return warnings about files that are read after ours at boot and set a value that is not sufficient.

    sysctl.d(5): files of all directories are sorted by name; of files with one name only that of the first directory
    is read; the last setting takes effect. /etc/sysctl.conf comes last (it is 99-sysctl.conf on Debian, and procps
    reads it after all others).
    """
    by_name = {item.name: item for item in wanted}
    said: dict[str, tuple[str, str]] = {}
    for line in sorted(_read_at_boot(facts), key=lambda line: _order(line.path)):
        name, value = _split(line.text.lstrip("-"))
        said[name.replace("/", ".")] = line.path, value
    found: dict[str, list[str]] = {}
    for name, (at, value) in said.items():
        item = by_name.get(name)
        if item is not None and _order(at) > _order(path) and not item.satisfied(value):
            found.setdefault(at, []).append(f"{name} to {value}")
    return tuple(
        f"{at} is read later at boot and sets {', '.join(what)}" for at, what in sorted(found.items())
    )


def _order(path: str) -> tuple[bool, str]:
    return path == "/etc/sysctl.conf", PurePosixPath(path).name


def _read_at_boot(facts: NodeFacts) -> list[ConfigLine]:
    """Return the settings in files that are not hidden by another file of the same name."""
    lines = [line for line in facts.host_config if "sysctl" in line.path and "=" in line.text]
    shown: dict[str, str] = {}
    for folder in _FOLDERS:
        for line in lines:
            if line.path.startswith(folder):
                shown.setdefault(PurePosixPath(line.path).name, line.path)
    return [line for line in lines if shown.get(PurePosixPath(line.path).name) == line.path]


def _split(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name.strip(), " ".join(value.split())


def steps(facts: NodeFacts, requirement: str, path: str, wanted: tuple[Wanted, ...]) -> tuple[Step, ...]:
    """Return the step that writes all parameters to sysctl.d, then the steps that change values now."""
    there = [(item, now) for item in wanted if (now := facts.sysctl(item.name)) is not None]
    text = render(
        "sysctl",
        "parameters.conf",
        requirement=requirement,
        lines=[f"{item.name} = {item.target(now)}" for item, now in there],
    )
    found: list[Step] = [WriteFile(f"Set kernel parameters at every boot in {path}", path, text)]
    found += [
        # The kernel separates numbers with tabs; the prior value and the read-back are compared in that form.
        WriteValue(
            f"Set {item.name} to {item.target(now)}",
            f"/proc/sys/{item.name.replace('.', '/')}",
            "\t".join(item.target(now).split()),
            "\t".join(now.split()),
        )
        for item, now in lacking(facts, wanted)
    ]
    return tuple(found)
