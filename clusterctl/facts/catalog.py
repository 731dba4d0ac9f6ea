"""The subjects that the probe can read from a node, and the parsing of all sections into facts.

A probe of one subject runs only the sections that the subject needs. Subjects of a single command (``ON_REQUEST``) are
probed only if they are named.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from functools import cache

from clusterctl.facts.base import Fragment, ReadStatus, Sections
from clusterctl.facts.model.host import RootAccess
from clusterctl.facts.model.node import NodeFacts, SectionNote
from clusterctl.facts.model.services import mount_target
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
from clusterctl.facts.subjects.clock import ClockExchange
from clusterctl.inventory.model import Node

# The clock is first, because its reading is compared with the controller's clock at the start of the exchange.
SUBJECTS: dict[str, tuple[Fragment, ...]] = {
    "clock": clock.FRAGMENTS,
    "limits": limits.FRAGMENTS,
    "system": system.FRAGMENTS,
    "cpu": cpu.FRAGMENTS,
    "memory": memory.FRAGMENTS,
    "modules": modules.FRAGMENTS,
    "pci": pci.FRAGMENTS,
    "gpu": gpu.FRAGMENTS,
    "health": health.FRAGMENTS,
    "rdma": rdma.FRAGMENTS,
    "network": network.FRAGMENTS,
    "docker": docker.FRAGMENTS,
    "storage": storage.FRAGMENTS,
    "services": services.FRAGMENTS,
    "software": software.FRAGMENTS,
    "configuration": configuration.FRAGMENTS,
    "versions": versions.FRAGMENTS,
    "ssh_mesh": ssh_mesh.FRAGMENTS,
    "nfs": nfs.FRAGMENTS,
    "mpi": mpi.FRAGMENTS,
    "python": python.FRAGMENTS,
    "session": session.FRAGMENTS,
    "launch": launch.FRAGMENTS,
    "containers": containers.FRAGMENTS,
    "counters": health.COUNTER_FRAGMENTS,
    "image_distribution": image_distribution.FRAGMENTS,
    "tool_versions": tool_versions.FRAGMENTS,
}
FRAGMENTS: tuple[Fragment, ...] = tuple(fragment for found in SUBJECTS.values() for fragment in found)

ON_REQUEST = frozenset({"session", "launch", "containers", "counters", "image_distribution", "tool_versions"})
"""Subjects that only commands other than ``check`` and ``bootstrap`` read, some with values of their request."""

# A parser may read sections of another subject: a section of the limits holds all configuration files.
_READ_WITH: dict[str, frozenset[str]] = {
    "system": frozenset({"cpu"}),
    "modules": frozenset({"limits"}),
    "gpu": frozenset({"modules", "limits"}),
    "counters": frozenset({"health"}),
    "rdma": frozenset({"system"}),
    "software": frozenset({"limits"}),
    "configuration": frozenset({"limits"}),
}

# Subjects whose facts come from the kernel and from files, equal for every login. Other subjects may depend on the
# login, whose limits, groups and PATH are fixed when it starts.
SAME_FOR_EVERY_LOGIN = frozenset(
    {
        "clock",
        "system",
        "cpu",
        "memory",
        "modules",
        "pci",
        "rdma",
        "network",
        "storage",
        "configuration",
        "mpi",
        "nfs",
    }
)


def complete(subjects: Collection[str]) -> frozenset[str]:
    """Return the subjects and those that their parsers read; raise KeyError for an unknown subject."""
    found = {name for subject in subjects for name in (subject, *_READ_WITH.get(subject, ()))}
    for name in found:
        SUBJECTS[name]
    return frozenset(found)


@cache
def fragments(subjects: frozenset[str] | None) -> tuple[Fragment, ...]:
    """Return the fragments of the subjects (None: all except ``ON_REQUEST``), in the probe's order."""
    wanted = complete(SUBJECTS.keys() - ON_REQUEST if subjects is None else subjects)
    return tuple(fragment for name, found in SUBJECTS.items() if name in wanted for fragment in found)


@cache
def not_asked(subjects: frozenset[str] | None) -> tuple[Fragment, ...]:
    """Return the fragments that a probe of only these subjects leaves out."""
    asked = fragments(subjects)
    return tuple(fragment for fragment in FRAGMENTS if fragment not in asked)


def settings_read(node: Node, subjects: frozenset[str] | None) -> dict[str, str]:
    """Return the node's settings that the fragments of these subjects read; a command may override them."""
    # On this machine clusterctl's own Python is known to have what clusterctl was installed with.
    python = node.python or (sys.executable if node.connection == "local" else "")
    path = node.requirements.shared_dir.path
    # What is found there then has the paths that the requirements compare.
    shared = "" if path is None else mount_target(path)
    settings = {"MPIRUN": node.mpirun or "", "PYTHON": python, "SHARED": shared}
    read = {name for fragment in fragments(subjects) for name in fragment.variables}
    return {name: value for name, value in settings.items() if name in read}


def is_complete(facts: NodeFacts, subjects: Collection[str]) -> bool:
    """Return whether every section of these subjects is part of the node's answer and did not fail."""
    names = {fragment.name for subject in subjects for fragment in SUBJECTS[subject]}
    good = {note.name for note in facts.sections if note.status in (ReadStatus.OK, ReadStatus.EMPTY)}
    return names <= good


def facts_from(
    name: str,
    sections: Sections,
    root: RootAccess,
    *,
    gathered_at: float,
    duration_s: float,
    exchange: ClockExchange | None = None,
    subjects: frozenset[str] | None = None,
) -> NodeFacts:
    """Parse all sections of one node. Pure function.

    Times are the controller's, in seconds; ``subjects`` are the probed subjects (None: all except ``ON_REQUEST``).
    """
    requested = subjects or frozenset()
    processors = cpu.parse(sections)
    topology = processors.topology.value
    return NodeFacts(
        name=name,
        gathered_at=gathered_at,
        duration_s=duration_s,
        root=root,
        system=system.parse(sections, None if topology is None else topology.hypervisor),
        cpu=processors,
        memory=memory.parse(sections),
        limits=limits.parse(sections),
        modules=modules.parse_modules(sections),
        gpudirect=modules.parse_gpudirect(sections),
        pci=pci.parse(sections),
        gpu=gpu.parse(sections),
        rdma=rdma.parse(sections),
        network=network.parse(sections),
        docker=docker.parse(sections),
        storage=storage.parse(sections),
        clock=clock.parse(sections, exchange),
        services=services.parse(sections),
        software=software.parse(sections),
        sysctls=configuration.parse_sysctls(sections),
        managed_files=configuration.parse_managed(sections),
        host_config=configuration.parse_config(sections),
        rdma_files=configuration.parse_rdma_files(sections),
        sections=tuple(
            SectionNote(section.name, section.status, section.exit_status, section.error, section.cut)
            for section in (sections[fragment.name] for fragment in fragments(subjects))
        ),
        versions=versions.parse(sections),
        ssh_mesh=ssh_mesh.parse(sections),
        nfs=nfs.parse(sections),
        mpi=mpi.parse(sections),
        python=python.parse(sections),
        health=health.parse(sections),
        session=session.parse(sections) if "session" in requested else None,
        launch=launch.parse(sections) if "launch" in requested else None,
        containers=containers.parse(sections) if "containers" in requested else None,
        image_distribution=image_distribution.parse(sections) if "image_distribution" in requested else None,
        tool_versions=tool_versions.parse(sections) if "tool_versions" in requested else None,
    )
