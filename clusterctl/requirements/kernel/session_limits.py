"""Warn of other limits of the session in which ranks start: stack, open files, shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.model.host import UNLIMITED

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.requirements.fleet.view import Fleet

FILES = 131072
"""Enough for sockets, shared memory and libraries of eight ranks with hundreds of peers."""
MANY_NODES = 16
SHM_BYTES = 1 << 30
"""The size of /dev/shm that eight NCCL ranks need (NCCL user guide, troubleshooting: shared memory)."""


def warnings(facts: NodeFacts, fleet: Fleet) -> tuple[str, ...]:
    """Return warnings about the stack, open files at scale, shared memory, and its removal at logout."""
    found = []
    limits = facts.limits
    if limits.stack.value is not None and limits.stack.value.soft == UNLIMITED:
        found.append(
            "the stack limit is unlimited, so glibc gives each thread only 2 MiB (pthread_create): set it to 8192 KiB"
        )
    files = limits.nofile.value
    few = files is not None and files.soft != UNLIMITED and files.soft < FILES
    if files is not None and few and len(fleet.nodes) >= MANY_NODES:
        found.append(f"a process may open {files.soft} files; {len(fleet.nodes)} nodes need {FILES}")
    shm = facts.storage.at("/dev/shm")
    if shm is not None and shm.size_bytes < SHM_BYTES:
        said = f"/dev/shm has {shm.size_bytes >> 20} MiB; eight ranks need 1 GiB"
        found.append(said + (": start the container with --ipc host" if facts.in_container else ""))
    settings = [
        (line.path, value.strip().lower())
        for line in facts.host_config
        for name, _, value in [line.text.partition("=")]
        if line.path.startswith("/etc/systemd/logind") and name.strip() == "RemoveIPC"
    ]
    # Drop-ins are read after the main file, and the last setting takes effect.
    if settings and settings[-1][1] in ("yes", "y", "true", "t", "on", "1"):
        found.append(
            f"{settings[-1][0]} sets RemoveIPC=yes: shared memory is removed when the user's last session ends"
        )
    return tuple(found)
