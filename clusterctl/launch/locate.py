"""Run the program behind ``locate`` on the nodes: one launch that walks through all rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clusterctl.benchmarks import locate
from clusterctl.benchmarks.base import Fault
from clusterctl.benchmarks.locate import Located
from clusterctl.launch import choose, failure
from clusterctl.launch import plan as planning
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.environment import backend
from clusterctl.launch.measure import document
from clusterctl.launch.plan import RequestPlan
from clusterctl.launch.preflight import Readiness
from clusterctl.launch.request import Request
from clusterctl.launch.run import Runner
from clusterctl.workloads.archive import ARCHIVE, build
from clusterctl.workloads.locate.fleet import RankFleet


@dataclass(frozen=True, slots=True)
class LocateRun:
    """One run: what it found, how it was launched, and the interface of each place."""

    located: Located
    library: str | None
    launcher: str | None
    rails: tuple[str, ...]
    launches: tuple[dict[str, Any], ...]
    duration_s: float
    faults: tuple[Fault, ...]


def rails_of(answers: Sequence[Readiness]) -> tuple[str, ...]:
    """Return the interfaces that the inventory names, if there are several: the rails of nodes without GPUs."""
    selector = answers[0].node.interfaces
    if selector is None or selector.excludes or len(selector.names) < 2:
        return ()
    return selector.names


def request(library: str | None, np: int | None, launcher: str | None, timeout_s: float) -> Request:
    """Return the request; raise UsageError for an unknown library or launcher."""
    return Request(
        training=None, sweep={}, np=np, points=None,
        library=choose.known_library(library) if library is not None else None,
        launcher=choose.known_launcher(launcher) if launcher is not None else None,
        map_by=None, timeout_s=timeout_s, same_program=True,
    )  # fmt: skip


def planned(
    asked: Request, answers: Sequence[Readiness], runner: Runner, repeat_s: float = 0
) -> tuple[RequestPlan, LaunchPlan, tuple[str, ...]]:
    """Return the plan, its launch, and the rails; raise UsageError or LaunchError if the nodes cannot serve it."""
    on_gpus = all(answer.gpus for answer in answers)
    rails = () if on_gpus else rails_of(answers)
    if not on_gpus:
        # Without GPUs a node has one rank per rail: more of them would only share its CPUs.
        np = asked.np or len(answers) * max(1, len(rails))
        asked = replace(asked, np=np, map_by="node", oversubscribe=True)
    chosen = planning.plan(asked, answers, runner.identity())
    program = choose.torch_program(chosen.answers, f"{runner.directory}/{ARCHIVE}", "locate")
    chosen = replace(chosen, program=program)

    def launch(nodes: Sequence[int]) -> LaunchPlan:
        words = locate.words(program.words, backend(chosen.library), nodes, rails, asked.timeout_s, repeat_s)
        return chosen.launch(chosen.np, words)

    # Which node a rank is on is known once the launch is planned.
    names = launch(()).node_of_rank
    order = {name: index for index, name in enumerate(dict.fromkeys(names))}
    return chosen, launch([order[name] for name in names]), rails


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


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
    if faults:
        return LocateRun(Located(RankFleet((), ())), None, None, (), (), 0.0, faults)
    chosen, plan, rails = planned(
        replace(asked, timeout_s=asked.timeout_s + repeat_s), answers, runner, repeat_s
    )
    names = chosen.library, chosen.launcher.name, rails
    faults = chosen.unmet()
    if not faults and plan.launcher.over_ssh:
        faults = runner.check_mesh(plan, chosen.answers).faults
    if faults:
        return LocateRun(Located(RankFleet.of(plan.node_of_rank)), *names, (), 0.0, faults)
    for note in chosen.notes():
        say(f"note: {note}")
    starting(plan)
    say(f"pairs of {_many(len(plan.placements), 'node')}, {_many(plan.np, 'rank')}, {plan.launcher.name}")
    outcome = runner.run(plan, logs)
    causes = failure.classify(plan, outcome)
    located = (
        Located(RankFleet.of(plan.node_of_rank)) if causes else locate.parse(outcome.table, plan.node_of_rank)
    )
    return LocateRun(
        located, *names, (document(plan, outcome),), outcome.duration_s, (*causes, *located.faults)
    )
