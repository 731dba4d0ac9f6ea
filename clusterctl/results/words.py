"""The words for people: every status of a document is one of six, with the finer word beside it where it matters.

This is the only place that maps statuses to these words. Documents keep their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from types import MappingProxyType

from clusterctl.documents.accept import AcceptStatus, RowStatus
from clusterctl.documents.bench import BenchResult, BenchStatus
from clusterctl.documents.check import Check
from clusterctl.documents.kinds import ComparisonWord, Effect, FaultKind, VerdictStatus
from clusterctl.documents.launch import RungStatus
from clusterctl.documents.locate import Locate, LocateStatus, SuspectStatus
from clusterctl.documents.measured_runs import StoredRun
from clusterctl.documents.runs import ListedRun, RunOutcome
from clusterctl.documents.words import StrictFailure
from clusterctl.inventory import nodeset
from clusterctl.text.grouping import grouped
from clusterctl.text.wording import counted
from clusterctl.workloads.shared_gpu import TIME_SLICES


def strict_lines(failed: Sequence[StrictFailure] | None) -> Iterator[str]:
    """Yield the line that names what makes the exit code 1 with ``--strict``, if something does."""
    nodes = grouped((one.name, name) for one in failed or () for name in one.nodes)
    if nodes:
        where = (f"{name} on {nodeset.fold(dict.fromkeys(names))}" for name, names in nodes.items())
        yield f"exit code 1 by --strict: {'; '.join(where)}"


class Word(str, Enum):
    """Tell how something is; ``measured``: it has figures, and nothing judges them."""

    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"
    NOT_MEASURED = "not measured"
    BUSY = "busy"
    DOWN = "down"
    MEASURED = "measured"


OF_VERDICTS: Mapping[VerdictStatus, Word] = MappingProxyType(
    {
        VerdictStatus.MET: Word.GOOD,
        VerdictStatus.UNMET: Word.BAD,
        VerdictStatus.UNKNOWN: Word.UNSURE,
        VerdictStatus.NOT_APPLICABLE: Word.NOT_MEASURED,
    }
)
OF_ROWS: Mapping[RowStatus, Word] = MappingProxyType(
    {
        RowStatus.OK: Word.GOOD,
        RowStatus.MEASURED: Word.MEASURED,
        RowStatus.WARN: Word.UNSURE,
        RowStatus.FAIL: Word.BAD,
        RowStatus.NOT_RUN: Word.NOT_MEASURED,
        RowStatus.NOT_APPLICABLE: Word.NOT_MEASURED,
    }
)
OF_RUNGS: Mapping[RungStatus, Word] = MappingProxyType(
    {
        RungStatus.OK: Word.GOOD,
        RungStatus.FAILED: Word.BAD,
        RungStatus.NOT_NEEDED: Word.NOT_MEASURED,
        RungStatus.NOT_REACHED: Word.NOT_MEASURED,
    }
)
FINER_OF_RUNGS: Mapping[RungStatus, str] = MappingProxyType(
    {RungStatus.NOT_NEEDED: "not needed", RungStatus.NOT_REACHED: "not reached"}
)
OF_SUSPECTS: Mapping[SuspectStatus, Word] = MappingProxyType(
    {
        SuspectStatus.NAMED: Word.BAD,
        SuspectStatus.OPEN: Word.UNSURE,
        SuspectStatus.CLEARED: Word.GOOD,
    }
)
FINER_OF_ROWS: Mapping[RowStatus, str] = MappingProxyType(
    {RowStatus.WARN: "warning", RowStatus.NOT_RUN: "not run", RowStatus.NOT_APPLICABLE: "not applicable"}
)
_OF_ACCEPTS = {AcceptStatus.ACCEPTED: Word.GOOD, AcceptStatus.NOT_ACCEPTED: Word.BAD}
_OF_BENCHES = {
    BenchStatus.FAILED: Word.BAD,
    BenchStatus.BELOW_BASELINE: Word.BAD,
    BenchStatus.BELOW_THRESHOLD: Word.BAD,
    BenchStatus.NOT_JUDGED: Word.UNSURE,
    BenchStatus.DOUBTFUL: Word.UNSURE,
}
_OF_RUNS: Mapping[RunOutcome, tuple[Word, str]] = MappingProxyType(
    {
        RunOutcome.RUNNING: (Word.BUSY, "running"),
        RunOutcome.INTERRUPTED: (Word.NOT_MEASURED, "interrupted"),
        RunOutcome.OK: (Word.GOOD, ""),
        RunOutcome.FAILED: (Word.BAD, "failed"),
        RunOutcome.UNMET: (Word.BAD, "unmet"),
        RunOutcome.PLANNED: (Word.NOT_MEASURED, "planned"),
        RunOutcome.CHANGED: (Word.GOOD, "changed"),
        RunOutcome.NAMED: (Word.BAD, "slow"),
        RunOutcome.UNFINISHED: (Word.UNSURE, "unfinished"),
        RunOutcome.BELOW_BASELINE: (Word.BAD, "below baseline"),
        RunOutcome.BELOW_THRESHOLD: (Word.BAD, "below threshold"),
        RunOutcome.NOT_JUDGED: (Word.UNSURE, "not judged"),
        RunOutcome.DOUBTFUL: (Word.UNSURE, "doubtful"),
        RunOutcome.UP: (Word.GOOD, "up"),
        RunOutcome.REMOVED: (Word.GOOD, "removed"),
        RunOutcome.UNREADABLE: (Word.UNSURE, "unreadable"),
    }
)
TURNS = "time slices"
_OF_EXPECTED = {"fine": Word.GOOD, "warn": Word.UNSURE, "slow": Word.BAD, "impossible": Word.UNSURE}
_SLOWER = {"warn": "lower than expected", "slow": "slow", "impossible": "not possible"}


def with_finer(word: Word, finer: str = "") -> str:
    """Return the word, and the finer one beside it: ``bad (slow)``."""
    return f"{word.value} ({finer})" if finer else word.value


def of_check(found: Check) -> tuple[Word, str]:
    """Return the word and the finer word for a check: good only if every requirement of every node is known and met."""
    total, counts = len(found.nodes), found.summary.nodes
    if counts.whole == total:
        return Word.GOOD, ""
    word = of_counts(found.summary.unmet, found.summary.unknown, found.summary.unreachable)
    if word is Word.DOWN:
        return word, f"{found.summary.unreachable} of {counted(total, 'node')}"
    return word, f"{total - counts.whole} of {counted(total, 'node')} not as required"


def of_counts(unmet: int, unknown: int, unreachable: int) -> Word:
    """Return the word for a check: down if all that is wrong is that nodes were not reached."""
    if unmet:
        return Word.BAD
    if unreachable:
        return Word.DOWN
    return Word.UNSURE if unknown else Word.GOOD


def of_accept(status: AcceptStatus) -> tuple[Word, str]:
    """Return the word and the finer word for a run of ``accept``."""
    return _OF_ACCEPTS[status], status.value.replace("-", " ")


def of_bench(found: BenchResult) -> tuple[Word, str]:
    """Return the word and the finer word for a benchmark; only a baseline, a bound or a threshold makes it good or bad.

    A result of several variants is measured, because the bound of one does not judge the others.
    """
    if FaultKind.INTERRUPTED in {fault.kind for fault in found.proof.failures or ()}:
        return Word.NOT_MEASURED, "interrupted"
    takes_turns = any(TIME_SLICES in one.proof.sharing for one in found.variants if one.proof.sharing)
    if takes_turns and found.status is not BenchStatus.FAILED:
        return Word.UNSURE, TURNS
    if found.status is not BenchStatus.OK:
        return _OF_BENCHES[found.status], found.status.value.replace("-", " ")
    proof = found.proof
    compared = {one.word for variant in found.variants[1:] for one in variant.rows}
    compared |= {one.word for variant in found.variants[1:] for one in variant.points}
    if compared == {ComparisonWord.UNDECIDED}:
        return Word.UNSURE, "undecided"
    if proof.baseline is not None and proof.baseline.verdict == "ok":
        return Word.GOOD, "meets its baseline"
    if proof.min_efficiency is not None:
        return Word.GOOD, "meets --min-efficiency"
    expected = found.evidence.expected
    verdict = expected.verdict if expected is not None and len(found.variants) == 1 else "unknown"
    word = _OF_EXPECTED.get(verdict, Word.MEASURED)
    return word, "as expected" if word is Word.GOOD else _SLOWER.get(verdict, "")


def of_locate(found: Locate) -> tuple[Word, str]:
    """Return the word and the finer word for a run of ``locate``; two nodes are measured, because none can be named."""
    if found.status is LocateStatus.FAILED:
        return Word.BAD, "failed"
    if found.status is LocateStatus.NAMED:
        return Word.BAD, "slow"
    if found.status is LocateStatus.INCONCLUSIVE:
        return Word.UNSURE, "inconclusive"
    if found.slow_rails or found.boundary is not None:
        return Word.UNSURE, "slow on all nodes"
    ends = [*(one.status for one in found.suspects), *(one.status for one in found.suspects_alone)]
    if SuspectStatus.OPEN in ends:
        return Word.UNSURE, "undecided"
    if any(doubts_of_locate(found)):
        return Word.UNSURE, "doubtful"
    return (Word.GOOD, "") if found.nodes > 2 else (Word.MEASURED, "")


def doubts_of_locate(found: Locate) -> Iterator[str]:
    """Yield why a run of ``locate`` that named nothing does not prove the nodes good."""
    if found.health is not None and found.health.doubtful:
        nodes = (one.node for one in found.health.events if one.effect is not Effect.NOTE)
        yield f"the hardware reported faults on {nodeset.fold(dict.fromkeys(nodes))}"
    if pairs := [one for one in found.ends_differ if one.at_fault is None]:
        yield f"the two ends of {counted(len(pairs), 'pair')} report different rates"
    if any(not one.named for one in found.held_back):
        yield "equal CPU quotas held back every rank"
    if found.gpus_not_measured:
        yield f"the GPUs of {nodeset.fold(found.gpus_not_measured)} were not measured"


def where(run: StoredRun) -> str:
    """Return the numbers of ranks and nodes of a benchmark."""
    if run.np is None:
        return "no rank started"
    return f"{counted(run.np, 'rank')} on {counted(run.nodes or 0, 'node')}"


def of_run(found: ListedRun) -> tuple[Word, str]:
    """Return the word and the finer word for a run in a list."""
    if found.verdict is not None:
        word, _, finer = found.verdict.partition(" (")
        return Word(word), finer.rstrip(")")
    if found.outcome is RunOutcome.UNMET and "unmet" not in found.detail:
        return Word.UNSURE, ""  # a bootstrap whose open verdicts are unknown
    return _OF_RUNS[found.outcome]
