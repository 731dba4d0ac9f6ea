"""Facts for a launch: from texts of single sections, as a node would print them, or from this machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from clusterctl.facts import gather
from clusterctl.facts.base import Section, Sections
from clusterctl.facts.catalog import facts_from, fragments
from clusterctl.facts.model.host import RootAccess
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Node
from clusterctl.launch import leftovers, readiness
from clusterctl.launch.preflight import Readiness
from clusterctl.transport.base import Completed
from clusterctl.transport.local import LocalTransport

LIMITS = "Max locked memory         8388608              8388608              bytes     \n"
PLAIN = {
    "session": "connection 10.0.0.9 5000 10.0.0.1 22\ncpus 0-1\n",
    "cpu": "model name\t: Some CPU\n/sys/devices/system/cpu/online:0-1\n",
    "limits": LIMITS,
    "python": "python /usr/bin/python3\npython-version 3.11.2\n",
}
"""The sections of a node with two processors, without GPU and RDMA device; others are empty."""


def active_ports(*devices: str, rate: str = "400 Gb/sec (4X NDR)") -> str:
    """Return the section ``rdma`` of devices that each have one active InfiniBand port."""
    return "".join(
        f"{name}/node_guid:0000:0000:0000:0001\n{name}/ports/1/state:4: ACTIVE\n{name}/ports/1/rate:{rate}\n"
        f"{name}/ports/1/link_layer:InfiniBand\n"
        for name in devices
    )


def facts_of(*changed: Mapping[str, str], subjects: frozenset[str] = readiness.READS) -> NodeFacts:
    """Return the facts of a node whose sections are those of ``PLAIN``, with the changed ones."""
    texts = {name: text for part in (PLAIN, *changed) for name, text in part.items()}
    names = [fragment.name for fragment in fragments(subjects)]
    sections = Sections({name: Section(name, texts.get(name, "")) for name in names})
    return facts_from(
        "n", sections, RootAccess(0, "root"), gathered_at=0.0, duration_s=1.0, subjects=subjects
    )


class Answering:
    """A transport whose node answers the probe with these sections, and anything else with ``text``."""

    is_open = False
    host_key = None

    def __init__(self, node: str, sections: Mapping[str, str], uid: str = "0", text: str = "") -> None:
        self.node = node
        self._sections = {**PLAIN, **sections}
        self._uid = uid
        self._text = text

    def run(self, argv: tuple[str, ...], *, stdin: bytes = b"", **_: object) -> Completed:
        probe = re.search(rb"^M=([0-9a-f]{32})$", stdin, re.MULTILINE)
        text = self._answer(probe[1].decode()) if probe else self._text
        return Completed(argv, 0, text.encode(), b"", 0.0)

    def _answer(self, nonce: str) -> str:
        sections = {"root": f"{self._uid} root", **self._sections}
        parts = [
            f"\n{nonce} begin {name} -\n{text}\n{nonce} end {name} 0\n" for name, text in sections.items()
        ]
        parts += [
            f"\n{nonce} begin {fragment.name} -\n\n{nonce} end {fragment.name} 0\n"
            for fragment in fragments(readiness.READS)
            if fragment.name not in sections
        ]
        return "".join([*parts, f"\n{nonce} done 4711.25\n"])

    def put(self, *_: object, **__: object) -> None: ...

    def close(self) -> None: ...


def this_machine(node: Node, directory: Path) -> Readiness:
    """Return what a launch would use of this machine, after it created its directory there."""
    transport = LocalTransport(node)
    values = {**readiness.values(node, None, "all_reduce_perf"), "PYTHON": sys.executable}
    facts = gather.gather(transport, node, 60.0, subjects=readiness.READS, values=values, sudo=False)
    leftovers.claim(transport, str(directory), leftovers.this_controller())
    return readiness.of_facts(node, facts)
