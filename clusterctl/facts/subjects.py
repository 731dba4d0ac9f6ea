"""What a node can be asked about, subject by subject, and the facts that its answers are.

A question about one thing costs no more than that.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from clusterctl.facts import (
    clock,
    configuration,
    cpu,
    docker,
    gpu,
    limits,
    memory,
    modules,
    network,
    nfs,
    pci,
    rdma,
    services,
    software,
    ssh_mesh,
    storage,
    system,
    versions,
)
from clusterctl.facts.base import Fragment, Sections
from clusterctl.facts.clock import Exchange
from clusterctl.facts.model import NodeFacts, SectionNote
from clusterctl.facts.model_host import RootAccess

# The clock stands first: its reading is compared with the controller's clock at the start of the exchange.
SUBJECTS: dict[str, tuple[Fragment, ...]] = {
    "clock": clock.FRAGMENTS,
    "limits": limits.FRAGMENTS,
    "system": system.FRAGMENTS,
    "cpu": cpu.FRAGMENTS,
    "memory": memory.FRAGMENTS,
    "modules": modules.FRAGMENTS,
    "pci": pci.FRAGMENTS,
    "gpu": gpu.FRAGMENTS,
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
}
FRAGMENTS: tuple[Fragment, ...] = tuple(fragment for found in SUBJECTS.values() for fragment in found)

# A parser may read sections of another subject: the limits' section has all files of configuration.
_READ_WITH: dict[str, frozenset[str]] = {
    "system": frozenset({"cpu"}),
    "modules": frozenset({"limits"}),
    "gpu": frozenset({"modules", "limits"}),
    "rdma": frozenset({"system"}),
    "software": frozenset({"limits"}),
    "configuration": frozenset({"limits"}),
}

# What the kernel and files tell alike to every login. What is not named here may hang on the login: its limits, groups
# and PATH are those of the moment when it was let in.
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
        "nfs",
    }
)


def complete(subjects: Collection[str]) -> frozenset[str]:
    """Return the subjects with those that are read with them; raise KeyError for one that there is not."""
    found = {name for subject in subjects for name in (subject, *_READ_WITH.get(subject, ()))}
    for name in found:
        SUBJECTS[name]
    return frozenset(found)


@cache
def fragments(subjects: frozenset[str] | None) -> tuple[Fragment, ...]:
    """Return what has to be asked for the subjects, in the probe's order; None: everything."""
    if subjects is None:
        return FRAGMENTS
    wanted = complete(subjects)
    return tuple(fragment for name, found in SUBJECTS.items() if name in wanted for fragment in found)


@cache
def not_asked(subjects: frozenset[str] | None) -> tuple[Fragment, ...]:
    """Return what is left out when only the subjects are asked about."""
    asked = fragments(subjects)
    return tuple(fragment for fragment in FRAGMENTS if fragment not in asked)


def facts_from(
    name: str,
    sections: Sections,
    root: RootAccess,
    *,
    gathered_at: float,
    duration_s: float,
    exchange: Exchange | None = None,
    subjects: frozenset[str] | None = None,
) -> NodeFacts:
    """Parse all sections of one node; pure. Times are the controller's, in seconds; ``subjects`` were asked for."""
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
    )
