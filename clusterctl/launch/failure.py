"""Saying what went wrong with a launch, from what the launcher said and what was seen on the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.base import Fault, FaultKind, RankProof
from clusterctl.launch import notices
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.notices import RankDeath
from clusterctl.launch.processes import RankProcess
from clusterctl.transport.base import Failure

_SIGNALS = {
    6: "abort",
    9: "kill",
    11: "segmentation fault",
    15: "termination",
    7: "bus error",
    4: "bad instruction",
}

# How the perf programs of a library begin to speak of it.
_TITLES = {"nccl": ("nccl-tests version", "NCCL version"), "ccore": ("collective_core version",)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one launch. ``returncode`` is None when the launcher did not end by itself."""

    returncode: int | None
    stdout_by_rank: Mapping[int, str]
    stderr_by_rank: Mapping[int, str]
    launcher: str
    duration_s: float
    deadline_passed: bool = False
    ranks_seen: Mapping[str, tuple[RankProcess, ...]] | None = None
    lost_nodes: Mapping[str, str] | None = None
    broken_off: Failure | None = None
    """Why the launch was given up from here, where no node is lost: its output is too long, a disk is full."""

    @property
    def table(self) -> str:
        """What rank 0 wrote to stdout: perf programs print their table there, and no other rank's text is a result."""
        return self.stdout_by_rank.get(0, "")


def _said(outcome: Outcome, rank: int) -> str:
    last = notices.last_words(outcome.stderr_by_rank.get(rank, ""))
    return f"; its last words: {last}" if last else ""


def _place(plan: LaunchPlan, rank: int) -> str:
    nodes = plan.node_of_rank
    return nodes[rank] if rank < len(nodes) else "?"


def _known_as(plan: LaunchPlan, said: str | None) -> str | None:
    """Return the inventory's name of a node that the launcher names, which may be longer or cut at its first dot."""
    if said is None:
        return None
    for form in (str, lambda name: name.partition(".")[0]):
        fits = [
            p.node for p in plan.placements if form(said) in (form(p.node), form(p.host), form(p.address))
        ]
        if len(fits) == 1:
            return fits[0]
    return said


def _deadline(plan: LaunchPlan, outcome: Outcome) -> Fault:
    seen: dict[int, tuple[str, RankProcess]] = {}
    for place, processes in (outcome.ranks_seen or {}).items():
        for found in processes:
            # A node reports its own ranks, and no others.
            if _place(plan, found.rank) != place:
                continue
            # Of a rank's several processes (a shell, a data loader), the one that is stopped tells most.
            if found.rank not in seen or found.state.startswith("stopped"):
                seen[found.rank] = (place, found)
    stopped = [
        (rank, node, process)
        for rank, (node, process) in sorted(seen.items())
        if process.state.startswith("stopped")
    ]
    absent = [rank for rank in range(plan.np) if rank not in seen]
    details = ""
    rank: int | None = None
    node: str | None = None
    if stopped:
        rank, node, process = stopped[0]
        details = f": rank {rank} on {node} (pid {process.pid}) is {process.state}"
    elif absent and seen:
        rank, node = absent[0], _place(plan, absent[0])
        details = f": rank {rank} on {node} is gone while others wait"
    elif seen:
        listed = [f"rank {r} on {n} is {p.state}" for r, (n, p) in sorted(seen.items())[:4]]
        details = ": " + ", ".join(listed) + (", ..." if len(seen) > 4 else "")
    return Fault(
        FaultKind.DEADLINE,
        f"no end after {plan.timeout_s:g} s{details}",
        rank=rank,
        node=node,
        hint="every rank's log is in the run folder; --timeout allows more time",
    )


def classify(plan: LaunchPlan, outcome: Outcome) -> tuple[Fault, ...]:
    """Return what stopped the launch, cause before consequence; empty when the launcher ended well."""
    faults = [
        Fault(
            FaultKind.NODE_LOST,
            f"{node} was lost during the run: {reason}",
            node=node,
            hint="look at the node's console, power and network",
        )
        for node, reason in (outcome.lost_nodes or {}).items()
    ]
    if outcome.deadline_passed:
        return (*faults, _deadline(plan, outcome))
    if outcome.broken_off is not None:
        why = outcome.broken_off
        return (*faults, Fault(FaultKind.LAUNCHER, why.message, hint=why.hint))
    text = outcome.launcher
    if outcome.returncode == 0 and not notices.lost_daemon(text):
        return tuple(faults)
    if death := notices.rank_death(text):
        faults.append(_rank_died(plan, outcome, death))
    elif not faults and notices.lost_daemon(text):
        node = _known_as(plan, notices.daemon_node(text))
        faults.append(
            Fault(
                FaultKind.NODE_LOST,
                f"the launcher lost its daemon on {node or 'a node'}",
                node=node,
                hint="launcher.log below logs/ in the run folder has all it said",
            )
        )
    elif not faults:
        faults.append(
            Fault(
                FaultKind.LAUNCHER,
                f"the launcher ended with status {outcome.returncode}: {notices.last_words(text) or 'it said nothing'}",
                hint="launcher.log below logs/ in the run folder has all it said",
            )
        )
    return tuple(faults)


def _rank_died(plan: LaunchPlan, outcome: Outcome, death: RankDeath) -> Fault:
    rank, node = death.rank, _place(plan, death.rank)
    hint = f"see rank-{rank}.log in the run folder"
    if death.signal is None:
        how = f"ended with status {death.status}"
    else:
        name = _SIGNALS.get(death.signal)
        how = f"died of signal {death.signal}" + (f" ({name})" if name else "")
    if death.signal == 9:
        hint = "signal 9 from nobody in sight is often the kernel short of memory: dmesg on that node"
    return Fault(
        FaultKind.RANK_DIED,
        f"rank {rank} on {node} {how}{_said(outcome, rank)}",
        rank=rank,
        node=node,
        hint=hint,
    )


def check_ranks(ranks: Sequence[RankProof], np: int) -> tuple[Fault, ...]:
    """Return a fault when the ranks that reported are not exactly those asked for."""
    reported = sorted({rank.rank for rank in ranks})
    absent = [rank for rank in range(np) if rank not in reported]
    if absent:
        return (
            Fault(
                FaultKind.FEWER_RANKS,
                f"{len(reported)} of {np} ranks reported; missing: {_listed(absent)}",
                rank=absent[0],
            ),
        )
    if len(reported) > np or len(ranks) != np:
        return (Fault(FaultKind.DUPLICATE_RANKS, f"{len(ranks)} ranks reported, but {np} were asked for"),)
    return ()


def check_table(ranks: Sequence[RankProof], outcome: Outcome, np: int) -> tuple[Fault, ...]:
    """Return a fault when the table of rank 0 is not of exactly the ranks asked for."""
    faults = check_ranks(ranks, np)
    if not faults:
        return ()
    alone = sum(
        any(rank.rank == 0 for rank in perf_output.parse(t).ranks) for t in outcome.stdout_by_rank.values()
    )
    if alone < 2:
        return faults
    return (
        Fault(
            FaultKind.DUPLICATE_RANKS,
            f"{alone} processes each ran as a rank 0 of their own and never met",
            hint=perf_output.BUILT_WITHOUT_MPI,
        ),
    )


def check_library(library: str, said: Iterable[str]) -> tuple[Fault, ...]:
    """Return a fault when the program measured another library than the one asked for, by what it says of itself."""
    for other, titles in _TITLES.items():
        line = next((line for line in said if line.startswith(titles)), None)
        if line is not None and other != library:
            return (
                Fault(
                    FaultKind.MISSING_PROGRAM,
                    f"{library} was to be measured, but the program is one of {other} ({line})",
                    hint=f"choose --library {other}, or mend 'all_reduce_perf' in the inventory",
                ),
            )
    return ()


def _listed(numbers: Iterable[int]) -> str:
    found = list(numbers)
    return ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")
