"""``disk``: the file systems that bootstrap and launches write are writable, and have free space and inodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.base import ReadStatus
from clusterctl.facts.subjects.storage import SYSTEM_PATHS
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.wording import because

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.facts.model.services import Mount
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "disk"
TITLE = "The system's file systems are writable and have free space"
READS = frozenset({"storage"})
ABOUT = About(
    checks="the file systems of the system's directories are writable, with free space and inodes",
    why=(
        "on a full or read-only file system, packages, journals and logs cannot be written: bootstrap refuses the "
        "node, and a launch fails with whatever the first program without a file reports"
    ),
    bootstrap="nothing: a person decides what to delete, and why a file system became read-only",
    undo="nothing to undo",
    settings=("requirements.disk",),
)

# ext4 keeps "rw" after an error since Linux 6.15, and shows these words instead.
_NOT_WRITABLE = frozenset({"ro", "emergency_ro", "shutdown"})
_TMP = "/tmp"


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return MET when every file system of the system's directories is writable and above the bounds."""
    storage, wanted = facts.storage, node.requirements.disk
    if storage.space.value is None:
        return Decision(NAME, Status.UNKNOWN, because("free disk space", storage.space))
    # Of several mounts on one directory the last one is visible.
    mounts = {mount.target: mount for mount in storage.mounts.or_else(())}
    inodes = {found.path: found for found in storage.inodes.or_else(())}
    evidence: dict[str, Json] = {}
    faults: list[str] = []
    for space in storage.space.value:
        if space.path not in SYSTEM_PATHS or space.path in wanted.ignore or space.mounted_on in evidence:
            continue
        at, mount = space.mounted_on, mounts.get(space.mounted_on)
        name = f"{at} ({mount.source})" if mount is not None else at
        free_mib = space.free_bytes >> 20
        least_mib = wanted.min_free_tmp_mib if at == _TMP else wanted.min_free_mib
        found = inodes.get(space.path)
        evidence[at] = {
            "free_mib": free_mib,
            "free_inodes": None if found is None else found.free,
            "options": None if mount is None else ",".join(mount.options),
        }
        if mount is not None and _NOT_WRITABLE & set(mount.options):
            faults.append(_read_only(name, mount))
            continue
        if free_mib < least_mib:
            faults.append(f"{name} has {free_mib} MiB free, expected at least {least_mib} MiB")
        if found is not None and found.free < wanted.min_free_inodes:
            faults.append(f"{name} has {found.free} free inodes, expected at least {wanted.min_free_inodes}")
    if faults:
        return Decision(NAME, Status.UNMET, "; ".join(faults), evidence)
    if storage.mounts.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the list of mounts", storage.mounts), evidence)
    if storage.inodes.value is None and storage.inodes.status is not ReadStatus.EMPTY:
        return Decision(NAME, Status.UNKNOWN, because("the number of free inodes", storage.inodes), evidence)
    return Decision(NAME, Status.MET, f"writable, with free space: {', '.join(evidence)}", evidence)


def _read_only(name: str, mount: Mount) -> str:
    """Return the fault of a mount that cannot be written, and where to look for its cause."""
    if "ro" in mount.options:
        return f"{name} is mounted read-only: `dmesg` shows whether the kernel did so after an error"
    return f"{name} does not accept writes after a file system error: `dmesg` shows the error"
