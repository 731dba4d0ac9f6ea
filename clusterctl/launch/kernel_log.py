"""Keep the lines of a node's kernel log that prove why a launch failed: failed hardware, or a killed process of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from clusterctl import log, rundir
from clusterctl.documents.kinds import Effect
from clusterctl.facts.model.health import Health
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.failure import Outcome
from clusterctl.transport.base import Failure
from clusterctl.trust import health

_LOG = log.get(__name__)
NAME = "kernel-{}.log"
"""The name of the file, with the name of the node."""
_COMM_CHARACTERS = 15
"""The kernel cuts the name of a process (TASK_COMM_LEN)."""
_TORCH_THREAD = "pt_main_thread"
"""The name that torch gives the main thread of a process."""
_DAEMONS = frozenset({"orted", "prted", "hydra_pmi_proxy"})
"""The processes through which mpirun and mpiexec start ranks on other nodes."""
_PID = r"(?P<pid>[1-9]\d{0,8})"
_IN_TABLE = re.compile(
    rf"^#\s+Rank\s+(?P<rank>\d{{1,9}})\s+(?:Group\s+\d+\s+)?Pid\s+{_PID} on ", re.MULTILINE
)
_BY_LAUNCHER = re.compile(rf"\brank (?P<rank>\d{{1,9}}) (?:with PID |\(pid ){_PID}\b")
_IN_RECORD = re.compile(rf'"pid": {_PID}\b')
_WORKER = re.compile(rf"DataLoader worker \(pid(?:\(s\))? {_PID}\b")
_KILLED = re.compile(rf"ut of memory: Killed process {_PID} \((?P<program>[^)]{{1,60}})\)")
_OOM = re.compile(rf"\btask=(?P<program>[^,]{{1,60}}),pid={_PID}\b")
_NAMED = re.compile(rf"\bpid='?{_PID}\b|\bINFO: task .{{1,60}}:(?P<task>[1-9]\d{{0,8}}) blocked ")


def pids(plan: LaunchPlan, outcome: Outcome) -> dict[str, set[int]]:
    """Return the process ids of the ranks on each node, as far as ranks and launcher reported them.

    Open MPI 4 reports 0 for ranks on other nodes than its own.
    """
    nodes = plan.node_of_rank
    found: dict[str, set[int]] = {}
    for text in (outcome.table, outcome.launcher):
        for pattern in (_IN_TABLE, _BY_LAUNCHER):
            for match in pattern.finditer(text):
                if (rank := int(match["rank"])) < len(nodes):
                    found.setdefault(nodes[rank], set()).add(int(match["pid"]))
    for texts, pattern in ((outcome.stdout_by_rank, _IN_RECORD), (outcome.stderr_by_rank, _WORKER)):
        for rank, text in texts.items():
            if rank < len(nodes):
                ids = {int(match["pid"]) for match in pattern.finditer(text)}
                found.setdefault(nodes[rank], set()).update(ids)
    return found


def write(
    folder: Path,
    nodes: Iterable[str],
    before: Mapping[str, Health | Failure],
    after: Mapping[str, Health | Failure],
    ids: Mapping[str, Collection[int]],
    program: str,
) -> None:
    """Write a file for each of the nodes whose kernel logged, between two readings, what proves a failure.

    ``ids``: the process ids of the ranks on each node; ``program``: what they ran.
    """
    for node in nodes:
        old, new = before.get(node), after.get(node)
        if not isinstance(old, Health) or not isinstance(new, Health):
            continue
        text = "".join(f"{line}\n" for line in proving(node, old, new, ids.get(node, ()), program))
        if not text:
            continue
        path = folder / NAME.format(node)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            rundir.write_atomically(path, text.encode(errors="replace"))
        except OSError as error:
            _LOG.warning("%s cannot be written: %s", path, error.strerror)


def proving(node: str, before: Health, after: Health, ids: Collection[int], program: str) -> Iterator[str]:
    """Yield the lines of the kernel log since the first reading that report failed hardware, or a rank by its process.

    A process is a rank's if its id is one of ``ids``; if none is known, if it has the name of the program.
    """
    for line, event in health.logged(before, after):
        if event.effect is Effect.GRAVE or _names_a_rank(line.text, ids, program):
            stamp = "unknown time" if line.at_s is None else f"{line.at_s:12.6f}"
            yield f"[{stamp}] {node} kernel: {line.text}"


def _names_a_rank(text: str, ids: Collection[int], program: str) -> bool:
    for pattern in (_KILLED, _OOM):
        if match := pattern.search(text):
            names = {PurePosixPath(program).name[:_COMM_CHARACTERS], _TORCH_THREAD}
            of_rank = int(match["pid"]) in ids if ids else match["program"] in names
            return of_rank or match["program"] in _DAEMONS
    match = _NAMED.search(text)
    return match is not None and int(match["pid"] or match["task"]) in ids
