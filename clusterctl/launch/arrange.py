"""Choose launcher, library, program and rank placement of a request for the nodes that answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from clusterctl.artifacts.env import Library
from clusterctl.benchmarks.base import Fault
from clusterctl.benchmarks.collective import program_of
from clusterctl.launch import choose, preflight
from clusterctl.launch.base import Launcher, LaunchPlan, MapBy
from clusterctl.launch.preflight import Readiness
from clusterctl.launch.request import Request
from clusterctl.launch.run import Runner, needs_for
from clusterctl.workloads.archive import ARCHIVE


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Hold what all launches of one request share; the launching node comes first in ``answers``."""

    request: Request
    answers: tuple[Readiness, ...]
    launcher: Launcher
    library: Library
    program: choose.Program
    np: int
    map_by: MapBy
    token: str
    mark: str
    directory: str

    def unmet(self) -> tuple[Fault, ...]:
        """Return a fault for each requirement that a node does not meet."""
        needs = needs_for(
            self.launcher.name, torch=self.program.torch, perf=self.program.perf,
            program=program_of(self.request.collective),
        )  # fmt: skip
        return preflight.judge(self.answers, needs)

    def notes(self) -> tuple[str, ...]:
        """Return warnings that do not prevent the launch."""
        unlike = preflight.unlike_torch(self.answers) if self.program.torch else None
        return (unlike,) if unlike else ()

    def plan(self, np: int, words: tuple[str, ...]) -> LaunchPlan:
        """Return the launch of ``np`` ranks of a program; the request's variables take precedence over all others."""
        chosen = choose.plan(
            self.answers, np=np, map_by=self.map_by, chosen=self.library, program=words, token=self.token,
            mark=self.mark, directory=self.directory,
            timeout_s=self.request.timeout_s, launcher_name=self.launcher.name,
        )  # fmt: skip
        return with_environment(chosen, dict(self.request.environment))


def arrange(request: Request, answers: Sequence[Readiness], runner: Runner) -> Arrangement:
    """Choose what the request leaves open; raise UsageError or LaunchError if these nodes cannot serve it."""
    answers = choose.launching_first(answers)
    launcher = choose.launcher(request.launcher, answers)
    library = choose.library(request.library, answers, collective=request.training is None)
    archive = f"{runner.directory}/{ARCHIVE}"
    if request.training is None:
        choosing = choose.comparable_program if request.same_program else choose.collective_program
        program = choose.told_of_deadline(
            choosing(request.collective, library, answers, archive), request.timeout_s
        )
    else:
        program = choose.torch_program(answers, archive, "training")
    return Arrangement(
        request=request,
        answers=answers,
        launcher=launcher,
        library=library,
        program=program,
        np=request.np or sum(answer.slots for answer in answers),
        map_by=choose.mapping(request.map_by, answers),
        token=runner.token,
        mark=runner.mark,
        directory=runner.directory,
    )


def with_environment(plan: LaunchPlan, environment: Mapping[str, str]) -> LaunchPlan:
    """Return the launch with these variables set; they override variables and secrets of the same names."""
    others = tuple(pair for pair in plan.env if pair[0] not in environment)
    hidden = tuple(pair for pair in plan.secrets if pair[0] not in environment)
    return replace(plan, env=(*others, *environment.items()), secrets=hidden)
