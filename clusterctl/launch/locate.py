"""Run the program behind ``locate`` on the nodes: one launch that walks through all rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clusterctl.benchmarks import locate
from clusterctl.benchmarks.base import Fault
from clusterctl.benchmarks.locate import Located
from clusterctl.documents.evidence import FactDifference, PairsAlone
from clusterctl.errors import UsageError
from clusterctl.inventory import nodeset
from clusterctl.launch import choose, pairs_apart, preflight
from clusterctl.launch import plan as planning
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.environment import backend
from clusterctl.launch.launches import Launches, step_of
from clusterctl.launch.plan import RequestPlan
from clusterctl.launch.preflight import Needs, Readiness
from clusterctl.launch.request import Request
from clusterctl.launch.run import Runner
from clusterctl.text.wording import counted
from clusterctl.trust import cpu_quota, node_differences
from clusterctl.trust.cpu_quota import HeldBack
from clusterctl.trust.health import FleetHealth
from clusterctl.workloads.archive import ARCHIVE, build
from clusterctl.workloads.locate.fleet import RankFleet

LEAST_BYTES, MOST_BYTES = 64 << 10, 1 << 30
ALSO_READS = frozenset({"pci"})
"""The subjects besides those of a launch: in their facts a slow node may differ from its peers."""


@dataclass(frozen=True, slots=True)
class LocateRun:
    """One run: what it found, how it was launched, the interface of each place, what differs on named nodes."""

    located: Located
    library: str | None
    launcher: str | None
    rails: tuple[str, ...]
    launches: tuple[dict[str, Any], ...]
    duration_s: float
    faults: tuple[Fault, ...]
    differences: tuple[FactDifference, ...] = ()
    health: FleetHealth | None = None
    """What happened to the hardware of the nodes during the run; None if no rank was started."""
    held_back: tuple[HeldBack, ...] = ()
    """The nodes that a CPU quota held back."""
    apart: PairsAlone = field(default_factory=PairsAlone)
    """Pairs that ran as launches of their own, because a launch that failed named no node."""
    gpus_not_measured: tuple[str, ...] = ()
    """Nodes whose GPUs were not measured, because some node has no torch."""


def rails_of(answers: Sequence[Readiness]) -> tuple[str, ...]:
    """Return the interfaces that the inventory names, if there are several: the rails of nodes without GPUs."""
    selector = answers[0].node.interfaces
    if selector is None or selector.excludes or len(selector.names) < 2:
        return ()
    return selector.names


def request(
    library: str | None,
    np: int | None,
    launcher: str | None,
    timeout_s: float,
    message_bytes: int | None = None,
) -> Request:
    """Return the request; raise UsageError for an unknown library or launcher, or messages that measure latency."""
    if message_bytes is not None and not LEAST_BYTES <= message_bytes <= MOST_BYTES:
        raise UsageError(
            f"--bytes must be from 64K to 1G, not {message_bytes} bytes",
            hint="smaller messages measure the latency of a link instead of its bandwidth",
        )
    return Request(
        training=None, sweep={"max_bytes": message_bytes} if message_bytes is not None else {}, np=np, points=None,
        library=choose.own_library(library) if library is not None else None,
        launcher=choose.known_launcher(launcher) if launcher is not None else None,
        map_by=None, timeout_s=timeout_s, same_program=True,
    )  # fmt: skip


def measures_without_torch(asked: Request, answers: Sequence[Readiness]) -> bool:
    """Tell whether collective_core alone measures: it moves host memory without torch, on every node or on none."""
    library = choose.library(asked.library, answers, collective=True)
    return library == "ccore" and not all(answer.gpus and answer.torch for answer in answers)


def _needs(asked: Request, answers: Sequence[Readiness]) -> Needs:
    """Return what every node needs to measure."""
    if not measures_without_torch(asked, answers):
        return Needs(torch=True, instead_of_torch="measure the host network without torch: --library ccore")
    # The inventory may name another build than that of the installed package.
    own = any("CCORE_LIBRARY" in answer.node.env for answer in answers)
    return Needs(collective_core=None if own else "choose --library gloo")


def planned(
    asked: Request,
    answers: Sequence[Readiness],
    runner: Runner,
    repeat_s: float = 0,
    *,
    pairs_only: bool = False,
) -> tuple[RequestPlan, LaunchPlan, tuple[str, ...]]:
    """Return the plan, its launch, and the rails; raise UsageError or LaunchError if the nodes cannot serve it."""
    without_torch = measures_without_torch(asked, answers)
    on_gpus = all(answer.gpus for answer in answers) and not without_torch
    rails = () if on_gpus else rails_of(answers)
    if not on_gpus:
        # Without GPUs a node has one rank per rail: more of them would only share its CPUs.
        np = asked.np or len(answers) * max(1, len(rails))
        asked = replace(asked, np=np, map_by="node", oversubscribe=True)
    chosen = planning.plan(asked, answers, runner.identity())
    program = choose.torch_program(chosen.answers, f"{runner.directory}/{ARCHIVE}", "locate")
    if without_torch:
        program = replace(program, words=(*program.words, "--without-torch"), torch=False)
    chosen = replace(chosen, program=program)

    def launch(nodes: Sequence[int]) -> LaunchPlan:
        words = locate.words(
            program.words,
            backend(chosen.library),
            nodes,
            rails,
            asked.timeout_s,
            repeat_s,
            pairs_only=pairs_only,
            message_bytes=asked.sweep.get("max_bytes"),
        )
        return chosen.launch(chosen.np, words)

    # Which node a rank is on is known once the launch is planned.
    names = launch(()).node_of_rank
    order = {name: index for index, name in enumerate(dict.fromkeys(names))}
    return chosen, launch([order[name] for name in names]), rails


def run(
    asked: Request,
    runner: Runner,
    logs: Path,
    say: Callable[[str], None],
    starting: Callable[[LaunchPlan], None] = lambda _: None,
    repeat_s: float = 0,
) -> LocateRun:
    """Launch, and reach the verdict from the rates; problems on the nodes are returned as faults.

    ``repeat_s``: seconds for which random pairs are repeated after the search.
    """
    answers, faults = runner.prepare({ARCHIVE: build()})
    # A node without torch often has its Python at another path too, which would be the error otherwise.
    faults = faults or preflight.judge(answers, _needs(asked, answers))
    if faults:
        return LocateRun(Located(RankFleet((), ())), None, None, (), (), 0.0, faults)
    chosen, plan, rails = planned(
        replace(asked, timeout_s=asked.timeout_s + repeat_s), answers, runner, repeat_s
    )
    names = chosen.library, chosen.launcher.name, rails or _only_interface(chosen)
    faults = chosen.unmet()
    if not faults and plan.launcher.over_ssh:
        faults = runner.check_mesh(plan).faults
    if faults:
        return LocateRun(Located(RankFleet.of(plan.node_of_rank)), *names, (), 0.0, faults)
    idle_gpus = _gpus_not_measured(chosen)
    for note in _notes(chosen, idle_gpus):
        say(f"note: {note}")
    if len(plan.placements) < 3:
        needs = "three nodes to name the slow one" + (", and two for pairs" if len(answers) == 1 else "")
        say(
            f"note: locate compares nodes: it needs {needs}; here it measures {counted(len(answers), 'node')}"
        )
    starting(plan)
    say(f"pairs of {counted(len(plan.placements), 'node')}, {counted(plan.np, 'rank')}, {plan.launcher.name}")
    launches = Launches(runner)
    outcome, causes = launches.follow(step_of(plan, "locate"), plan, logs)
    grown = launches.health(causes, logs)
    located = (
        Located(RankFleet.of(plan.node_of_rank))
        if causes
        else locate.parse(outcome.stdout_by_rank, plan.node_of_rank)
    )
    if grown is not None:
        grown = grown.including((), cpu_quota.unread(located.quotas, plan.node_of_rank))
    apart = PairsAlone()
    if causes and len(answers) > 1 and all(cause.node is None for cause in causes):
        apart = _apart(asked, answers, runner, say)
        causes = pairs_apart.explained(causes, apart)
    return LocateRun(
        located, *names, launches.documents, outcome.duration_s, (*causes, *located.faults),
        node_differences.find(runner.facts, [answer.node for answer in answers], located.suspected, _used(answers)),
        grown, cpu_quota.held_back(located.quotas, plan.node_of_rank), apart, idle_gpus,
    )  # fmt: skip


def _only_interface(chosen: RequestPlan) -> tuple[str, ...]:
    """Return the interface that the inventory names, as the only rail of nodes whose CPUs are measured."""
    interface = chosen.answers[0].interface
    cpus = not chosen.program.torch or not chosen.on_gpus
    return (interface,) if interface is not None and cpus else ()


def _gpus_not_measured(chosen: RequestPlan) -> tuple[str, ...]:
    if chosen.program.torch:
        return ()
    return tuple(answer.node.name for answer in chosen.answers if answer.gpus)


def _notes(chosen: RequestPlan, idle_gpus: Sequence[str]) -> Iterator[str]:
    """Yield what does not prevent the launch."""
    if chosen.program.torch:
        # A node without GPUs has a rank per rail on purpose, whatever its cores are.
        yield from (
            chosen.notes() if chosen.on_gpus else filter(None, [preflight.unlike_torch(chosen.answers)])
        )
    elif idle_gpus:
        lacking = nodeset.fold([answer.node.name for answer in chosen.answers if not answer.torch])
        why = f"torch is not installed on {lacking}" if lacking else "not all nodes have GPUs"
        yield f"the GPUs of {nodeset.fold(idle_gpus)} are not measured: {why}; pairs move host memory"


def _apart(
    asked: Request, answers: Sequence[Readiness], runner: Runner, say: Callable[[str], None]
) -> PairsAlone:
    """Run pairs of nodes as launches of their own, because the launch of all named no node."""
    small = replace(asked, np=None, timeout_s=min(asked.timeout_s, pairs_apart.DEADLINE_S))

    def plan(pair: Sequence[Readiness]) -> LaunchPlan:
        return planned(small, pair, runner, pairs_only=True)[1]

    return pairs_apart.run(answers, plan, runner, say)


def _used(answers: Sequence[Readiness]) -> frozenset[str]:
    """Return the interfaces that the ranks use, as the inventory names them."""
    selectors = (answer.node.interfaces for answer in answers)
    return frozenset(name for one in selectors if one is not None and not one.excludes for name in one.names)
