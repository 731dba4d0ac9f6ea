"""Run one benchmark: preflight, a launch per point, parsing of the results, and faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clusterctl import log
from clusterctl.benchmarks.base import Fault, FaultKind, RankProof
from clusterctl.benchmarks.collective import CollectiveSweep, program_of
from clusterctl.benchmarks.neighbours import Neighbourhood
from clusterctl.benchmarks.scaling import Point
from clusterctl.benchmarks.sweep_sizes import check_sizes, wanted_sizes
from clusterctl.benchmarks.training import Training
from clusterctl.benchmarks.user_program import UserProgram
from clusterctl.documents.evidence import RankPath, SlowPart
from clusterctl.errors import ResultError
from clusterctl.launch import (
    beside,
    failure,
    foreign_library,
    nccl_dumps,
    proven_settings,
    rates,
    slow_parts,
    user_program,
)
from clusterctl.launch import fast_path as trust
from clusterctl.launch import plan as planning
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.failure import Outcome
from clusterctl.launch.launches import Launches, step_of
from clusterctl.launch.measured import (
    Measured,
    PartlyMeasured,
    TrainingPoint,
    Wall,
    collective_settings,
    environment_of,
    hardware_of,
)
from clusterctl.launch.plan import RequestPlan
from clusterctl.launch.request import Request
from clusterctl.launch.run import Runner
from clusterctl.launch.variants import require_reader, without_effect
from clusterctl.launch.viewer import Turn
from clusterctl.text.wording import counted, some
from clusterctl.transport.answers import HANDLING_ERRORS
from clusterctl.trust import foreign_library as foreign_proof
from clusterctl.trust import paths, settings, slow_neighbours, usage
from clusterctl.trust.usage import RankUsage
from clusterctl.workloads.archive import ARCHIVE, build
from clusterctl.workloads.training_sizes import default_sizes

_LOG = log.get(__name__)


def _reports(outcome: Outcome) -> tuple[RankPath, ...]:
    """Return the reports of the ranks' NCCL-symbol libraries; launchers that merge the streams put them on stdout."""
    texts: dict[int, str] = dict(outcome.stdout_by_rank)
    for rank, text in outcome.stderr_by_rank.items():
        texts[rank] = f"{texts.get(rank, '')}\n{text}"
    return paths.of_reports(texts)


def _unproven_library(
    chosen: RequestPlan, plan: LaunchPlan, outcome: Outcome, used: Sequence[RankUsage]
) -> tuple[Fault, ...]:
    """Return why the ranks did not use the chosen library of others; one rank alone uses no library."""
    wanted = foreign_library.proof(chosen.library)
    if wanted is None or plan.np < 2:
        return ()
    texts = (outcome.stderr_by_rank, outcome.stdout_by_rank)
    return foreign_proof.unproven(wanted, plan.np, used, texts)


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
        self._turn = turn
        self._launches = Launches(runner, starting)

    def run(self) -> Measured:
        """Measure; problems on the nodes are returned as faults.

        Raise PartlyMeasured if a person interrupts a training that has finished points.
        """
        measured = self._measured()
        if failure.was_interrupted(measured.faults):
            raise PartlyMeasured(measured)
        return replace(measured, health=self._launches.health(measured.faults, self._logs))

    def _measured(self) -> Measured:
        try:
            return self._run()
        except HANDLING_ERRORS as error:
            if not self._launches.documents:
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
        program = self._request.program
        own = {ARCHIVE: build(), **nccl_dumps.staged()}
        answers, faults = self._runner.prepare(
            own if program is None else user_program.staged(program),
            program_of(self._request.collective),
            self._request.library,
        )
        if faults:
            return self._failed(faults)
        request = self._request
        chosen = planning.plan(request, answers, self._runner.identity())
        chosen.require_partner()
        # Notes come before faults: too many ranks may be the reason for both.
        for note in chosen.notes():
            self._say(f"note: {note}")
        found = self._runner.versions(program)
        for one in found.unfit if found is not None else ():
            self._say(f"note: {one.what} {one.reason}")
        faults = chosen.unmet()
        if faults:
            return self._failed(faults, chosen)
        require_reader(chosen.library, chosen.environment)
        for name in without_effect(chosen.environment, len(answers)):
            self._say(f"note: all ranks are on one node, so {name} is not expected to have an effect")
        # All launches are planned before the first one starts, so that an impossible one costs no time.
        launches = chosen.launches()
        if program is not None:
            faults = self._runner.prove_program(program, max(launches, key=lambda plan: plan.np))
            return self._failed(faults, chosen) if faults else self._program(chosen, program, launches)
        if chosen.training is None:
            if not chosen.on_gpus and not request.sweep:
                self._say("no GPU: running a short sweep on the CPU (8 B to 8 MiB, 10 iterations)")
            return self._collective(chosen, chosen.sweep, launches[0])
        if request.points is None and len(launches) > 1:
            *fewer, last = (str(plan.np) for plan in launches)
            self._say(
                f"measuring {', '.join(fewer)} and {last} ranks for the scaling efficiency; "
                f"-np {last} measures {last} only"
            )
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
        request = self._request
        collective = request.is_collective
        apart = request.training is not None or len(request.points or ()) > 1
        logs = self._logs / f"np-{plan.np}" if apart else self._logs
        step = replace(
            step_of(plan, chosen.sweep.title if collective else request.benchmark),
            training=request.training is not None, program=request.program is not None,
            total=len(wanted_sizes(chosen.sweep)) if collective else None,
            point=point, points=points, turn=self._turn or Turn(),
        )  # fmt: skip
        return self._launches.run(plan, step, logs)

    def _collective(self, chosen: RequestPlan, swept: CollectiveSweep, plan: LaunchPlan) -> Measured:
        outcome, causes = self._launch(chosen, plan)
        if outcome is None:
            return self._failed(causes, chosen)
        proven = self._trust(plan, outcome, chosen)
        sweep = trust.named(swept.parse(outcome.table), proven)
        ranks = plan.np * swept.gpus
        faults = failure.merge(causes, sweep.faults, failure.check_table(sweep.ranks, outcome, ranks))
        faults = faults or failure.check_library(chosen.library, sweep.libraries)
        faults = faults or check_sizes(swept, sweep.rows, ranks)
        taken = _reports(outcome) if chosen.library == "nccl+ccore" else paths.of_table(outcome.table)
        used = usage.of_table(outcome.table)
        self._launches.note_quotas(plan, used)
        environment = chosen.environment
        evidence = proven_settings.evidence(plan, chosen, proven.log, used, taken)
        faults = faults or _unproven_library(chosen, plan, outcome, used)
        faults = faults or proven_settings.faults(proven_settings.unproven(environment, (), evidence))
        neighbours = beside.parse(plan, outcome)
        slow: tuple[SlowPart, ...] | None = None
        if not faults and self._turn is None:
            neighbours, slow = self._look_for_slow(chosen, plan, neighbours)
        return Measured(
            self._request, chosen.library, chosen.launcher.name, sweep, (), sweep.ranks, self._launches.documents,
            (*faults, *proven.faults),
            settings={
                **collective_settings(sweep, swept, chosen.program, chosen.answers),
                **environment_of(plan, chosen),
            },
            hardware=hardware_of(sweep.ranks, chosen.answers),
            trust=proven,
            neighbours=neighbours,
            slow=slow,
            paths=taken,
            usage=used,
            proven=settings.read_by(environment, evidence),
        )  # fmt: skip

    def _look_for_slow(
        self, chosen: RequestPlan, plan: LaunchPlan, neighbours: Neighbourhood
    ) -> tuple[Neighbourhood, tuple[SlowPart, ...] | None]:
        """Return the neighbour measurements and what pairs of nodes confirmed, with additional launches if needed."""
        launches = len(self._launches.documents)
        if not neighbours.ranks:
            neighbours = self._beside(chosen, plan)
        after = len(self._launches.documents)
        slow = self._slow_parts(chosen, plan, neighbours)
        only_neighbours = launches < after == len(self._launches.documents) and bool(neighbours.ranks)
        found = {f"rank {one.rank} on {one.host}" for one in slow_neighbours.find(neighbours)}
        confirmed = [" - ".join(one.nodes) for one in slow or ()]
        if confirmed:
            self._say(f"slow: {', '.join(dict.fromkeys(confirmed))}")
        elif slow == () or (only_neighbours and not found):
            self._say("no rank is slow")
        elif only_neighbours:
            self._say(f"slow: {some(sorted(found))}")
        return neighbours, slow

    def _beside(self, chosen: RequestPlan, plan: LaunchPlan) -> Neighbourhood:
        """Measure neighbouring ranks with an additional launch if the measured program cannot do so."""
        extra = beside.plan(chosen, plan)
        if extra is None:
            return Neighbourhood()
        self._say("Looking for a slow rank: pairs of neighbours")
        outcome, causes = self._launches.additional(extra, "pairs of neighbours", self._logs / "neighbours")
        for fault in causes:
            self._say(f"note: pairs of neighbours were not measured: {fault.message}")
        found = beside.parse(extra, outcome)
        if not causes and not found.ranks:
            self._say("the ranks have no links to compare")
        return found

    def _slow_parts(
        self, chosen: RequestPlan, plan: LaunchPlan, neighbours: Neighbourhood
    ) -> tuple[SlowPart, ...] | None:
        """Measure pairs of nodes with an additional launch if the neighbours look uneven."""
        found = slow_parts.plan(chosen, plan, neighbours, self._runner)
        if found is None:
            return None
        extra, rails = found
        faults = self._launches.unmeshed(extra)
        if not faults:
            self._say("Looking for a slow rank: pairs of nodes")
            outcome, causes = self._launches.additional(extra, "pairs of nodes", self._logs / "pairs")
            slow, located = slow_parts.parse(extra, outcome, rails)
            if slow is not None and not causes:
                return slow
            faults = causes or located.faults
        for fault in faults:
            self._say(f"note: it was not confirmed which node is slow: {fault.message}")
        return None

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
        for number, plan in enumerate(plans, 1):
            try:
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
                faults = failure.merge(causes, run.faults, failure.check_ranks(finished, plan.np))
                if not faults:
                    used = usage.of_reports(run.usage)
                    self._launches.note_quotas(plan, used)
                    faults = _unproven_library(chosen, plan, outcome, used)
                if not faults:
                    evidence = proven_settings.evidence(plan, chosen, proven.log, used, taken)
                    # One rank alone does not communicate, so it uses no option of the communication.
                    wished = chosen.environment if plan.np > 1 else dict(self._request.environment)
                    by = settings.read_by(wished, evidence)
                    asked = chosen.mechanisms if plan.np > 1 else ()
                    unproven = proven_settings.unproven(wished, asked, evidence)
                    if proven_settings.left_to_more_ranks(unproven, plan.np, most):
                        without_proof |= {plan.np} if unproven else set()
                    else:
                        faults = proven_settings.faults(unproven)
                if faults:
                    break
                spread = max(rate.spread for rate in run.rates)
                point = Point(plan.np, len(plan.placements), run.samples_per_s, spread)
                points.append(TrainingPoint(point, run))
            except KeyboardInterrupt:
                if not points:
                    raise
                faults = (failure.interrupted(f"point {number} of {len(plans)}, {counted(plan.np, 'rank')}"),)
                break
        said: dict[str, Any] = {}
        if points:
            environment = environment_of(plans[-1], chosen)
            said = {"program": "torch", **points[-1].run.settings, **environment}
        return Measured(
            self._request, chosen.library, chosen.launcher.name, None, tuple(points), ranks, self._launches.documents,
            (*faults, *(proven.faults if proven else ())),
            settings=said,
            hardware=hardware_of(ranks, chosen.answers),
            trust=proven,
            paths=taken,
            usage=used,
            proven=by,
            without_proof=frozenset(without_proof),
        )  # fmt: skip

    def _program(self, chosen: RequestPlan, program: UserProgram, plans: Sequence[LaunchPlan]) -> Measured:
        """Run a program of the user with each number of ranks; only its own output has a rate."""
        points: list[TrainingPoint] = []
        walls: list[Wall] = []
        faults: tuple[Fault, ...] = ()
        ranks: tuple[RankProof, ...] = ()
        proven: trust.Trust | None = None
        taken: tuple[RankPath, ...] = ()
        by: Mapping[str, str] = {}
        for number, plan in enumerate(plans, 1):
            try:
                outcome, faults = self._launch(chosen, plan, number, len(plans))
            except KeyboardInterrupt:
                if not walls:
                    raise
                faults = (failure.interrupted(f"point {number} of {len(plans)}, {counted(plan.np, 'rank')}"),)
                break
            if outcome is None:
                break
            proven = self._trust(plan, outcome, chosen)
            ranks = self._placed(plan)
            taken = _reports(outcome) if chosen.library == "nccl+ccore" and plan.np > 1 else ()
            for left in user_program.left_behind(outcome.stderr_by_rank, plan.node_of_rank):
                self._say(f"note: {program.name} left processes, which were ended: {left}")
            if faults:
                break
            walls.append(Wall(plan.np, len(plan.placements), outcome.duration_s))
            said = {rank: f"{outcome.stderr_by_rank.get(rank, '')}\n{outcome.stdout_by_rank.get(rank, '')}"
                    for rank in range(plan.np)}  # fmt: skip
            try:
                found = rates.matches(program.rate, said)
            except ResultError as error:
                faults = (Fault(FaultKind.UNPARSABLE, error.message, hint=error.hint),)
                break
            for note in program.notes(found):
                self._say(f"note: {note}")
            run = program.run_of(found, plan.np)
            faults = run.faults
            if not faults and chosen.library == "nccl" and plan.np > 1:
                # What only the program itself reads, NCCL's log cannot prove.
                wished = {name: v for name, v in chosen.environment.items() if name.startswith("NCCL_")}
                evidence = proven_settings.evidence(plan, chosen, proven.log, (), taken)
                by = settings.read_by(wished, evidence)
                faults = proven_settings.faults(proven_settings.unproven(wished, (), evidence))
            if faults:
                break
            if run.rates or run.total:
                spread = run.total[1] if run.total else max(rate.spread for rate in run.rates)
                point = Point(plan.np, len(plan.placements), run.samples_per_s, spread)
                points.append(TrainingPoint(point, replace(run, ranks=ranks)))
        return Measured(
            self._request, chosen.library, chosen.launcher.name, None, tuple(points), ranks, self._launches.documents,
            (*faults, *(proven.faults if proven else ())),
            settings={"program": program.line, **environment_of(plans[-1], chosen)} if walls else {},
            hardware=hardware_of(ranks, chosen.answers),
            trust=proven,
            paths=taken,
            proven=by,
            walls=tuple(walls),
        )  # fmt: skip

    def _placed(self, plan: LaunchPlan) -> tuple[RankProof, ...]:
        """Return where the launcher placed the ranks: a program of the user does not report it."""
        gpus = {
            name: [gpu.name for gpu in facts.gpu.devices.or_else(())]
            for name, facts in self._runner.facts.items()
        }
        return tuple(
            RankProof(rank, node, 0, gpus[node][0] if gpus.get(node) else "cpu")
            for rank, node in enumerate(plan.node_of_rank)
        )

    def _trust(self, plan: LaunchPlan, outcome: Outcome, chosen: RequestPlan) -> trust.Trust:
        allowed = self._request.allow_slow_path or trust.asked_for(self._request.environment)
        return trust.of_launch(plan, outcome, chosen.answers, chosen.library, allow_slow_path=allowed)

    def _failed(self, faults: tuple[Fault, ...], chosen: RequestPlan | None = None) -> Measured:
        library, launcher = (chosen.library, chosen.launcher.name) if chosen else (None, None)
        return Measured(self._request, library, launcher, None, (), (), self._launches.documents, faults)
