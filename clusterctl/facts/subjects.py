"""What a node can be asked about, subject by subject, so that a question about one thing costs no more than that."""

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
from clusterctl.facts.base import Fragment

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
