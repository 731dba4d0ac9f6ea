"""The origin of a log line: the rank and the host that its beginning names."""

from __future__ import annotations

import re
from typing import NamedTuple

_LOOKED_AT = 400
_STAMP = r"(?:\[?\d{4}-\d\d-\d\d[T ][0-9:.,]{8,15}\S{0,6}\]?\s{1,3})?"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"
_HOSTS = (
    # NCCL: host:pid:tid [device] ..., also after the tag of a launcher.
    (" [", re.compile(rf"(?:^|[\s>:])(?P<host>{_NAME}):\d{{1,8}}:\d{{1,8}} \[(?P<device>\d{{1,3}})\]")),
    # Hydra: [mpiexec@host], [proxy:0:1@host].
    ("@", re.compile(rf"\[(?:mpiexec|proxy:[\d:]{{1,12}})@(?P<host>{_NAME})\]")),
    # Open MPI: [host:pid] ...; UCX: [host:pid:0:tid]. A host name has a letter, so [12:34] does not match.
    (
        "[",
        re.compile(rf"\[(?P<host>(?=[A-Za-z0-9._-]*[A-Za-z]){_NAME}):\d{{1,8}}(?::\d{{1,4}}:\d{{1,8}})?\]"),
    ),
    # Slurm: srun: error: host: ..., slurmstepd on a node: "*** ... ON host CANCELLED".
    (": error: ", re.compile(rf"(?:srun|slurmstepd): error: (?P<host>{_NAME}): (?:tasks?|Exited|Killed)")),
    ("*** ", re.compile(rf"\*\*\* (?:STEP|JOB) [\d.+]{{1,20}} ON (?P<host>{_NAME}) ")),
    # The kernel log of a node in a run folder: [ 1234.567890] gpu03 kernel: ...
    (
        " kernel: ",
        re.compile(rf"^\[(?:\s{{0,8}}\d{{1,12}}\.\d{{6}}|unknown time)\] (?P<host>{_NAME}) kernel: "),
    ),
    # syslog and journalctl: Nov 21 07:00:00 host program[pid]: ..., or the same with an ISO time.
    (
        ":",
        re.compile(
            rf"^(?:[A-Z][a-z]{{2}}\s{{1,2}}\d{{1,2}} [\d:]{{8}}|\d{{4}}-\d\d-\d\dT\S{{8,24}}) (?P<host>{_NAME}) "
            r"[A-Za-z0-9_./-]{1,64}(?:\[\d{1,8}\])?:"
        ),
    ),
)
"""Patterns of the host, each with a text without which it cannot match: plain searches rule out most of them."""
# The kernel module of NVIDIA names a GPU by its PCI address: NVRM: Xid (PCI:0000:06:00), NVRM: GPU 0000:06:00.0. In an
# SXid it is that of an NVSwitch.
_PCI_GPU = re.compile(
    r"(?:\bXid \(PCI:|\bGPU ?)(?P<gpu>[0-9a-fA-F]{3,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)\b"
)
_HOSTS_BUT_NCCL = _HOSTS[1:]
# The first of the patterns above is tried at each word; this one only at colons, and most lines have no such place.
_NCCL = re.compile(r":\d{1,8}:\d{1,8} \[")
_RANKS = (
    # Open MPI 4 and 5 with --tag-output: [1,3]<stderr>:, [prterun-host-12@1,3]<stderr>:.
    ("]<std", re.compile(r"^\s{0,4}(?:\[\S{1,120}@1,|\[\d{1,8},)(?P<rank>\d{1,7})\]<std")),
    # torch: [rank3]: and [Rank 3]; Hydra with -prepend-rank: [3] text.
    ("ank", re.compile(r"\[[rR]ank ?(?P<rank>\d{1,7})\]")),
    ("] ", re.compile(rf"^{_STAMP}\[(?P<rank>\d{{1,7}})\] ")),
)


class Origin(NamedTuple):
    """The origin of a line; None for what the line does not contain.

    ``gpu``: the index of a GPU of that host or process, or its PCI address.
    """

    host: str | None = None
    rank: int | None = None
    gpu: str | None = None


def origin_of(line: str) -> Origin:
    """Return the rank and host that the beginning of a line (without escape codes) names."""
    head = line[:_LOOKED_AT]
    host, gpu, rank = None, None, None
    for needed, pattern in _HOSTS if " [" in head and _NCCL.search(head) else _HOSTS_BUT_NCCL:
        if needed in head and (match := pattern.search(head)):
            host = match["host"]
            gpu = match["device"] if "device" in pattern.groupindex else None
            break
    if ("Xid" in head or "GPU" in head) and (match := _PCI_GPU.search(head)):
        gpu = match["gpu"]
    for needed, pattern in _RANKS:
        if needed in head and (match := pattern.search(head)):
            rank = int(match["rank"])
            break
    return Origin(host, rank, gpu)
