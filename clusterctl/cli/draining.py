"""``--drain``: drain the bad nodes in Slurm with the reason in words, and undrain those that are good again."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl import run_ids
from clusterctl.cli import console
from clusterctl.cli.options import Drain
from clusterctl.errors import CommandError
from clusterctl.inventory import nodeset
from clusterctl.text.grouping import grouped

if TYPE_CHECKING:
    from clusterctl.documents.accept import Accept
    from clusterctl.documents.locate import Locate
    from clusterctl.requirements.base import Decision
    from clusterctl.transport.base import HostMap

_PROGRAM = "scontrol"
_MARK = "clusterctl: "
"""The beginning of the reasons that clusterctl sets."""
_REASON_CHARACTERS = 200
_TIMEOUT_S = 30.0
_MOST_BYTES = 64 << 20
_LINE_CHARACTERS = 64 * 1024
_NODE = re.compile(r"NodeName=(\S{1,255}) ")
_STATE = re.compile(r" State=([A-Z0-9_+*~#!%$@^-]{1,200}) ")
# scontrol appends who set the reason, and when.
_REASON = re.compile(r"([^\n]{1,4096}?) \[[^\[\]\s]{1,64}@[0-9T:.-]{1,40}\]")
_OURS = re.compile(
    rf"{_MARK}([a-z0-9-]{{1,40}}(?:, [a-z0-9-]{{1,40}}){{0,40}}): .* \(([0-9A-Za-z-]{{1,60}})\)"
)
# Quotes and other characters that a shell or scontrol would interpret, and those that are not printable ASCII.
_UNSAFE = re.compile(r"[^ -~]|[\"'\\`$]")


@dataclass(frozen=True, slots=True)
class SlurmJudgement:
    """What a run found on a node: the reason of each fault by its name (``gpu-health``), and what is good.

    The names are requirements, rows of accept, or ``locate``.
    """

    faults: Mapping[str, str]
    good: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """The state of a node in Slurm, and the reason of its drain (empty without one)."""

    drained: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Update:
    """One ``scontrol update``: the nodes, and the reason to drain them (empty: undrain)."""

    nodes: tuple[str, ...]
    reason: str

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the command."""
        words = (_PROGRAM, "update", f"NodeName={_node_list(self.nodes)}")
        return (*words, "State=DRAIN", f"Reason={self.reason}") if self.reason else (*words, "State=UNDRAIN")

    @property
    def said(self) -> str:
        """Return what the command did."""
        names = nodeset.fold(self.nodes)
        return f"drained {names} in Slurm: {self.reason}" if self.reason else f"undrained {names} in Slurm"


def of_check(verdicts: HostMap[tuple[Decision, ...]]) -> dict[str, SlurmJudgement]:
    """Return the judgement of each node that answered: its faults are unmet requirements that a person must fix."""
    from clusterctl.requirements.base import Owner, Status

    return {
        name: SlurmJudgement(
            {one.requirement: one.reason for one in found if one.owner is Owner.YOU},
            frozenset(one.requirement for one in found if one.status is Status.MET),
        )
        for name, found in verdicts.values_by_node.items()
    }


def of_accept(found: Accept) -> dict[str, SlurmJudgement]:
    """Return the judgement of each node with rows: its faults are rows that are FAIL.

    A row that is NOT RUN counts as neither faulty nor good.
    """
    from clusterctl.documents.accept import RowStatus

    good = (RowStatus.OK, RowStatus.MEASURED, RowStatus.WARN)
    return {
        node.name: SlurmJudgement(
            {row.row: row.reason for row in node.rows if row.status is RowStatus.FAIL},
            frozenset(row.row for row in node.rows if row.status in good),
        )
        for node in found.nodes
        if node.rows
    }


def of_locate(found: Locate) -> dict[str, SlurmJudgement]:
    """Return the judgement of each measured node: named ones are faulty; of an inconclusive run, nothing.

    A node of a slow link and one that is undecided are neither faulty nor good.
    """
    from clusterctl.documents.locate import LocateStatus, SuspectStatus
    from clusterctl.report.line import Tone
    from clusterctl.views.locate import items

    if found.status not in (LocateStatus.NONE, LocateStatus.NAMED, LocateStatus.FAILED):
        return {}
    said = [one.said for one in items(found) if one.tone is Tone.BAD]
    judged = {}
    for name in found.named_nodes:
        own = [text[len(name) :].lstrip(": ") for text in said if text.startswith((f"{name}:", f"{name} "))]
        judged[name] = SlurmJudgement(
            {"locate": own[0] if own else "fails with every partner that works with others"}
        )
    open_ends = {
        name for one in found.suspects if one.status is not SuspectStatus.CLEARED for name in one.nodes
    } | {one.node for one in found.suspects_alone if one.status is not SuspectStatus.CLEARED}
    if found.status is not LocateStatus.FAILED and found.nodes > 2:
        for name in {one.node for one in found.rates} - open_ends - judged.keys():
            judged[name] = SlurmJudgement({}, frozenset({"locate"}))
    return judged


def _node_list(names: Sequence[str]) -> str:
    """Return names for Slurm, which allows no text behind a bracket."""
    folded = nodeset.fold(names)
    return ",".join(names) if re.search(r"\][^,]", folded) else folded


def reason_of(faults: Mapping[str, str], run: str) -> str:
    """Return the reason of a drain, at most 200 characters: all names of faults, then the first fault in words.

    Names that do not fit are counted; such a node is undrained by hand only.
    """
    end = f" ({run})"
    names = list(faults)
    kept = names
    while len(", ".join(kept)) > _REASON_CHARACTERS // 2:
        kept = kept[:-1]
    listed = ", ".join(kept) + (f" and {len(names) - len(kept)} more" if len(kept) < len(names) else "")
    head = f"{_MARK}{listed}: "
    words = _UNSAFE.sub("", " ".join(next(iter(faults.values())).split()))
    room = _REASON_CHARACTERS - len(head) - len(end)
    return head + (words if len(words) <= room else words[: room - 3].rstrip() + "...") + end


def parse(text: str) -> dict[str, SlurmNode]:
    """Return the nodes of ``scontrol --oneliner show node``; lines of another form are left out."""
    found: dict[str, SlurmNode] = {}
    for line in text.splitlines():
        if len(line) > _LINE_CHARACTERS:
            continue
        name, state, reason = (
            _NODE.match(line),
            _STATE.search(line),
            _REASON.match(line.partition(" Reason=")[2]),
        )
        if name is not None and state is not None:
            found[name[1]] = SlurmNode("DRAIN" in state[1], reason[1].strip() if reason is not None else "")
    return found


def updates(
    judged: Mapping[str, SlurmJudgement], known: Mapping[str, SlurmNode], run: str
) -> tuple[tuple[Update, ...], tuple[str, ...]]:
    """Return the commands for a fleet and notes about nodes that are left as they are; pure.

    A drain is lifted only if clusterctl set it with the same command, if everything that it names is good now, and if
    the node has no other fault.
    """
    drain = {name: reason_of(one.faults, run) for name, one in judged.items() if one.faults}
    unknown = [name for name in drain if name not in known]
    already = {name: known[name].reason for name in drain if name in known and known[name].drained}
    again = [name for name, one in judged.items() if not one.faults and name in known and known[name].drained]
    cleared = [name for name in again if _lifts(known[name].reason, judged[name].good, run)]
    stays = {name: known[name].reason for name in again if name not in cleared}
    wanted = grouped((why, name) for name, why in drain.items() if name in known and name not in already)
    commands = [Update(tuple(names), why) for why, names in wanted.items()]
    if cleared:
        commands.append(Update(tuple(cleared), ""))
    notes = [f"note: {nodeset.fold(unknown)}: not a node of Slurm, so not drained"] if unknown else []
    for what, reasons in (("was already drained", already), ("stays drained, without a fault here", stays)):
        for why, names in grouped((why, name) for name, why in reasons.items()).items():
            notes.append(f"note: {nodeset.fold(names)} {what}: {why or 'no reason given'}")
    return tuple(commands), tuple(notes)


def _lifts(reason: str, good: frozenset[str], run: str) -> bool:
    """Return whether a run lifts a drain with this reason."""
    ours = _OURS.fullmatch(reason)
    if ours is None or run_ids.verb_of(ours[2]) != run_ids.verb_of(run):
        return False
    return good.issuperset(ours[1].split(", "))


def require(how: Drain | None) -> None:
    """Raise CommandError before anything is measured if ``--drain slurm`` cannot work: no scontrol, or no answer."""
    if how is Drain.SLURM:
        _read()


def apply(how: Drain | None, judged: Mapping[str, SlurmJudgement], run: str, *, as_json: bool) -> None:
    """Print or run the commands that drain and undrain nodes; raise CommandError if one of them fails.

    Commands are printed on stdout, with ``as_json`` on stderr.
    """
    if how is None:
        return
    show = console.error if as_json else console.data
    if how is Drain.PRINT:
        for line in _printed(judged, run):
            show(line)
        return
    commands, notes = updates(judged, _read(), run)
    failed: list[CommandError] = []
    for one in commands:
        try:
            _scontrol(one.argv)
        except CommandError as error:
            failed.append(error)
            continue
        show(one.said)
    for note in notes:
        console.talk(note)
    for other in failed[1:]:
        console.error(f"error: {other.message}")
    if failed:
        raise failed[0]


def _printed(judged: Mapping[str, SlurmJudgement], run: str) -> Iterator[str]:
    """Yield the commands; where Slurm cannot be read, those that drain every bad node."""
    try:
        known = _read()
    except CommandError as error:
        console.talk(f"note: {error.message}; only the commands that drain are printed")
        known = {name: SlurmNode(drained=False, reason="") for name in judged}
    commands, notes = updates(judged, known, run)
    for one in commands:
        yield shlex.join(one.argv)
    for note in notes:
        console.talk(note)


def _read() -> dict[str, SlurmNode]:
    found = parse(_scontrol((_PROGRAM, "--oneliner", "show", "node")))
    if not found:
        raise CommandError(
            "scontrol show node listed no nodes",
            hint="run it by hand on this machine; --drain needs a configured Slurm client",
        )
    return found


def _scontrol(argv: tuple[str, ...]) -> str:
    """Run scontrol and return its output; raise CommandError if it is missing, hangs or fails."""
    path = shutil.which(_PROGRAM)
    if path is None:
        raise CommandError(
            "scontrol not found on this machine",
            hint="run this command where Slurm's client is installed, or use --drain print",
        )
    command = shlex.join(argv)
    try:
        done = subprocess.run(
            (path, *argv[1:]), stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CommandError(
            f"{command}: no answer within {_TIMEOUT_S:.0f} s", hint="check slurmctld with: scontrol ping"
        ) from None
    except OSError as error:
        raise CommandError(f"{command}: {error.strerror}", hint=f"check {path}") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout)[:400].decode(errors="replace").strip() or "no message"
        raise CommandError(
            f"{command}: exit status {done.returncode}: {' '.join(said.split())}",
            hint="draining needs a Slurm operator's rights, and slurmctld must answer: scontrol ping",
        )
    return done.stdout[:_MOST_BYTES].decode(errors="replace")
