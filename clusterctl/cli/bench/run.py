"""Carry out one benchmark run: create the run folder, measure, store the result, report the end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from clusterctl import log, rundir
from clusterctl.cli import console, next_command
from clusterctl.cli.bench import trust as bench_trust
from clusterctl.cli.failed_launch import say_cause
from clusterctl.cli.terminal import interrupt

if TYPE_CHECKING:
    from clusterctl.benchmarks.base import Fault
    from clusterctl.cli.bench.options import Where
    from clusterctl.cli.session import Session
    from clusterctl.documents.bench import BenchResult
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.launch.base import LaunchPlan
    from clusterctl.launch.request import Request
    from clusterctl.launch.run import Runner
    from clusterctl.launch.variants import Variant
    from clusterctl.launch.viewer import Viewer
    from clusterctl.results.baseline import Baseline
    from clusterctl.results.record import Record
    from clusterctl.rundir import RunDir
    from clusterctl.transport.base import HostMap
    from clusterctl.views.next_step import Way


_LOG = log.get(__name__)


@dataclass(frozen=True, slots=True)
class Ended:
    """Hold a run that ended, successful or not: its run folder, its result and its faults."""

    run: RunDir
    result: BenchResult
    record: Record
    faults: tuple[Fault, ...]
    nodes: Sequence[Node]

    @property
    def exit_code(self) -> int:
        """Return the exit code of the command for this run."""
        from clusterctl.results import model

        return model.exit_code(self.faults) or int(self.result.status != "ok")


@dataclass(frozen=True, slots=True)
class Experiment:
    """What all measurements of one command share: the nodes, how often, and what judges the figures."""

    session: Session
    runs: Path | None
    label: str | None
    variants: Sequence[Variant] = ()
    repeats: int = 1
    baseline: Baseline | None = None
    min_efficiency: float | None = None


def session_of(where: Where, fanout: int | None, runs: Path | None, *, accept_new_host_keys: bool) -> Session:
    """Return a session with the nodes, or with the containers on them."""
    from clusterctl.cli import containers_session
    from clusterctl.cli.session import open_session

    if where.containers:
        containers_session.refuse_inventory(where.inventory)
        return containers_session.with_hosts(
            containers_session.containers_session(None, runs, limit=where.limit, fanout=fanout), runs
        )
    return open_session(
        where.inventory, limit=where.limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys
    )


def with_launcher(session: Session, request: Request) -> Request:
    """Return the request, with the inventory's launcher if the command line names none.

    Raise UsageError, before a node is contacted, if the launcher cannot start ranks on these nodes.
    """
    from clusterctl.launch import choose

    wished = session.inventory.launcher.value
    # Open MPI is also the inventory's default: then the launcher is chosen by what the nodes have.
    if request.launcher is None and wished != "openmpi":
        request = replace(request, launcher=wished)
    choose.require_servable(request.launcher, len(session.inventory.nodes))
    return request


def runner_of(
    session: Session,
    run: RunDir | None = None,
    viewer: Viewer | None = None,
    also_reads: frozenset[str] = frozenset(),
) -> Runner:
    """Return the runner that launches on the nodes of a session; a run keeps the facts that it gathers.

    ``also_reads``: subjects to gather besides those that a launch reads.
    """
    from clusterctl.facts.document import fleet_to_document
    from clusterctl.launch import readiness
    from clusterctl.launch.run import Runner
    from clusterctl.transport.ssh.target import KNOWN_HOSTS_VARIABLE

    def keep(found: HostMap[NodeFacts]) -> None:
        if run is not None:
            run.write("facts", fleet_to_document(found, readiness.READS | also_reads))

    return Runner(
        session.inventory.nodes,
        session.connected(),
        fanout=session.fanout,
        known_hosts=os.environ.get(KNOWN_HOSTS_VARIABLE),
        on_facts=keep,
        viewer=viewer,
        also_reads=also_reads,
        hosts=session.hosts,
    )


def measure(asked: Experiment, request: Request, say: Callable[[str], None] = console.talk) -> Ended:
    """Measure in a new run folder, store the result there, and return the ended run.

    A run that a person interrupts returns what was finished; raise KeyboardInterrupt if nothing was.
    """
    from clusterctl.artifacts import shell
    from clusterctl.cli.bench.live import LiveRun
    from clusterctl.documents.launch import Artifacts, Command, Launch
    from clusterctl.inventory.recorded import recorded
    from clusterctl.launch.failure import was_interrupted
    from clusterctl.launch.interleave import interleave
    from clusterctl.launch.measure import Measurement
    from clusterctl.launch.measured import Interleaved, Measured, PartlyMeasured
    from clusterctl.report.known_errors.run_logs import cause_in, of_ranks
    from clusterctl.results.model import from_interleaved, from_measured
    from clusterctl.results.record import from_document

    run = rundir.RunDir.create("bench" if request.program is None else "launch", asked.runs, asked.label)
    run.write("inventory", recorded(asked.session.inventory))
    live = LiveRun(_launches(request, len(asked.variants), asked.repeats))
    runner = runner_of(asked.session, run, live)
    logs = run.folder("logs")
    commands: list[Command] = []

    def starting(names: Mapping[str, str | int], plan: LaunchPlan) -> None:
        """Record a command in the run folder before it starts, so that a killed run also shows it."""
        commands.append(Command.model_validate({**names, "np": plan.np, "line": shell.line(plan.argv)}))
        run.write("artifacts", Artifacts(commands=tuple(commands)).document())

    run.write("artifacts", Artifacts(commands=()).document())
    measured: Measured | Interleaved
    try:
        with live, terminable(), runner:
            if asked.variants:
                measured = interleave(request, asked.variants, asked.repeats, runner, logs, say, starting)
            else:
                measured = Measurement(request, runner, logs, say, starting=partial(starting, {})).run()
    except PartlyMeasured as error:
        measured = error.measured
        kept = f"What was measured before is kept: clusterctl runs show {run.id}"
        _tell_interrupted(live.reached, "All ranks were ended.", kept)
    except KeyboardInterrupt:
        written = f"The output so far is in {logs}" if any(logs.rglob("*.log")) else ""
        _tell_interrupted(live.reached, "All ranks were ended, and no result is stored.", written)
        raise
    run.write("launch", Launch.model_validate({"launches": measured.launches}).document())
    result = (
        from_measured(measured, run.id)
        if isinstance(measured, Measured)
        else from_interleaved(measured, run.id)
    )
    if measured.faults and not was_interrupted(measured.faults):
        node_of = of_ranks(*(one["node_of_rank"] for one in measured.launches))
        result = result.model_copy(update={"cause": cause_in(run.path, node_of=node_of)})
    result = _with_nodes(run, runner, result, request, measured.launches)
    result = bench_trust.held_to(bench_trust.held_against(result, asked.baseline), asked.min_efficiency)
    lines = [command.line for command in commands]
    record = from_document(result.document(), commands=lines, folder=str(run.path.resolve()), label=run.label)
    run.write("results", record.document)
    return Ended(run, result, record, measured.faults, asked.session.inventory.nodes)


def _with_nodes(
    run: RunDir,
    runner: Runner,
    result: BenchResult,
    request: Request,
    launches: Sequence[Mapping[str, Any]],
) -> BenchResult:
    """Return the result with the versions and the topology of the nodes; write NCCL's files to the run folder."""
    from clusterctl.launch import node_topology

    for node, dump in runner.dumps.items():
        for kind, text in (("topo", dump.topology), ("graph", dump.graphs)):
            if not text:
                continue
            path = run.folder("nccl") / f"{node}-{kind}.xml"
            with rundir.own_file(path):
                rundir.write_atomically(path, f"{text}\n".encode())
    nodes = dict.fromkeys(place["node"] for launch in launches for place in launch["placements"])
    found = node_topology.part(list(nodes), runner.dumps, runner.facts)
    update: dict[str, Any] = {"versions": runner.versions(request.program)}
    if found is not None:
        update["topology"] = found
    return result.model_copy(update={"proof": result.proof.model_copy(update=update)})


def _tell_interrupted(reached: str, ended: str, kept: str) -> None:
    at = f"Interrupted in {reached}" if reached else ""
    for line in filter(None, (at, ended, kept, f"To measure again: {interrupt.command_line()}")):
        interrupt.tell(line)


def _launches(request: Request, variants: int, repeats: int) -> int | None:
    """Return the number of launches of a run; None if it depends on the nodes."""
    single = request.training is None or request.np is not None
    points = len(request.points) if request.points else 1 if single else None
    return None if points is None else points * max(1, variants) * repeats


def say_without(faults: Sequence[Fault], nodes: Sequence[Node]) -> None:
    """Print the command line that leaves out the unreachable nodes, if they kept the others from a launch."""
    from clusterctl.benchmarks.base import FaultKind

    down = [fault.node for fault in faults if fault.kind is FaultKind.NODE_UNREACHABLE and fault.node]
    if down and set(down) < {node.name for node in nodes}:
        console.talk(f"hint: to leave out the nodes that cannot be used: {interrupt.without(down)}")


def say_end(ended: Ended, above: str = "") -> None:
    """Print to stderr the faults and hints that the sentence ``above`` lacks, and the path of the run folder."""
    from clusterctl.launch.failure import was_interrupted
    from clusterctl.report.text import trust
    from clusterctl.report.text.failures import fault_lines

    if not was_interrupted(ended.faults):
        for line in fault_lines(ended.faults, above):
            console.talk(line)
        say_without(ended.faults, ended.nodes)
        if ended.faults:
            say_cause(ended.result.cause, ended.run)
    for line in dict.fromkeys(line for one in ended.result.variants for line in trust.algorithms(one.proof)):
        _LOG.info(line)
    console.talk(f"run folder: {ended.run.path}")


def say_next(all_ended: Sequence[Ended], way: Way) -> None:
    """Print the command that follows: accept, or locate if figures are doubtful or too low; none after a failure."""
    import shlex

    from clusterctl.documents.bench import BenchStatus

    statuses = {ended.result.status for ended in all_ended}
    if not statuses or BenchStatus.FAILED in statuses:
        return
    low = {BenchStatus.DOUBTFUL, BenchStatus.BELOW_BASELINE, BenchStatus.BELOW_THRESHOLD}
    if statuses & low and len(all_ended[0].nodes) > 1:
        command = shlex.join(("clusterctl", "locate", *way.nodes))
        next_command.say(command, "measures pairs of nodes and names what is slow")
    else:
        next_command.say_all((way.onward(),))


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP of a closed terminal, end the ranks as Ctrl-C does; nohup still ignores SIGHUP."""

    def end(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            # The shell and the kernel each send a SIGHUP; the second must not interrupt the cleanup.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        raise KeyboardInterrupt

    heard = [signal.SIGTERM, signal.SIGHUP]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        heard.remove(signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
