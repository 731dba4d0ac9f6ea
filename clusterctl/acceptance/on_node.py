"""Run the rows of one node over its connection, one after the other, each with its own deadline and directory."""

from __future__ import annotations

import posixpath
import re
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from clusterctl import rundir
from clusterctl.acceptance import checked
from clusterctl.acceptance.checked import NodeDevices
from clusterctl.acceptance.model import (
    AcceptRow,
    FromFacts,
    NodeProgram,
    Parsed,
    RowCommand,
    RowOutcome,
    RowPlace,
)
from clusterctl.errors import ClusterctlError
from clusterctl.facts.model.mpi import Mpi
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.model.python import NodePython
from clusterctl.facts.subjects.tool_versions import PLACES
from clusterctl.inventory.model import Node
from clusterctl.launch import processes
from clusterctl.launch.readiness import of_facts
from clusterctl.text.secret.scrub import scrubbed
from clusterctl.text.visible import visible
from clusterctl.transport.answers import HANDLING_ERRORS
from clusterctl.transport.base import Completed, FailureKind, Transport, TransportError
from clusterctl.transport.command import shown
from clusterctl.workloads.archive import ARCHIVE

MARK = "CLUSTERCTL_ACCEPT"
"""The variable with the token of the run, by which a later run finds processes that were left."""
_MOST_BYTES = 8 << 20
"""A program that prints more is ended."""
_LOG_BYTES = 1 << 20
_AGAIN_S = 120.0
_REASON_CHARACTERS = 300
_REASONS = (
    re.compile(r"NCCL WARN [^\n]{3,400}"),
    re.compile(r"Test (?:CUDA|NCCL) failure [^\n]{1,400}"),
)
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_GRACE_S = 2.0
_RECONNECTS = 3
_RECONNECT_S = 5.0
# The directory is removed when the command ends, fails, or is ended at its deadline.
_IN_DIRECTORY = """\
d=$1; shift
rm -rf -- "$d"
mkdir -m 700 -- "$d" && cd -- "$d" || exit 125
trap 'cd /; rm -rf -- "$d"' EXIT
trap 'exit 143' HUP INT TERM
"$@"
"""


@dataclass(frozen=True, slots=True)
class ReadyNode:
    """A node with what its rows read: its facts, and the directory of the run on it."""

    node: Node
    facts: NodeFacts
    directory: str
    token: str
    nodes: int = 1
    """How many nodes the run has."""

    @property
    def python(self) -> str | None:
        """Return the path of the node's Python; None if it was not found."""
        found = self.facts.python.or_else(NodePython()).ranks
        return found.path if found else None

    @property
    def torch(self) -> str | None:
        """Return the version of torch for this Python; None without it."""
        found = self.facts.python.or_else(NodePython()).ranks
        return found.torch if found else None

    @property
    def address(self) -> str:
        """Return the address for other nodes: the one that launches use, else the inventory's."""
        try:
            return of_facts(self.node, self.facts).fabric_address
        except ClusterctlError:
            return self.node.address

    def place(self, row: AcceptRow, peer: str = "") -> RowPlace:
        """Return where a row runs."""
        return RowPlace(
            node=self.node,
            facts=self.facts,
            directory=self.directory_of(row.name),
            python=self.python or "python3",
            archive=f"{self.directory}/{ARCHIVE}",
            peer=peer,
        )

    def directory_of(self, row: str) -> str:
        """Return the directory of a row; nodes may share a file system."""
        return f"{self.directory}/{row}.{self.node.name}"

    def start(self, row: AcceptRow, repeat: int) -> RowOutcome:
        """Return the outcome of a row before it runs: with the reason if it cannot run here."""
        begun = RowOutcome(self.node.name, row.name, row.hardware(self.facts), repeat)
        why = row.applies(self.facts) or row.too_few(self.nodes)
        if why:
            return replace(begun, not_applicable=why)
        work = row.work
        there = self.facts.tool_versions or {}
        missing = [f"{one.program} not found: {one.install}" for one in row.tools if one.program not in there]
        if missing:
            return replace(begun, not_run="; ".join(missing))
        named = (there[one.program].version or f"{one.program} of an unknown version" for one in row.tools)
        begun = replace(begun, tool="; ".join(named))
        if isinstance(work, NodeProgram) and work.torch:
            if self.python is None or self.torch is None:
                python = self.python or self.node.python or "python3"
                return replace(
                    begun,
                    not_run=f"torch not found for {python}: install torch, or set `python` in the inventory",
                )
            begun = replace(begun, tool=f"torch {self.torch}")
        return begun


class NodeRows:
    """Run rows on one node; a connection that was lost is opened again, and a reboot is reported as such."""

    def __init__(
        self,
        ready: ReadyNode,
        transport: Transport,
        connect: Callable[[Node], Transport],
        logs: Path,
        cancelled: threading.Event,
    ) -> None:
        """Prepare to run rows; ``cancelled`` is set before an interrupt closes the connections."""
        self._ready = ready
        self._transport = transport
        self._connect = connect
        self._logs = logs
        self._cancelled = cancelled
        self._opened: list[Transport] = []

    def close(self) -> None:
        """Close the connections that were opened again."""
        for one in self._opened:
            one.close()

    def run(self, row: AcceptRow, repeat: int) -> RowOutcome:
        """Run a row on this node alone; a failure of any kind is part of the outcome."""
        begun = self._ready.start(row, repeat)
        if begun.not_applicable or begun.not_run:
            return begun
        if isinstance(row.work, FromFacts):
            place, reading = self._ready.place(row), row.work.read
            return outcome_of(begun, lambda _: reading(place), "", NodeDevices.of(self._ready.facts))
        assert isinstance(row.work, NodeProgram)
        work = row.work
        command = work.command(self._ready.place(row))
        return self.command(begun, command, work.deadline_s, work.parse, work.statuses, as_root=work.as_root)

    def command(
        self,
        begun: RowOutcome,
        command: RowCommand,
        deadline_s: float,
        parse: Callable[[str], Parsed],
        statuses: frozenset[int] = frozenset({0}),
        *,
        as_root: bool = False,
    ) -> RowOutcome:
        """Run a command of a row to its end or its deadline, write its log, and read its output."""
        started = time.monotonic()
        begun = replace(begun, command=shown(command.argv))
        try:
            done = self._run(begun.row, command, deadline_s, as_root=as_root)
        except TransportError as error:
            ended = replace(begun, seconds=round(time.monotonic() - started, 3))
            return self._broken(ended, error, deadline_s)
        begun = replace(
            begun, seconds=round(done.duration_s, 3), log=write_log(self._logs, begun, command, done)
        )
        if done.returncode not in statuses:
            return replace(begun, failed=_ended_badly(done))
        return outcome_of(begun, parse, done.text, NodeDevices.of(self._ready.facts))

    def _run(self, row: str, command: RowCommand, deadline_s: float, *, as_root: bool) -> Completed:
        directory = self._ready.directory_of(row)
        path = _set_path(self._ready.facts)
        return self._transport.run(
            ("sh", "-c", path + _IN_DIRECTORY, "sh", directory, *command.argv),
            stdin=command.stdin,
            timeout_s=deadline_s,
            as_root=as_root,
            env={**command.env, MARK: self._ready.token},
            max_output_bytes=_MOST_BYTES,
        )

    def _broken(self, begun: RowOutcome, error: TransportError, deadline_s: float) -> RowOutcome:
        if self._cancelled.is_set():
            raise error
        kind = error.failure.kind
        if kind is FailureKind.DEADLINE:
            return replace(begun, failed=f"it did not end within {deadline_s:g} s, and was ended")
        if kind is FailureKind.SUDO:
            return replace(begun, not_run=f"it needs root: {error.message}"[:_REASON_CHARACTERS])
        if kind is not FailureKind.LOST:
            return replace(begun, failed=error.message[:_REASON_CHARACTERS])
        boot = self._again()
        if boot is None:
            return replace(begun, failed="the connection was lost, and the node does not answer any more")
        if boot != self._ready.facts.system.boot_id.or_else(""):
            return replace(begun, failed="the node rebooted during this row")
        return replace(begun, failed="the connection was lost during this row")

    def _again(self) -> str | None:
        """Open a new connection, and return the id of the node's boot; None if the node does not answer."""
        for attempt in range(_RECONNECTS):
            if attempt:
                time.sleep(_RECONNECT_S)
            fresh = self._connect(self._ready.node)
            try:
                boot = fresh.run(("cat", _BOOT_ID), timeout_s=_AGAIN_S).text.strip()
                # What a lost connection left running would disturb the next row.
                ending = processes.end_script(self._ready.token, _GRACE_S)
                fresh.run(("sh",), stdin=ending, timeout_s=_AGAIN_S)
            except TransportError:
                fresh.close()
                continue
            self._opened.append(fresh)
            self._transport = fresh
            return boot
        return None


def _set_path(facts: NodeFacts) -> str:
    """Return a line of sh to search programs where logins may not, and nccl-tests where the facts found it.

    A shared directory that did not answer the facts is left out: each search would wait for its server.
    """
    built = facts.mpi.or_else(Mpi()).nccl_tests
    found = "" if built is None else f":{shlex.quote(posixpath.dirname(built))}"
    return f"PATH=$PATH:{PLACES}{found}\n"


def outcome_of(
    begun: RowOutcome, parse: Callable[[str], Parsed], text: str, devices: NodeDevices
) -> RowOutcome:
    """Return the outcome with what the parser reads; text that it rejects is the reason of a failure."""
    try:
        parsed = parse(text)
        checked.check(parsed, devices)
    except HANDLING_ERRORS as error:
        said = visible(" ".join(str(error).split()))[:_REASON_CHARACTERS]
        words = _last_line(text)[:_REASON_CHARACTERS] if said.startswith("not JSON") else ""
        printed = f"; it printed: {words}" if words else ""
        return replace(begun, failed=f"its output cannot be read: {said}{printed}")
    return replace(begun, parsed=parsed, not_run=parsed.not_run, tool=_tool(begun.tool, parsed.version))


def _reason_in(*texts: str) -> str:
    """Return the line in which NCCL or its tests name an error; the tests end with one line for each caller."""
    found = (match for pattern in _REASONS for text in texts if (match := pattern.search(text)))
    return next((visible(scrubbed(match[0].strip())) for match in found), "")


def _last_line(text: str) -> str:
    words = [line.strip() for line in text.splitlines() if line.strip()]
    return visible(scrubbed(words[-1])) if words else ""


def _tool(named: str, version: str) -> str:
    """Return both texts, or the longer one where it contains the other."""
    if version in named:
        return named
    return version if named in version else f"{named} {version}"


def _ended_badly(done: Completed) -> str:
    words = _reason_in(done.error_text, done.text) or _last_line(done.error_text or done.text)
    said = f": {words}" if words else ""
    if done.returncode in (137, -9):
        return f"it was killed by signal 9, possibly for memory{said}"[:_REASON_CHARACTERS]
    return f"it ended with exit status {done.returncode}{said}"[:_REASON_CHARACTERS]


def write_log(logs: Path, begun: RowOutcome, command: RowCommand, done: Completed) -> str:
    """Write what a command printed, without secrets and bounded; return the path below the run folder."""
    name = f"{begun.node}.{begun.repeat}.log" if begun.repeat else f"{begun.node}.log"
    folder = logs / begun.row
    head = f"$ {shlex.join(command.argv)}\n"
    parts = [head, done.text[:_LOG_BYTES], done.error_text[:_LOG_BYTES], f"exit status {done.returncode}\n"]
    with rundir.own_file(folder / name):
        folder.mkdir(mode=0o700, exist_ok=True)
        rundir.write_atomically(folder / name, scrubbed("\n".join(parts)).encode(errors="replace"))
    return f"{logs.name}/{begun.row}/{name}"
