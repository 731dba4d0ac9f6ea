"""Run rows on all nodes: those of one node on all nodes at once, then pairs of nodes, then the whole fleet."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from clusterctl import log
from clusterctl.acceptance.model import (
    AcceptRow,
    FleetAnswer,
    FleetPlace,
    FleetProgram,
    FromFacts,
    NodeProgram,
    PairProgram,
    Parsed,
    RowOutcome,
    RowStatus,
)
from clusterctl.acceptance.on_node import NodeRows, ReadyNode
from clusterctl.acceptance.outcomes import OutcomeFile
from clusterctl.errors import ClusterctlError
from clusterctl.facts.catalog import ON_REQUEST, SUBJECTS
from clusterctl.facts.gather import gather
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Node
from clusterctl.launch import leftovers, readiness
from clusterctl.launch.run import Runner
from clusterctl.text.grouping import grouped
from clusterctl.transport.base import Failure, HostMap, Transport
from clusterctl.transport.fanout import fan_out
from clusterctl.transport.kept import Kept
from clusterctl.workloads.archive import ARCHIVE, build

T = TypeVar("T")
_LOG = log.get(__name__)
SUBJECTS_READ = (frozenset(SUBJECTS) - ON_REQUEST) | {"session", "launch", "counters", "tool_versions"}
"""The subjects of the facts that rows may read."""
UNREACHABLE = "unreachable: "
"""How the reason begins why a row did not run on a node that does not answer any more."""
_SHORT_S = 120.0
_PAIRS_AT_ONCE = 32


class AcceptViewer:
    """Hear what the engine does; by default nothing happens."""

    def starting(self, node: str, row: AcceptRow) -> None:
        """A row starts on a node."""

    def ended(self, outcome: RowOutcome) -> None:
        """A row ended on a node."""

    def say(self, text: str) -> None:
        """Show a line of progress."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How the engine reaches the nodes."""

    fanout: int
    probe_timeout_s: float
    escalate: bool
    known_hosts: str | None


class AcceptEngine:
    """Run the rows of one run; a context manager that removes from the nodes what it put there."""

    def __init__(
        self,
        nodes: Sequence[Node],
        connect: Callable[[Node], Transport],
        settings: EngineSettings,
        rows: Sequence[AcceptRow],
        outcomes: OutcomeFile,
        logs: Path,
        viewer: AcceptViewer | None = None,
    ) -> None:
        self._nodes = tuple(nodes)
        self._plain = connect
        self._settings = settings
        self._rows = tuple(rows)
        self._outcomes = outcomes
        self._logs = logs
        self.viewer = viewer or AcceptViewer()
        self._kept = Kept(len(self._nodes))
        self._connect = self._kept.over(connect)
        self._token = secrets.token_hex(8)
        self._directory = f"{leftovers.PREFIX}{self._token}"
        self._touched = False
        self._cancelled = threading.Event()
        self._controller = leftovers.this_controller()
        self.ready: dict[str, ReadyNode] = {}
        self.before: dict[str, NodeFacts] = {}
        """The facts of each node at the start of the run; ``prepare`` sets them unless they are known."""

    def __enter__(self) -> AcceptEngine:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._remove()
        finally:
            self._kept.drop()

    def prepare(self) -> HostMap[NodeFacts]:
        """Gather facts and programs of every node, and copy the workloads to it, over one connection per node."""
        tools = {" ".join((tool.program, *tool.version)): None for row in self._rows for tool in row.tools}
        archive = (
            build() if any(isinstance(r.work, NodeProgram) and r.work.torch for r in self._rows) else None
        )

        def work(node: Node, transport: Transport) -> ReadyNode:
            facts = gather(
                transport, node, self._settings.probe_timeout_s,
                escalate=self._settings.escalate, subjects=SUBJECTS_READ,
                values={
                    **readiness.values(node, self._settings.known_hosts, "all_reduce_perf"),
                    "TOOLS": "\n".join(tools),
                },
            )  # fmt: skip
            leftovers.claim(transport, self._directory, self._controller)
            ready = ReadyNode(node, facts, self._directory, self._token, len(self._nodes))
            if archive is not None and ready.torch is not None:
                transport.put(archive, f"{self._directory}/{ARCHIVE}", mode=0o600)
            return ready

        self._touched = True
        answers = self._fan_out(self._nodes, work)
        self.ready = dict(answers.values_by_node)
        self.before = {name: ready.facts for name, ready in self.ready.items()} | self.before
        return answers.map(lambda _, one: one.facts)

    def run(self, rows: Sequence[AcceptRow], repeat: int = 0) -> None:
        """Run those of the rows that have no outcome yet in this repeat."""
        alone = [row for row in rows if isinstance(row.work, (FromFacts, NodeProgram))]
        self._alone(
            self.ready,
            lambda name: [r for r in alone if not self._outcomes.has(name, r.name, repeat)],
            repeat,
        )
        for row in rows:
            if isinstance(row.work, PairProgram):
                self._pairs(row, row.work, repeat)
        for row in rows:
            if isinstance(row.work, FleetProgram):
                self._fleet(row, row.work, repeat)

    def measure_again(self, suspects: Iterable[RowOutcome]) -> None:
        """Measure rows again on the nodes whose values differed from the fleet."""
        first = {(one.node, one.row): one for one in suspects}
        programs = {r.name: r for r in self._rows if isinstance(r.work, NodeProgram)}
        todo = grouped((node, programs[row]) for node, row in first if row in programs and node in self.ready)

        def keep(second: RowOutcome) -> RowOutcome:
            before = first[second.node, second.row]
            found = second.parsed.findings
            # A program that found a fault may have measured nothing more: the fault is the result.
            failed = second.failed or next((one.text for one in found if one.status is RowStatus.FAIL), "")
            if failed:
                before = replace(before, failed=f"measured again: {failed}")
            warned = (one for one in found if one.status is not RowStatus.FAIL)
            findings = tuple(dict.fromkeys((*before.parsed.findings, *warned)))
            parsed = replace(before.parsed, findings=findings)
            return replace(before, parsed=parsed, again=second.parsed.measurements)

        repeat = next((one.repeat for one in first.values()), 0)
        self._alone(todo, lambda name: todo[name], repeat, keep)

    def _alone(
        self,
        names: Iterable[str],
        rows_of: Callable[[str], Sequence[AcceptRow]],
        repeat: int,
        keep: Callable[[RowOutcome], RowOutcome] = lambda one: one,
    ) -> None:
        def work(node: Node, transport: Transport) -> None:
            on_node = NodeRows(self.ready[node.name], transport, self._plain, self._logs, self._cancelled)
            try:
                for row in rows_of(node.name):
                    self.viewer.starting(node.name, row)
                    self._add(keep(on_node.run(row, repeat)))
            finally:
                on_node.close()

        todo = [self.ready[name].node for name in names if rows_of(name)]
        missed = self._fan_out(todo, work).failures
        for name, failure in missed.items():
            for row in rows_of(name):
                if not self._outcomes.has(name, row.name, repeat):
                    self._add(self._unreachable(name, row, repeat, failure))

    def _unreachable(self, name: str, row: AcceptRow, repeat: int, failure: Failure) -> RowOutcome:
        begun = self.ready[name].start(row, repeat)
        return begun if begun.not_applicable else replace(begun, not_run=f"{UNREACHABLE}{failure.message}")

    def _pairs(self, row: AcceptRow, work: PairProgram, repeat: int) -> None:
        able: list[str] = []
        # Nodes that have a result from before an interrupt are partners of those without.
        wanted: list[str] = []
        for name, ready in self.ready.items():
            begun = ready.start(row, repeat)
            missing = not self._outcomes.has(name, row.name, repeat)
            if not begun.not_applicable and not begun.not_run:
                able.append(name)
                wanted += [name] if missing else []
            elif missing:
                self._add(begun)
        if not wanted:
            return
        if row.too_few(len(able)):
            for name in wanted:
                begun = self.ready[name].start(row, repeat)
                self._add(replace(begun, not_run="no other node can run it"))
            return
        best: dict[str, RowOutcome] = {}
        for pairs in rounds_of_pairs(able):
            for start in range(0, len(pairs), _PAIRS_AT_ONCE):
                servers = {client: server for server, client in pairs[start : start + _PAIRS_AT_ONCE]}
                self._one_round(row, work, repeat, servers, best)
        for name in wanted:
            self._add(best[name])

    def _one_round(
        self,
        row: AcceptRow,
        work: PairProgram,
        repeat: int,
        servers: Mapping[str, str],
        best: dict[str, RowOutcome],
    ) -> None:
        def pair(node: Node, transport: Transport) -> RowOutcome:
            ready, server = self.ready[node.name], self.ready[servers[node.name]]
            other = self._plain(server.node)
            place = replace(server.place(row), directory=server.directory_of(f"{row.name}-server"))
            listening = NodeRows(server, other, self._plain, self._logs, self._cancelled)
            begun = replace(server.start(row, repeat), row=f"{row.name}-server")
            thread = threading.Thread(
                target=listening.command,
                args=(begun, work.server(place), work.deadline_s, lambda _: Parsed()),
                daemon=True,
            )
            thread.start()
            try:
                command = work.client(ready.place(row, server.address))
                on_node = NodeRows(ready, transport, self._plain, self._logs, self._cancelled)
                return on_node.command(ready.start(row, repeat), command, work.deadline_s, work.parse)
            finally:
                other.close()
                thread.join(_SHORT_S)
                listening.close()

        for client in servers:
            self.viewer.starting(client, row)
        found = self._fan_out([self.ready[name].node for name in servers], pair)
        for client, one in found.items():
            outcome = self._unreachable(client, row, repeat, one) if isinstance(one, Failure) else one
            for name in dict.fromkeys((client, servers[client])):
                best[name] = with_partner(
                    best.get(name), replace(outcome, node=name), is_client=name == client
                )

    def _fleet(self, row: AcceptRow, work: FleetProgram, repeat: int) -> None:
        able: list[str] = []
        for name, ready in self.ready.items():
            begun = ready.start(row, repeat)
            if begun.not_applicable:
                self._add(begun)
            else:
                able.append(name)
        if not able or (
            not row.at_the_end and all(self._outcomes.has(name, row.name, repeat) for name in able)
        ):
            return
        for name in able:
            self.viewer.starting(name, row)
        folder = self._logs / (f"{row.name}.{repeat}" if repeat else row.name)
        folder.mkdir(mode=0o700, exist_ok=True)
        place = FleetPlace(
            tuple(self.ready[name].node for name in able),
            self._runner(able),
            folder,
            self.viewer.say,
            {name: self.ready[name].facts for name in able},
            {name: self.before[name] for name in able},
            self._gather,
            on_gpus=all(self.ready[name].facts.gpu.devices.or_else(()) for name in able),
        )
        try:
            answer = work.run(place)
        except ClusterctlError as error:
            answer = FleetAnswer({}, not_run=error.message)
        for name in able:
            begun = self.ready[name].start(row, repeat)
            parsed = answer.parsed.get(name, Parsed())
            self._add(
                replace(
                    begun,
                    parsed=parsed,
                    tool=parsed.version,
                    failed=answer.failed,
                    not_run=answer.not_run or parsed.not_run,
                    log=f"{self._logs.name}/{folder.name}",
                )
            )

    def _gather(self, subjects: frozenset[str]) -> HostMap[NodeFacts]:
        settings = self._settings
        return self._fan_out(
            [ready.node for ready in self.ready.values()],
            lambda node, transport: gather(
                transport, node, settings.probe_timeout_s, escalate=settings.escalate, subjects=subjects
            ),
        )

    def _runner(self, names: Sequence[str]) -> Callable[[], Runner]:
        nodes = [self.ready[name].node for name in names]
        return lambda: Runner(
            nodes, self._plain, fanout=self._settings.fanout, known_hosts=self._settings.known_hosts
        )

    def _add(self, outcome: RowOutcome) -> None:
        self._outcomes.add(outcome)
        self.viewer.ended(outcome)

    def _fan_out(self, nodes: Sequence[Node], work: Callable[[Node, Transport], T]) -> HostMap[T]:
        return fan_out(
            nodes,
            self._connect,
            work,
            fanout=self._settings.fanout,
            release=self._kept.release,
            on_cancel=self._cancelled.set,
        )

    def _remove(self) -> None:
        """End what still runs on the nodes and remove the directory of the run from them."""
        if not self._touched:
            return
        as_root = any(isinstance(row.work, NodeProgram) and row.work.as_root for row in self._rows)

        def work(node: Node, transport: Transport) -> None:
            ready = self.ready.get(node.name)
            sudo = as_root and ready is not None and ready.facts.root.available
            transport.run(
                ("sh", "-s"), stdin=leftovers.removal_script((self._token,)), timeout_s=_SHORT_S, as_root=sudo
            )

        for name, missed in self._fan_out(self._nodes, work).failures.items():
            _LOG.info("%s: %s could not be removed: %s", name, self._directory, missed.message)


def rounds_of_pairs(names: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return rounds of pairs (server, client) in which every node is with both of its neighbours in a ring once.

    No node is in two pairs of a round. Two nodes form one pair; one node is its own partner.
    """
    count = len(names)
    if count < 3:
        return [[(names[0], names[-1])]] if names else []
    ring = [(names[i], names[(i + 1) % count]) for i in range(count)]
    rounds = [ring[0 : count - count % 2 : 2], ring[1::2]]
    return [*rounds, ring[-1:]] if count % 2 else rounds


def with_partner(before: RowOutcome | None, found: RowOutcome, *, is_client: bool) -> RowOutcome:
    """Return the outcome of a node after another pair: the better values, and what it printed itself as its vote."""
    votes = found.parsed.measurements if is_client else before.votes if before is not None else ()
    return replace(_better(before, found), votes=votes)


def _better(first: RowOutcome | None, second: RowOutcome) -> RowOutcome:
    """Return the outcome with the better values: what is slow with one partner only is not this node's fault."""
    if first is None or first.failed or first.not_run:
        return second
    if second.failed or second.not_run:
        return first

    def total(one: RowOutcome) -> float:
        return sum(m.value if m.higher_is_better else -m.value for m in one.parsed.measurements)

    return first if total(first) >= total(second) else second
