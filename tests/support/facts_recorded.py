"""Recorded cases: a text file with sections as a node printed them, a JSON file with what they mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clusterctl.facts.base import Section, Sections
from clusterctl.facts.subjects import (
    clock,
    configuration,
    containers,
    cpu,
    docker,
    gpu,
    health,
    image_distribution,
    launch,
    limits,
    memory,
    modules,
    mpi,
    network,
    nfs,
    pci,
    python,
    rdma,
    services,
    session,
    software,
    ssh_mesh,
    storage,
    system,
    tool_versions,
    versions,
)

CASES = Path(__file__).parents[1] / "facts" / "cases"

SUBJECTS: dict[str, Callable[[Sections], Any]] = {
    "clock": lambda sections: clock.parse(sections, None),
    "containers": containers.parse,
    "cpu": cpu.parse,
    "docker": docker.parse,
    "gpu": gpu.parse,
    "gpudirect": modules.parse_gpudirect,
    "health": health.parse,
    "host-config": configuration.parse_config,
    "image-distribution": image_distribution.parse,
    "launch": launch.parse,
    "limits": limits.parse,
    "managed": configuration.parse_managed,
    "memory": memory.parse,
    "modules": modules.parse_modules,
    "network": network.parse,
    "mpi": mpi.parse,
    "nfs": nfs.parse,
    "pci": pci.parse,
    "python": python.parse,
    "rdma": rdma.parse,
    "rdma-files": configuration.parse_rdma_files,
    "services": services.parse,
    "session": session.parse,
    "software": software.parse,
    "ssh-mesh": ssh_mesh.parse,
    "storage": storage.parse,
    "sysctls": configuration.parse_sysctls,
    "system": lambda sections: system.parse(sections, None),
    "tool-versions": tool_versions.parse,
    "versions": versions.parse,
}
"""The parser that reads the cases of each directory."""

_HEADER = re.compile(r"^##### section (\w+) (-?\d+)(?: error: (.*))?\n", re.MULTILINE)


def load(path: Path) -> Sections:
    """Read a case file: a header line for each section (name, exit status, error text), then its output."""
    text = path.read_text(encoding="utf-8")
    heads = list(_HEADER.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    sections = Sections()
    for head, end in zip(heads, ends, strict=True):
        name, status, error = head.groups()
        sections[name] = Section(
            name, text[head.end() : end], int(status), (error or "").replace("\\n", "\n")
        )
    return sections
