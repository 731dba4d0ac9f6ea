"""Run launches on nodes: probe, copy files, start ranks, enforce the deadline, clean up."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from clusterctl import log
from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.user_program import UserProgram
from clusterctl.documents.evidence import SoftwareVersions
from clusterctl.facts.gather import gather
from clusterctl.facts.model.health import Health
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.snapshot import snapshot
from clusterctl.inventory.model import Node
from clusterctl.launch import (
    foreign_library,
    leftovers,
    nccl_dumps,
    notices,
    open_files,
    processes,
    readiness,
    ssh_mesh,
    user_program,
)
from clusterctl.launch.base import LaunchPlan, Placement
from clusterctl.launch.environment import Library
from clusterctl.launch.failure import Outcome
from clusterctl.launch.identity import LaunchIdentity
from clusterctl.launch.nccl_dumps import NcclDump
from clusterctl.launch.preflight import Readiness
from clusterctl.launch.processes import RankProcess
from clusterctl.launch.ranklog import RankLog
from clusterctl.launch.running_launcher import END_GRACE_S, RunningLauncher
from clusterctl.launch.ssh_mesh import Mesh
from clusterctl.launch.stall import Stall
from clusterctl.launch.viewer import Viewer
from clusterctl.launch.watch import Watch
from clusterctl.transport.answers import understanding
from clusterctl.transport.base import Completed, Failure, FailureKind, HostMap, Transport, TransportError
from clusterctl.transport.fanout import fan_out
from clusterctl.transport.kept import Kept
from clusterctl.trust.versions import side_by_side

_LOG = log.get(__name__)
_Work = TypeVar("_Work")
_SHELL = ("sh", "-s")
_PROBE_TIMEOUT_S = 120.0
_MESH_TIMEOUT_S = 60.0
_INSPECT_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 120.0
# Time for a program of the user between SIGTERM and SIGKILL.
_SAVE_S = 10.0
_POLL_S = 0.2
_ABORT_S = 20.0
# Of each stream of a rank of a user's program, its begin has NCCL's log, its end the rates.
_KEEP_CHARS = 4 << 20


class Runner:
    """Run launches on one set of nodes; a context manager that removes the launch directory from each node."""

    def __init__(
        self,
        nodes: Sequence[Node],
        connect: Callable[[Node], Transport],
        *,
        fanout: int = 64,
        known_hosts: str | None = None,
        on_facts: Callable[[HostMap[NodeFacts]], object] | None = None,
        viewer: Viewer | None = None,
        also_reads: frozenset[str] = frozenset(),
        hosts: Mapping[str, NodeFacts] | None = None,
    ) -> None:
        """Prepare to launch.

        ``on_facts`` receives the facts of all nodes each time they were gathered; ``also_reads`` are subjects to gather
        besides those that a launch reads. ``hosts``: the nodes are containers on these hosts.
        """
        self.reads = readiness.READS | also_reads
        self.facts: Mapping[str, NodeFacts] = {}
        self.viewer = viewer or Viewer()
        self.token = secrets.token_hex(8)
        self.mark = secrets.token_hex(8)
        self.directory = f"{leftovers.PREFIX}{self.token}"
        self._nodes = tuple(nodes)
        self._connect = connect
        self._fanout = fanout
        self._known_hosts = known_hosts
        self._hosts = hosts
        self._on_facts = on_facts
        self._touched: dict[str, Node] = {}
        self._ready: dict[tuple[str, str], tuple[Readiness, ...]] = {}
        self._meshes: dict[tuple[Placement, ...], Mesh] = {}
        self._kept = Kept(len(self._nodes))
        self._controller = leftovers.this_controller()
        self._dumping: dict[str, int] = {}
        self.dumps: dict[str, NcclDump] = {}
        """NCCL's topology and graphs by node, from the last launch that wrote them; after the end of the runner."""

    def identity(self) -> LaunchIdentity:
        """Return the identity of the next launches, with ports and a secret of their own."""
        return LaunchIdentity.new(self.token, self.mark)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def prepare(
        self,
        staged: Mapping[str, bytes],
        perf_program: str = "all_reduce_perf",
        library: Library | None = None,
    ) -> tuple[tuple[Readiness, ...], tuple[Fault, ...]]:
        """Gather every node's facts and copy the files into its launch directory, over one connection per node.

        The answers of all nodes are kept until a launch fails: later launches of the run need the same facts and files.
        """
        asked = perf_program, foreign_library.wanted(library)
        if asked in self._ready:
            return self._ready[asked], ()
        gathered: dict[str, NodeFacts] = {}

        def work(node: Node, transport: Transport) -> Readiness:
            values = readiness.values(node, self._known_hosts, perf_program, library)
            # Nothing of what a launch reads needs root.
            facts = gather(transport, node, _PROBE_TIMEOUT_S, subjects=self.reads, values=values, sudo=False)
            gathered[node.name] = facts
            self._touched[node.name] = node
            leftovers.claim(transport, self.directory, self._controller)
            with understanding(node.name, "what it has"):
                answer = readiness.of_facts(node, facts, transport.host_key)
            for name, data in staged.items():
                transport.put(data, f"{self.directory}/{name}", mode=0o600)
            return answer

        self.viewer.probing([node.name for node in self._nodes])
        outcome = fan_out(
            self._nodes, self._kept.over(self._connect), work, fanout=self._fanout, release=self._kept.release,
            on_done=lambda node, _: self.viewer.probed(node.name),
        )  # fmt: skip
        # In the order of the inventory, whichever node answered first.
        self.facts = {node.name: gathered[node.name] for node in self._nodes if node.name in gathered}
        if self._on_facts is not None:
            found: dict[str, NodeFacts | Failure] = {**outcome.failures, **gathered}
            self._on_facts(HostMap({node.name: found[node.name] for node in self._nodes}))
        faults = tuple(_unusable(name, failure) for name, failure in outcome.failures.items())
        answers = tuple(outcome.values_by_node.values())
        if not faults:
            self._ready[asked] = answers
        return answers, faults

    def versions(self, program: UserProgram | None) -> SoftwareVersions | None:
        """Return the versions on the prepared nodes, in image and host if these are containers; None before that.

        None also if Slurm starts ``program`` in an image, which is not on the nodes when they are probed.
        """
        if not self.facts or (program is not None and program.container is not None):
            return None
        return side_by_side(self.facts) if self._hosts is None else side_by_side(self._hosts, self.facts)

    def health(self) -> HostMap[Health]:
        """Return the health of every node: before a launch over the connections of ``prepare``, without a login."""
        connect = self._kept.over(self._connect)
        return snapshot(self._nodes, connect, fanout=self._fanout, release=self._kept.release)

    def check_mesh(self, plan: LaunchPlan) -> Mesh:
        """Write the ssh_config to the launching node; from there, test SSH and the memlock limit of every peer.

        The result is kept for launches on the same nodes until a launch fails.
        """
        if len(plan.placements) < 2:
            return Mesh()
        path = tuple(replace(placement, ranks=0, slots=None) for placement in plan.placements)
        found = self._meshes.get(path) or self._test_mesh(plan)
        if not found.faults:
            self._meshes[path] = found
        return found

    def _test_mesh(self, plan: LaunchPlan) -> Mesh:
        self.viewer.meshing(len(plan.placements))
        launching = self._node(plan.placements[0].node)
        transport = self._connect(launching)
        try:
            for name, data in ssh_mesh.files(plan).items():
                transport.put(data, f"{plan.directory}/{name}", mode=0o600)
            done = transport.run(_SHELL, stdin=ssh_mesh.probe(plan).encode(), timeout_s=_MESH_TIMEOUT_S)
        except TransportError as error:
            fault = Fault(FaultKind.NODE_UNREACHABLE, error.message, node=launching.name, hint=error.hint)
            return Mesh((fault,))
        finally:
            transport.close()
        faults = ssh_mesh.faults(
            plan, done.text, required=launching.requirements.ssh_mesh.require is not False
        )
        return Mesh(faults, ssh_mesh.memlock_of(plan, done.text))

    def prove_program(self, program: UserProgram, plan: LaunchPlan) -> tuple[Fault, ...]:
        """Unpack the brought files of a program on every node, and return a fault for what of it nodes lack."""
        script = user_program.proving(program, plan)

        def work(_: Node, transport: Transport) -> str:
            return transport.run(_SHELL, stdin=script, timeout_s=_INSPECT_TIMEOUT_S).text

        connect, release = self._kept.over(self._connect), self._kept.release
        outcome = fan_out(self._members(plan), connect, work, fanout=self._fanout, release=release)
        lost = tuple(_unusable(name, failure) for name, failure in outcome.failures.items())
        return lost or user_program.missing(program, outcome.values_by_node)

    def run(self, plan: LaunchPlan, logs: Path) -> Outcome:
        """Start the ranks and wait for their end or the deadline; end all remaining ranks before returning."""
        self._dumping = nccl_dumps.ranks_of(plan) or self._dumping
        self._make_room(plan)
        with RankLog(
            logs, plan.launcher.reader(plan), plan.np, self.viewer.said,
            keep_chars=_KEEP_CHARS if plan.foreign else None, follow_errors=plan.foreign,
        ) as ranklog:  # fmt: skip
            launcher = RunningLauncher(self._connect(self._node(plan.placements[0].node)), plan, ranklog)
            seen: HostMap[tuple[RankProcess, ...]] | None = None
            lost, deadline_passed, silent_s = dict[str, str](), False, dict[int, float]()
            try:
                with Watch(self._members(plan), self._connect, plan.token) as watch:
                    deadline_passed = self._wait(plan, launcher.ended, watch, ranklog)
                    lost = {} if launcher.ended.is_set() else watch.lost()
                if deadline_passed:
                    silent_s, seen = ranklog.silent_s(), self._inspect(plan)
                done = launcher.answer
                # Open MPI 5 returns 0 even if it lost a daemon, and leaves that daemon's ranks running.
                given_up = notices.gave_up(ranklog.launcher)
                if not isinstance(done, Completed) or done.returncode != 0 or given_up:
                    lost = {**lost, **self._end(plan)}
            except BaseException:
                self._end(plan)
                raise
            finally:
                launcher.close()
            result = launcher.answer
            broken_off: Failure | None = None
            if isinstance(result, Failure):
                if result.kind is FailureKind.DEADLINE:
                    deadline_passed = True
                elif result.kind in (FailureKind.PROTOCOL, FailureKind.ERROR):
                    broken_off = result if not lost else None
                elif not deadline_passed:
                    lost.setdefault(plan.placements[0].node, result.message)
            return Outcome(
                returncode=result.returncode
                if isinstance(result, Completed) and not deadline_passed
                else None,
                stdout_by_rank=ranklog.by_rank,
                stderr_by_rank=ranklog.errors_by_rank,
                launcher=ranklog.launcher,
                duration_s=launcher.duration_s,
                failed_s=None if ranklog.first_end is None else ranklog.first_end - launcher.began,
                deadline_passed=deadline_passed,
                ranks_seen=seen.values_by_node if seen is not None else None,
                lost_nodes=lost,
                broken_off=broken_off,
                silent_s=silent_s,
            )

    def _make_room(self, plan: LaunchPlan) -> None:
        """Close the connections that would be idle until the ranks have ended, and allow the files of the launch."""
        self._kept.drop()
        open_files.make_room(plan.np, len(plan.placements))

    def _wait(self, plan: LaunchPlan, ended: threading.Event, watch: Watch, ranklog: RankLog) -> bool:
        """Wait until the launch ends, a node is lost or an abort hangs; return True if the deadline passed."""
        deadline = time.monotonic() + plan.timeout_s
        aborting_since: float | None = None
        stall = Stall(plan, ranklog, ended, self._inspect, self.viewer.noted) if plan.foreign else None
        while not ended.wait(_POLL_S):
            if stall is not None:
                self.viewer.quiet(stall.look())
            now = time.monotonic()
            if now > deadline:
                return True
            if watch.lost():
                return False
            if aborting_since is None and notices.gave_up(ranklog.launcher):
                aborting_since = now
            # mpirun waits until daemons confirm an abort, which a daemon on a dead node never does.
            if aborting_since is not None and now - aborting_since > _ABORT_S:
                return False
        return False

    def each(self, names: Sequence[str], work: Callable[[Node, Transport], _Work]) -> HostMap[_Work]:
        """Do something on each of these nodes, all at the same time."""
        return fan_out([self._node(name) for name in names], self._connect, work, fanout=self._fanout)

    def _node(self, name: str) -> Node:
        return next(node for node in self._nodes if node.name == name)

    def _members(self, plan: LaunchPlan) -> tuple[Node, ...]:
        return tuple(self._node(placement.node) for placement in plan.placements)

    def _inspect(self, plan: LaunchPlan) -> HostMap[tuple[RankProcess, ...]]:
        script = processes.inspect_script(plan.token)

        def work(node: Node, transport: Transport) -> tuple[RankProcess, ...]:
            done = transport.run(_SHELL, stdin=script, timeout_s=_INSPECT_TIMEOUT_S)
            with understanding(node.name, "its ranks"):
                return processes.parse_inspection(done.text)

        return fan_out(self._members(plan), self._connect, work, fanout=self._fanout)

    def _end(self, plan: LaunchPlan) -> dict[str, str]:
        """End remaining processes of the launch on every node; return the nodes that do not answer, and why."""
        # What the nodes have now may differ, and the next launch of the run should find that.
        self._ready.clear()
        self._meshes.clear()

        script = processes.end_script(plan.token, END_GRACE_S)
        if plan.foreign:
            script = processes.end_programs_script(plan.token, END_GRACE_S, user_program.WRAPPER, _SAVE_S)

        def work(_: Node, transport: Transport) -> str:
            done = transport.run(_SHELL, stdin=script, timeout_s=_END_TIMEOUT_S)
            return done.text.partition("left ")[2].strip()

        outcome = fan_out(self._members(plan), self._connect, work, fanout=self._fanout)
        for name, left in outcome.values_by_node.items():
            if left:
                _LOG.warning("%s: these processes of the launch did not end: %s", name, left)
        return {name: failure.message for name, failure in outcome.failures.items()}

    def remove(self) -> None:
        """Remove the launch directory from every node, and keep NCCL's files; log a node that does not answer."""
        if not self._touched:
            return

        def work(_: Node, transport: Transport) -> dict[str, str]:
            script = nccl_dumps.collecting(self.directory)
            return nccl_dumps.collected(
                transport.run(_SHELL, stdin=script, timeout_s=_INSPECT_TIMEOUT_S).text
            )

        touched = tuple(self._touched.values())
        outcome = fan_out(touched, self._kept.over(self._connect), work, fanout=self._fanout)
        self._touched.clear()
        self._kept.drop()
        self.dumps = nccl_dumps.by_node(self._dumping, outcome.values_by_node)
        for name, missed in outcome.failures.items():
            _LOG.info("%s: %s could not be removed: %s", name, self.directory, missed.message)


def _unusable(name: str, failure: Failure) -> Fault:
    """Return the fault of a node that cannot be used; the node is named once, with its address if that is known."""
    # Messages of transports begin with the node's name and its address in parentheses, some others with the name only.
    where, found, reason = failure.message.partition(": ")
    if found and (where == name or (where.startswith(f"{name} (") and where.endswith(")"))):
        message = f"{where} cannot be used: {reason}"
    elif failure.message.startswith(f"{name} "):
        message = failure.message
    else:
        message = f"{name} cannot be used: {failure.message}"
    return Fault(FaultKind.NODE_UNREACHABLE, message, node=name, hint=failure.hint or "fix the node")
