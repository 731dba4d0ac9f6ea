"""Find the cause of a failed launch from the launcher's output and the state of the nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.base import Fault, FaultKind, RankProof
from clusterctl.launch import notices
from clusterctl.launch.base import LaunchPlan, Placement
from clusterctl.launch.foreign_library import FOREIGN
from clusterctl.launch.notices import LostPeer, RankDeath
from clusterctl.launch.processes import RankProcess
from clusterctl.transport.base import Failure, FailureKind
from clusterctl.workloads.entry import EXIT_NO_PLACE

_ABORT = 6
_SIGNALS = {
    _ABORT: "abort",
    9: "kill",
    11: "segmentation fault",
    15: "termination",
    7: "bus error",
    4: "bad instruction",
}

_TERMINAL = "a rank has no terminal and no standard input: give the program its answers as arguments or files"
_TOO_LONG = "let the program write less, or into a file on the node"
_NEEDS_TERMINAL = re.compile(
    r"not a (?:tty|terminal)\b|Inappropriate ioctl for device|must be (?:run from )?a (?:tty|terminal)\b"
    r"|EOFError: EOF when reading a line",
    re.IGNORECASE,
)
# The first words of the line in which a perf program reports its library.
_TITLES = {"nccl": ("nccl-tests version", "NCCL version"), "ccore": ("collective_core version",)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold the outcome of one launch; ``returncode``: None if the launcher did not end by itself."""

    returncode: int | None
    stdout_by_rank: Mapping[int, str]
    stderr_by_rank: Mapping[int, str]
    launcher: str
    duration_s: float
    """From the start of the launcher to its end."""
    deadline_passed: bool = False
    ranks_seen: Mapping[str, tuple[RankProcess, ...]] | None = None
    lost_nodes: Mapping[str, str] | None = None
    broken_off: Failure | None = None
    """Why clusterctl stopped the launch although no node was lost: output too long, disk full."""
    failed_s: float | None = None
    """When the first rank ended with a failure, if a script between the launcher and the rank reported it."""
    silent_s: Mapping[int, float] = field(default_factory=dict)
    """For how long each rank had written nothing at the deadline, of those that ever wrote something."""

    @property
    def table(self) -> str:
        """Return rank 0's stdout, where perf programs print their table; other ranks' output is not a result."""
        return self.stdout_by_rank.get(0, "")


def _said(outcome: Outcome, rank: int) -> str:
    last = notices.last_words(outcome.stderr_by_rank.get(rank, ""))
    return f"; its last output: {last}" if last else ""


def _place(plan: LaunchPlan, rank: int) -> str:
    nodes = plan.node_of_rank
    return nodes[rank] if rank < len(nodes) else "?"


def _placed(plan: LaunchPlan, said: str) -> list[Placement]:
    """Return the nodes with a name or an address, whose name may have more or fewer domain parts."""
    for form in (str, _short):
        fits = [p for p in plan.placements if form(said) in (form(p.node), form(p.host), form(p.address))]
        if len(fits) == 1:
            return fits
    return []


def _short(name: str) -> str:
    return name if name.replace(".", "").isdigit() else name.partition(".")[0]


def _known_as(plan: LaunchPlan, said: str | None) -> str | None:
    """Return the inventory's name of a node that the launcher names."""
    fits = _placed(plan, said) if said is not None else []
    return fits[0].node if fits else said


@dataclass(frozen=True, slots=True)
class Standstill:
    """Hold what the ranks of a launch that does not end are doing, and the rank that others wait for, if one does."""

    text: str
    rank: int | None = None
    node: str | None = None


def standing_still(
    plan: LaunchPlan, ranks_seen: Mapping[str, tuple[RankProcess, ...]], silent_s: Mapping[int, float]
) -> Standstill | None:
    """Return the ranks that are stopped, else one that has ended, else the states of the first ones.

    Return None if no node listed a rank. A node that did not answer is not in ``ranks_seen``.
    """
    seen: dict[int, tuple[str, RankProcess]] = {}
    for place, processes in ranks_seen.items():
        for found in processes:
            # A report about a rank that another node runs is not trusted.
            if _place(plan, found.rank) != place:
                continue
            # A rank may have several processes (a shell, a data loader): a stopped one is the likely cause.
            if found.rank not in seen or found.state.startswith("stopped"):
                seen[found.rank] = (place, found)
    stopped = [
        (rank, node, process)
        for rank, (node, process) in sorted(seen.items())
        if process.state.startswith("stopped")
    ]
    absent = [rank for rank in range(plan.np) if rank not in seen and _place(plan, rank) in ranks_seen]
    if stopped:
        rank, node, _ = stopped[0]
        text = ", ".join(
            f"rank {r} on {n} (pid {p.pid}) is {p.state}{_silent(silent_s, r)}" for r, n, p in stopped[:4]
        )
        return Standstill(text + (", ..." if len(stopped) > 4 else ""), rank, node)
    if absent and seen:
        rank, node = absent[0], _place(plan, absent[0])
        return Standstill(f"rank {rank} on {node} has ended while others wait", rank, node)
    if seen:
        listed = [f"rank {r} on {n} is {p.state}" for r, (n, p) in sorted(seen.items())[:4]]
        return Standstill(", ".join(listed) + (", ..." if len(seen) > 4 else ""))
    return None


def _deadline(plan: LaunchPlan, outcome: Outcome) -> Fault:
    found = standing_still(plan, outcome.ranks_seen or {}, outcome.silent_s)
    return Fault(
        FaultKind.DEADLINE,
        f"the launch did not end within {plan.timeout_s:g} s{f': {found.text}' if found else ''}",
        rank=found.rank if found else None,
        node=found.node if found else None,
        hint="see the ranks' logs in the run folder; allow more time with --timeout",
    )


def _silent(silent_s: Mapping[int, float], rank: int) -> str:
    return f", and wrote nothing for {silent_s[rank]:.0f} s" if rank in silent_s else ""


def interrupted(where: str) -> Fault:
    """Return the fault of a run that a person interrupted after a part of it was measured."""
    return Fault(
        FaultKind.INTERRUPTED,
        f"interrupted in {where}; all ranks were ended, and what was measured before is kept",
    )


def was_interrupted(faults: Sequence[Fault]) -> bool:
    """Return whether a person interrupted the run with these faults."""
    return any(fault.kind is FaultKind.INTERRUPTED for fault in faults)


def classify(plan: LaunchPlan, outcome: Outcome) -> tuple[Fault, ...]:
    """Return what stopped the launch, causes before consequences; empty if the launcher succeeded."""
    faults = [
        Fault(
            FaultKind.NODE_LOST,
            f"{node} was lost during the run: {reason}",
            node=node,
            hint="check the node's console, power and network",
        )
        for node, reason in (outcome.lost_nodes or {}).items()
    ]
    if outcome.deadline_passed:
        return (*faults, _deadline(plan, outcome))
    if outcome.broken_off is not None:
        why = outcome.broken_off
        if plan.foreign and why.kind is FailureKind.PROTOCOL:
            message = f"the ranks wrote too much, or a line without an end: {why.message}"
            return (*faults, Fault(FaultKind.LAUNCHER, message, hint=_TOO_LONG))
        return (*faults, Fault(FaultKind.LAUNCHER, why.message, hint=why.hint))
    text = outcome.launcher
    if outcome.returncode == 0 and not notices.lost_daemon(text):
        return tuple(faults)
    if death := notices.rank_death(text):
        faults.append(
            _refused(plan, outcome, death)
            or _by_its_peers(plan, outcome, death)
            or _out_of_step(plan, outcome, death)
            or _rank_died(plan, outcome, death)
        )
    elif not faults and notices.lost_daemon(text):
        node = _known_as(plan, notices.daemon_node(text))
        faults.append(
            Fault(
                FaultKind.NODE_LOST,
                f"the launcher lost its daemon on {node or 'a node'}",
                node=node,
                hint="see launcher.log under logs/ in the run folder",
            )
        )
    elif not faults:
        faults.append(
            _refused(plan, outcome, None)
            or _by_its_peers(plan, outcome, None)
            or _out_of_step(plan, outcome, None)
            or _by_a_rank(plan, outcome)
            or _by_the_launcher(outcome)
        )
    return tuple(faults)


def _by_a_rank(plan: LaunchPlan, outcome: Outcome) -> Fault | None:
    """Return the fault of a launch whose ranks reported an error, although the launcher did not name a rank.

    mpirun omits the rank in its message if all ranks end at the same moment.
    """
    said = {rank: notices.last_words(text) for rank, text in outcome.stderr_by_rank.items() if rank < plan.np}
    said = {rank: words for rank, words in said.items() if words}
    if not said or not notices.only_a_status(outcome.launcher):
        return None
    rank = min(said)
    node = _place(plan, rank)
    return Fault(
        FaultKind.RANK_DIED,
        f"rank {rank} on {node} ended with an error (launcher status {outcome.returncode}): {said[rank]}",
        rank=rank,
        node=node,
        hint=f"see rank-{rank}.log under logs/ in the run folder",
    )


def _by_the_launcher(outcome: Outcome) -> Fault:
    said = notices.last_words(outcome.launcher) or "no output"
    return Fault(
        FaultKind.LAUNCHER,
        f"the launcher ended with status {outcome.returncode}: {said}",
        hint="see launcher.log under logs/ in the run folder",
    )


def _rank_died(plan: LaunchPlan, outcome: Outcome, death: RankDeath) -> Fault:
    rank, node = death.rank, _place(plan, death.rank)
    hint = f"see rank-{rank}.log under logs/ in the run folder"
    if death.signal is None:
        how = f"ended with status {death.status}"
    else:
        name = _SIGNALS.get(death.signal)
        how = f"died of signal {death.signal}" + (f" ({name})" if name else "")
    if death.signal == 9:
        hint = "if you did not send signal 9, the kernel may be out of memory: check dmesg on that node"
    after_s = outcome.duration_s if outcome.failed_s is None else outcome.failed_s
    return Fault(
        FaultKind.RANK_DIED,
        f"rank {rank} on {node} {how} after {after_s:.0f} s{_said(outcome, rank)}",
        rank=rank,
        node=node,
        hint=_TERMINAL if _NEEDS_TERMINAL.search(outcome.stderr_by_rank.get(rank, "")[-4096:]) else hint,
    )


def _ended_itself(outcome: Outcome, death: RankDeath | None) -> bool:
    """Return whether the rank, or the launch if the launcher names no rank, ended with a status or aborted.

    torch ends a rank by an abort if NCCL reports an error.
    """
    return death.signal in (None, _ABORT) if death is not None else notices.only_a_status(outcome.launcher)


def _by_its_peers(plan: LaunchPlan, outcome: Outcome, death: RankDeath | None) -> Fault | None:
    """Return the fault of the rank whose loss ended the one that the launcher reports; None if that one failed itself.

    Of a launcher that names no rank, return the fault of the rank that the others lost. A rank that ends, also with
    status 0, ends its peers within milliseconds, these end theirs, and Open MPI 5 reports whichever end it sees first.
    A rank may claim that it lost another one, to blame it, and publish the address of another one. So the lost rank is
    at fault only if most of the other ranks report its number, if there is only one other rank, or if rank 0 saw it die
    while ranks met.
    """
    said = {
        rank: lost
        for rank, text in outcome.stderr_by_rank.items()
        if rank < plan.np and (lost := notices.lost_peer(text)) is not None and _may_be(plan, rank, lost)
    }
    if not _ended_itself(outcome, death) or not said or (death is not None and death.rank not in said):
        return None
    peers = {rank: _number(plan, rank, lost) for rank, lost in said.items()}
    ends = {rank: _end_of_losses(peers, rank) for rank in sorted(peers)}
    witness = min(peers) if death is None else death.rank
    hint = "see the logs of both ranks under logs/ in the run folder"
    here = f"rank {witness} on {_place(plan, witness)}"
    last = {peer for _, peer in ends.values() if peer is not None}
    if len(last) > 1 or last & peers.keys():
        # Each lost another one: their connections failed, and no rank is known to have died.
        there = _rank_or_node(plan, peers[witness], said[witness])
        message = f"ranks lost their connections to each other: {here} to {there}{_said(outcome, witness)}"
        return Fault(FaultKind.RANK_DIED, message, hint=f"{hint}, and check the network between their nodes")
    known = [end for end in (ends[witness], *ends.values()) if end[1] is not None]
    witness, peer = (known or [ends[witness]])[0]
    here = f"rank {witness} on {_place(plan, witness)}"
    there = _rank_or_node(plan, peer, said[witness])
    if peer is None:
        message = f"{there} died or cannot be reached, as {here} reported{_said(outcome, witness)}"
        return Fault(
            FaultKind.RANK_DIED, message, hint="look for an earlier error in the logs of the other ranks"
        )
    votes = sum(lost.rank == peer for lost in said.values())
    root = said.get(0)
    seen_by_root = root is not None and root.meeting and root.rank == peer
    is_known = plan.np == 2 or seen_by_root or _most_of_the_others(plan, votes)
    return Fault(
        FaultKind.RANK_DIED,
        f"{there} died or cannot be reached, as {here} reported{_said(outcome, peer)}",
        rank=peer if is_known else None,
        node=_place(plan, peer) if is_known else None,
        hint=hint + "; if it was killed, the kernel may be out of memory: check dmesg on that node",
    )


def _may_be(plan: LaunchPlan, witness: int, lost: LostPeer) -> bool:
    return lost.rank is None or (lost.rank < plan.np and lost.rank != witness)


def _number(plan: LaunchPlan, witness: int, lost: LostPeer) -> int | None:
    """Return the lost rank; None if several ranks fit."""
    if lost.rank is not None:
        return lost.rank
    if plan.np == 2:
        return 1 - witness
    nodes = {p.node for p in _placed(plan, lost.place)} if lost.place is not None else set()
    ranks = [rank for rank, node in enumerate(plan.node_of_rank) if node in nodes]
    return ranks[0] if len(ranks) == 1 and ranks != [witness] else None


def _end_of_losses(peers: Mapping[int, int | None], rank: int) -> tuple[int, int | None]:
    """Follow who lost whom; return the last rank that lost another one, and that one, which is one of them in a circle.

    That one is None if it is not known.
    """
    passed = [rank]
    while (peer := peers[passed[-1]]) is not None and peer in peers and peer not in passed:
        passed.append(peer)
    return passed[-1], peer


def _rank_or_node(plan: LaunchPlan, peer: int | None, lost: LostPeer) -> str:
    if peer is not None:
        return f"rank {peer} on {_place(plan, peer)}"
    fits = _placed(plan, lost.place) if lost.place is not None else []
    return f"a rank on {fits[0].node}" if fits else "another rank"


def _most_of_the_others(plan: LaunchPlan, votes: int) -> bool:
    """Return whether so many ranks are most of the others of one rank, and two at least: one may make it up."""
    return votes >= 2 and 2 * votes > plan.np - 1


def _out_of_step(plan: LaunchPlan, outcome: Outcome, death: RankDeath | None) -> Fault | None:
    """Return the fault of ranks that called different operations; None if the rank ended for another reason.

    The rank that notices it first ends first, so that its node is not at fault.
    """
    if not _ended_itself(outcome, death):
        return None
    ranks = range(plan.np) if death is None else (death.rank,)
    said = ((rank, notices.out_of_step(outcome.stderr_by_rank.get(rank, ""))) for rank in ranks)
    rank, why = next(((rank, why) for rank, why in said if why is not None), (0, None))
    if why is None:
        return None
    return Fault(
        FaultKind.RANK_DIED,
        f"{why}, as rank {rank} on {_place(plan, rank)} reported",
        hint="see the logs of these ranks under logs/ in the run folder, and compare the programs on their nodes",
    )


def _refused(plan: LaunchPlan, outcome: Outcome, death: RankDeath | None) -> Fault | None:
    """Return the fault of a run that ended because ranks refused a value of another one; None for other ends.

    One rank may claim that it refused a value, to blame another one. So the sender is at fault only if most of the
    other ranks refused its value, and two of them at least.
    """
    found = {
        rank: notices.refused_rank(text) for rank, text in outcome.stderr_by_rank.items() if rank < plan.np
    }
    refused = {
        rank: said
        for rank, said in found.items()
        if said is not None and said[0] < plan.np and said[0] != rank
    }
    if not refused or (death is not None and (death.status != EXIT_NO_PLACE or death.rank not in refused)):
        return None
    ((sender, votes),) = Counter(sender for sender, _ in refused.values()).most_common(1)
    witness = min(rank for rank, (named, _) in refused.items() if named == sender)
    why = refused[witness][1]
    there, here = (f"rank {rank} on {_place(plan, rank)}" for rank in (sender, witness))
    hint = f"compare the programs on {_place(plan, sender)} with those of other nodes"
    if _most_of_the_others(plan, votes):
        message = f"{there} sent a value that {votes} of {plan.np - 1} other ranks refused: {why}"
        return Fault(FaultKind.RANK_DIED, message, rank=sender, node=_place(plan, sender), hint=hint)
    message = f"{here} refused a value of {there}: {why}"
    return Fault(FaultKind.RANK_DIED, message, hint=f"{hint}, and those on {_place(plan, witness)}")


def check_ranks(ranks: Sequence[RankProof], np: int) -> tuple[Fault, ...]:
    """Return a fault if the ranks that reported differ from those that were started."""
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
        return (Fault(FaultKind.DUPLICATE_RANKS, f"{len(ranks)} ranks reported, but {np} were started"),)
    return ()


def check_table(ranks: Sequence[RankProof], outcome: Outcome, np: int) -> tuple[Fault, ...]:
    """Return a fault if rank 0's table does not cover exactly the ranks that were started."""
    faults = check_ranks(ranks, np)
    if not faults:
        return ()
    alone = sum(
        any(rank.rank == 0 for rank in perf_output.parse(t).ranks) for t in outcome.stdout_by_rank.values()
    )
    return faults if alone < 2 else (perf_output.never_met(alone),)


def check_library(library: str, said: Iterable[str]) -> tuple[Fault, ...]:
    """Return a fault if the program reports another library than the requested one.

    Libraries of others have a proof of their own, and several of them report the NCCL that they were built from.
    """
    if library in FOREIGN:
        return ()
    for other, titles in _TITLES.items():
        line = next((line for line in said if line.startswith(titles)), None)
        if line is not None and other != library.partition("+")[0]:
            return (
                Fault(
                    FaultKind.MISSING_PROGRAM,
                    f"the run measures {library}, but the program uses {other} ({line})",
                    hint=f"choose --library {other}, or fix `all_reduce_perf` in the inventory",
                ),
            )
    return ()


def _listed(numbers: Iterable[int]) -> str:
    found = list(numbers)
    return ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")


def merge(
    causes: tuple[Fault, ...], found: tuple[Fault, ...], reported: tuple[Fault, ...]
) -> tuple[Fault, ...]:
    """Merge the faults of the launch, the parser and the rank check; drop those that follow from another."""
    if any(fault.kind is FaultKind.NAN_LOSS for fault in found):
        # The rank that detected the wrong result ended itself; its exit status is not a second fault.
        causes = tuple(fault for fault in causes if fault.kind is not FaultKind.RANK_DIED)
        reported = ()
    if causes:
        found = tuple(f for f in found if f.kind not in (FaultKind.CRASHED, FaultKind.UNPARSABLE))
        reported = ()
    if any(f.kind is FaultKind.DUPLICATE_RANKS for f in found):
        reported = ()
    return (*found, *causes, *reported) if not causes else (*causes, *found, *reported)
