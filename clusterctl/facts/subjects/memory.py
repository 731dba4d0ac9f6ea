"""Memory and huge pages."""

from __future__ import annotations

import re

from clusterctl.facts.base import Files, Fragment, Reading, Sections, Unparsable
from clusterctl.facts.model.host import HugePages, Memory
from clusterctl.text.foreign import whole

_HUGE = "/sys/kernel/mm/hugepages"

FRAGMENTS = (
    Fragment(
        "memory",
        files=(
            *("/proc/meminfo", f"{_HUGE}/*/nr_hugepages", f"{_HUGE}/*/free_hugepages"),
            "/sys/kernel/mm/transparent_hugepage/enabled",
        ),
    ),
)


def meminfo_bytes(text: str, key: str) -> int:
    """Return one amount of /proc/meminfo in bytes."""
    match = re.search(rf"^{key}:\s*(\d+) kB$", text, re.MULTILINE)
    if match is None:
        raise Unparsable(f"/proc/meminfo has no {key} in kB")
    return whole(match[1]) * 1024


def _chosen(text: str) -> str:
    match = re.search(r"\[(\w+)\]", text)
    if match is None:
        raise Unparsable(f"no value in brackets: {text[:80]!r}")
    return match[1]


def parse(sections: Sections) -> Memory:
    """Return the facts of the section ``memory``."""
    files = Files(sections["memory"])
    hugepages = tuple(
        HugePages(
            size_bytes=int(match[1]) * 1024,
            total=files.number(f"{_HUGE}/hugepages-{match[1]}kB/nr_hugepages") or 0,
            free=files.number(f"{_HUGE}/hugepages-{match[1]}kB/free_hugepages") or 0,
        )
        for match, _ in files.matching(rf"{_HUGE}/hugepages-(\d{{1,12}})kB/nr_hugepages")
    )

    def amount(key: str) -> Reading[int]:
        return files.one("/proc/meminfo", lambda text: meminfo_bytes(text, key))

    return Memory(
        total_bytes=amount("MemTotal"),
        available_bytes=amount("MemAvailable"),
        hugepages=tuple(sorted(hugepages, key=lambda pages: pages.size_bytes)),
        transparent_hugepages=files.one("/sys/kernel/mm/transparent_hugepage/enabled", _chosen),
    )
