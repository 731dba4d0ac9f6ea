"""Run one benchmark: preflight, a launch per point, parsing of the results, and faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clusterctl import log
from clusterctl.benchmarks.base import Fault, FaultKind, RankProof
from clusterctl.benchmarks.collective import CollectiveSweep, program_of
from clusterctl.benchmarks.key import hardware_name
from clusterctl.benchmarks.neighbours import Neighbourhood
from clusterctl.benchmarks.perf_output import Sweep
from clusterctl.benchmarks.scaling import Point
from clusterctl.benchmarks.sweep_sizes import check_sizes, wanted_sizes
from clusterctl.benchmarks.training import Training, TrainingRun
from clusterctl.launch import beside, choose, failure, proven_settings
from clusterctl.launch import fast_path as trust
from clusterctl.launch import plan as planning
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.failure import Outcome
from clusterctl.launch.plan import RequestPlan
from clusterctl.launch.preflight import Readiness
from clusterctl.launch.request import Request
from clusterctl.launch.run import Runner
from clusterctl.launch.variants import require_reader, tunes, without_effect
from clusterctl.launch.viewer import Step, Turn
from clusterctl.transport.answers import HANDLING_ERRORS
from clusterctl.trust import paths, settings, usage
from clusterctl.trust.paths import RankPath
from clusterctl.trust.usage import RankUsage
from clusterctl.workloads.archive import ARCHIVE, build
from clusterctl.workloads.training_sizes import default_sizes

_LOG = log.get(__name__)
_PROGRAMS = ("nccl-tests", "collective_core")


@dataclass(frozen=True, slots=True)
class TrainingPoint:
    """Hold one point of a scaling curve and its training run."""

    point: Point
    run: TrainingRun


@dataclass(frozen=True, slots=True)
class Measured:
    """Hold all results of one request; ``launches`` is the content of launch.json."""

    request: Request
    library: str | None
    launcher: str | None
    sweep: Sweep | None
    points: tuple[TrainingPoint, ...]
    ranks: tuple[RankProof, ...]
    launches: tuple[dict[str, Any], ...]
    faults: tuple[Fault, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the measurement: reported by the ranks for a training, by clusterctl for a collective."""
    hardware: str | None = None
    """The name of the GPU or CPU on which the ranks ran."""
    trust: trust.Trust | None = None
    """What the last launch proves about its fast path."""
    neighbours: Neighbourhood = field(default_factory=Neighbourhood)
    """The rates between neighbouring ranks of a collective, if they were measured; they show which node is slow."""
    paths: tuple[RankPath, ...] = ()
    """How collective_core moved the ranks' CUDA tensors, or which calls it took in front of NCCL."""
    usage: tuple[RankUsage, ...] = ()
    """The variables that each rank read, and its algorithms, as reported by the last launch."""
    proven: Mapping[str, str] = field(default_factory=dict)
    """What proves each setting of a variant."""
    without_proof: frozenset[int] = frozenset()
    """The numbers of ranks of a training that are too few to use the variant's settings."""


def planned(plan: LaunchPlan) -> dict[str, Any]:
    """Return what is planned for one launch in the form of launch.json; secrets appear by name only."""
    hidden = {name for name, _ in plan.secrets}
    return {
        "np": plan.np,
        "placements": [
            {"node": p.node, "host": p.host, "address": p.address, "ranks": p.ranks} for p in plan.placements
        ],
        "node_of_rank": list(plan.node_of_rank),
        "argv": list(plan.argv),
        "env": {name: "***" if name in hidden else value for name, value in plan.env},
        "timeout_s": plan.timeout_s,
    }


def document(plan: LaunchPlan, outcome: Outcome | None) -> dict[str, Any]:
    """Return one launch and its outcome in the form of launch.json."""
    return {
        **planned(plan),
        "returncode": outcome.returncode if outcome else None,
        "duration_s": round(outcome.duration_s, 3) if outcome else None,
        "deadline_passed": outcome.deadline_passed if outcome else None,
    }


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


def environment_of(request: Request, plan: LaunchPlan, chosen: RequestPlan) -> dict[str, Any]:
    """Return the setting ``environment``: the library's variables from request and inventory, without secrets."""
    names = {name for a in chosen.answers for name in a.node.env if tunes(name, chosen.library)}
    names |= dict(request.environment).keys()
    said = {name: value for name, value in plan.env if name in names and value is not None}
    return {"environment": said} if said else {}


def _hardware(ranks: Sequence[RankProof], answers: Sequence[Readiness]) -> str | None:
    cpus = {answer.cpu_model for answer in answers if answer.cpu_model}
    return hardware_name([rank.device for rank in ranks], cpus)


def _collective_settings(
    sweep: Sweep, swept: CollectiveSweep, program: choose.Program, answers: Sequence[Readiness]
) -> dict[str, Any]:
    first = sweep.rows[0] if sweep.rows else None
    named = [name for line in sweep.libraries for name in _PROGRAMS if line.startswith(f"{name} version")]
    return {
        "program": "torch" if program.torch else next(iter(named), program_of(swept.name)),
        "torch": answers[0].torch if program.torch else None,
        "datatype": first.dtype if first else None,
        "redop": first.redop if first else None,
        "cuda_graph": "if faster" if "-G" in program.words else False,
        "iters": swept.iters,
        "warmup_iters": swept.warmup_iters,
        "check": swept.check,
        "ranks_per_gpu": sweep.ranks_per_gpu,
    }


def _reports(outcome: Outcome) -> tuple[RankPath, ...]:
    """Return the reports of the ranks' NCCL-symbol libraries; launchers that merge the streams put them on stdout."""
    texts: dict[int, str] = dict(outcome.stdout_by_rank)
    for rank, text in outcome.stderr_by_rank.items():
        texts[rank] = f"{texts.get(rank, '')}\n{text}"
    return paths.of_reports(texts)


def _step(plan: LaunchPlan, benchmark: str) -> Step:
    return Step(benchmark, plan.np, len(plan.placements), plan.launcher.name, plan.timeout_s)


class Measurement:
    """Measure one request on one set of nodes."""

    def __init__(
        self,
        request: Request,
        runner: Runner,
        logs: Path,
        say: Callable[[str], None],
        *,
        starting: Callable[[LaunchPlan], None] = lambda _: None,
        turn: Turn | None = None,
    ) -> None:
        """Prepare a measurement.

        ``starting`` is called with each launch before it starts. ``turn``: the measurement is one of several, so
        additional launches are omitted.
        """
        self._request = request
        self._runner = runner
        self._logs = logs
        self._say = say
        self._starting = starting
        self._turn = turn
        self._launches: list[dict[str, Any]] = []

    def run(self) -> Measured:
        """Measure; problems on the nodes are returned as faults."""
        try:
            return self._run()
        except HANDLING_ERRORS as error:
            if not self._launches:
                raise
            # Once ranks have run, the run keeps its record and its logs, even if the output cannot be read.
            _LOG.debug("reading the output of the ranks", exc_info=True)
            fault = Fault(
                FaultKind.UNPARSABLE,
                f"the output of the ranks cannot be read: {type(error).__name__}: {error!s:.200}",
                hint="the ranks' logs are in the run folder; please report this with the output of a run with -vv",
            )
            return self._failed((fault,))

    def _run(self) -> Measured:
        answers, faults = self._runner.prepare({ARCHIVE: build()}, program_of(self._request.collective))
        if faults:
            return self._failed(faults)
        request = self._request
        chosen = planning.plan(request, answers, self._runner.identity())
        # Notes come before faults: too many ranks may be the reason for both.
        for note in chosen.notes():
            self._say(f"note: {note}")
        faults = chosen.unmet()
        if faults:
            return self._failed(faults, chosen)
        environment = dict(request.environment)
        require_reader(chosen.library, environment)
        for name in without_effect(environment, len(answers)):
            self._say(f"note: all ranks are on one node, so {name} is not expected to have an effect")
        # All launches are planned before the first one starts, so that an impossible one costs no time.
        launches = chosen.launches()
        if chosen.training is None:
            if not chosen.on_gpus and not request.sweep:
                self._say("no GPU: running a short sweep on the CPU (8 B to 8 MiB, 10 iterations)")
            return self._collective(chosen, chosen.sweep, launches[0])
        if not chosen.on_gpus and chosen.training.batch_size is None:
            sizes = default_sizes(chosen.training.model, chosen.training.phase or 1, gpu=False)
            batch = sizes.batch_size
            side = f" of {sizes.image_size}x{sizes.image_size}" if sizes.image_size else ""
            self._say(
                f"no GPU: training on the CPU with a small batch ({batch} per rank{side}) and few steps"
            )
        return self._training(chosen, chosen.training, launches)

    def _launch(
        self, chosen: RequestPlan, plan: LaunchPlan, point: int = 1, points: int = 1
    ) -> tuple[Outcome | None, tuple[Fault, ...]]:
        self._starting(plan)
        faults = self._runner.check_mesh(plan, chosen.answers).faults if plan.launcher.over_ssh else ()
        if faults:
            self._launches.append(document(plan, None))
            return None, faults
        logs = self._logs if self._request.training is None else self._logs / f"np-{plan.np}"
        training = chosen.training is not None
        step = replace(
            _step(plan, self._request.benchmark if training else chosen.sweep.title),
            training=training, total=None if training else len(wanted_sizes(chosen.sweep)),
            point=point, points=points, turn=self._turn or Turn(),
        )  # fmt: skip
        outcome, causes = self._followed(step, plan, logs)
        self._launches.append(document(plan, outcome))
        return outcome, causes

    def _followed(self, step: Step, plan: LaunchPlan, logs: Path) -> tuple[Outcome, tuple[Fault, ...]]:
        """Run a launch while the viewer shows it."""
        causes: tuple[Fault, ...] | None = None
        self._runner.viewer.starting(step)
        try:
            outcome = self._runner.run(plan, logs)
            causes = failure.classify(plan, outcome)
        finally:
            self._runner.viewer.ended(succeeded=causes == ())
        return outcome, causes

    def _collective(self, chosen: RequestPlan, swept: CollectiveSweep, plan: LaunchPlan) -> Measured:
        outcome, causes = self._launch(chosen, plan)
        if outcome is None:
            return self._failed(causes, chosen)
        proven = self._trust(plan, outcome, chosen)
        sweep = trust.named(swept.parse(outcome.table), proven)
        faults = merge(causes, sweep.faults, failure.check_table(sweep.ranks, outcome, plan.np))
        faults = faults or failure.check_library(chosen.library, sweep.libraries)
        faults = faults or check_sizes(swept, sweep.rows, plan.np)
        taken = _reports(outcome) if chosen.library == "nccl+ccore" else paths.of_table(outcome.table)
        used = usage.of_table(outcome.table)
        environment = dict(self._request.environment)
        evidence = proven_settings.evidence(plan, chosen, proven.log, used, taken)
        faults = faults or proven_settings.faults(environment, evidence)
        neighbours = beside.parse(plan, outcome)
        if not neighbours.ranks and not faults and self._turn is None:
            neighbours = self._beside(chosen, plan)
        return Measured(
            self._request, chosen.library, chosen.launcher.name, sweep, (), sweep.ranks, tuple(self._launches),
            (*faults, *proven.faults),
            settings={
                **_collective_settings(sweep, swept, chosen.program, chosen.answers),
                **environment_of(self._request, plan, chosen),
            },
            hardware=_hardware(sweep.ranks, chosen.answers),
            trust=proven,
            neighbours=neighbours,
            paths=taken,
            usage=used,
            proven=settings.read_by(environment, evidence),
        )  # fmt: skip

    def _beside(self, chosen: RequestPlan, plan: LaunchPlan) -> Neighbourhood:
        """Measure neighbouring ranks with an additional launch if the measured program cannot do so."""
        extra = beside.plan(chosen, plan)
        if extra is None:
            return Neighbourhood()
        self._starting(extra)
        step = _step(extra, "pairs of neighbours")
        outcome, causes = self._followed(step, extra, self._logs / "neighbours")
        self._launches.append(document(extra, outcome))
        for fault in causes:
            self._say(f"note: pairs of neighbours were not measured: {fault.message}")
        return beside.parse(extra, outcome)

    def _training(self, chosen: RequestPlan, training: Training, plans: Sequence[LaunchPlan]) -> Measured:
        points: list[TrainingPoint] = []
        ranks: tuple[RankProof, ...] = ()
        faults: tuple[Fault, ...] = ()
        proven: trust.Trust | None = None
        taken: tuple[RankPath, ...] = ()
        used: tuple[RankUsage, ...] = ()
        by: Mapping[str, str] = {}
        without_proof: set[int] = set()
        most = max(plan.np for plan in plans)
        wished = dict(self._request.environment)
        for number, plan in enumerate(plans, 1):
            outcome, causes = self._launch(chosen, plan, number, len(plans))
            if outcome is None:
                faults = causes
                break
            proven = self._trust(plan, outcome, chosen)
            run = training.parse(outcome.stdout_by_rank)
            if plan.np > 1:
                by_torch = tuple(RankPath(rank, path) for rank, path in run.paths)
                taken = _reports(outcome) if chosen.library == "nccl+ccore" else by_torch
            ranks = run.ranks
            finished = tuple(RankProof(rate.rank, "", 0, "") for rate in run.rates)
            faults = merge(causes, run.faults, failure.check_ranks(finished, plan.np))
            if not faults:
                used = usage.of_reports(run.usage)
                evidence = proven_settings.evidence(plan, chosen, proven.log, used, taken)
                by = settings.read_by(wished, evidence)
                unproven = proven_settings.faults(wished, evidence)
                # One rank alone does not communicate, so it reads no variable of a library.
                if plan.np > 1 or most == 1:
                    faults = unproven
                elif unproven:
                    without_proof.add(plan.np)
            if faults:
                break
            spread = max(rate.spread for rate in run.rates)
            point = Point(plan.np, len(plan.placements), run.samples_per_s, spread)
            points.append(TrainingPoint(point, run))
        said: dict[str, Any] = {}
        if points:
            environment = environment_of(self._request, plans[-1], chosen)
            said = {"program": "torch", **points[-1].run.settings, **environment}
        return Measured(
            self._request, chosen.library, chosen.launcher.name, None, tuple(points), ranks, tuple(self._launches),
            (*faults, *(proven.faults if proven else ())),
            settings=said,
            hardware=_hardware(ranks, chosen.answers),
            trust=proven,
            paths=taken,
            usage=used,
            proven=by,
            without_proof=frozenset(without_proof),
        )  # fmt: skip

    def _trust(self, plan: LaunchPlan, outcome: Outcome, chosen: RequestPlan) -> trust.Trust:
        allowed = self._request.allow_slow_path or trust.asked_for(self._request.environment)
        return trust.of_launch(plan, outcome, chosen.answers, chosen.library, allow_slow_path=allowed)

    def _failed(self, faults: tuple[Fault, ...], chosen: RequestPlan | None = None) -> Measured:
        library, launcher = (chosen.library, chosen.launcher.name) if chosen else (None, None)
        return Measured(self._request, library, launcher, None, (), (), tuple(self._launches), faults)
