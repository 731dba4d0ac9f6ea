"""Run several benchmarks: a sweep for each combination of ``--collective A,B -d T,U -o P,Q``, or ``--smoke``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clusterctl.cli import console
from clusterctl.errors import UsageError
from clusterctl.text.closest import did_you_mean, spelled

if TYPE_CHECKING:
    from clusterctl.cli.bench.run import Ended, Experiment
    from clusterctl.launch.request import Request

# A working launch takes a fraction of this time, and a launch that hangs must not block the CI runner.
SMOKE_TIMEOUT_S = 180.0


def collectives_of(text: str | None) -> tuple[str, ...]:
    """Return the collectives in ``all_reduce,all_gather``; raise UsageError for an unknown one."""
    from clusterctl.benchmarks.collective import COLLECTIVES

    return _names("--collective", "collective", text or "all_reduce", COLLECTIVES, COLLECTIVES)


def datatypes_of(text: str | None) -> tuple[str, ...]:
    """Return the types in ``float,half``; raise UsageError for an unknown one."""
    from clusterctl.benchmarks.collective import DATATYPES, IN_EVERY_PROGRAM

    return _names("--datatype", "type", text or "float", DATATYPES, IN_EVERY_PROGRAM["datatype"])


def operators_of(text: str | None) -> tuple[str, ...]:
    """Return the operators in ``sum,max``; raise UsageError for an unknown one."""
    from clusterctl.benchmarks.collective import IN_EVERY_PROGRAM, OPERATORS

    return _names("--op", "operator", text or "sum", OPERATORS, IN_EVERY_PROGRAM["op"])


def _names(flag: str, kind: str, text: str, known: Sequence[str], every: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    for word in (spelled(word.strip(), (*known, "all")) for word in text.split(",")):
        if word == "all":
            found += every
        elif word in known:
            found.append(word)
        else:
            raise UsageError(
                f"{flag}: unknown {kind} {word[:60]!r}", hint=did_you_mean(word, known, (*known, "all"))
            )
    return tuple(dict.fromkeys(found))


def requests(
    request: Request, collective: str | None, datatype: str | None, op: str | None
) -> tuple[Request, ...]:
    """Return the request of each combination; a collective that does not reduce has no operator.

    Raise UsageError if ``op`` is given and no collective reduces.
    """
    from clusterctl.benchmarks.collective import REDUCING

    if not request.is_collective:
        return (request,)
    names = collectives_of(collective)
    if op is not None and not any(name in REDUCING for name in names):
        raise UsageError(
            f"--op has no effect on {', '.join(names)}",
            hint=f"leave it out; these reduce: {', '.join(REDUCING)}",
        )
    found = []
    for name in names:
        for kind in datatypes_of(datatype):
            for operator in operators_of(op) if name in REDUCING else ("sum",):
                asked: dict[str, Any] = {"datatype": kind} if datatype is not None else {}
                asked |= {"op": operator} if op is not None and name in REDUCING else {}
                found.append(replace(request, collective=name, sweep={**request.sweep, **asked}))
    return tuple(found)


def run(experiment: Experiment, asked: Sequence[Request], show: Callable[[Ended], None]) -> tuple[Ended, ...]:
    """Measure the sweeps one by one and show each result; the first one that fails is the last one."""
    from clusterctl.cli.bench.run import measure
    from clusterctl.launch.interleave import once

    say = once(console.talk)
    ended: list[Ended] = []
    for number, request in enumerate(asked, 1):
        ended.append(measure(experiment, request, say))
        show(ended[-1])
        if ended[-1].faults and number < len(asked):
            console.talk(f"note: {len(asked) - number} more sweeps were not measured after this failure")
            break
    return tuple(ended)


def document(ended: Sequence[Ended]) -> dict[str, Any]:
    """Return the result of one sweep as it is, and those of several in one document."""
    from clusterctl.documents.bench import Sweeps
    from clusterctl.documents.words import Success

    if len(ended) == 1:
        return ended[0].result.document()
    failed = any(one.exit_code for one in ended)
    results = tuple(one.result.document() for one in ended)
    return Sweeps(status=Success.FAILED if failed else Success.OK, results=results).document()


def smoke_requests(request: Request) -> tuple[Request, Request]:
    """Return the two requests of a smoke test, with the ranks, library and launcher of ``request``."""
    from dataclasses import replace

    from clusterctl.benchmarks.training import Training

    sweep: dict[str, Any] = {
        "min_bytes": 8, "max_bytes": 2 << 20, "step_factor": 8, "iters": 5, "warmup_iters": 2, "check": True
    }  # fmt: skip
    points = (request.np,) if request.np is not None else None
    training = Training(model="resnet50", warmup=2, windows=2, steps=2)
    return replace(request, sweep=sweep, pair_if_alone=True), replace(
        request, training=training, points=points
    )


def run_smoke(experiment: Experiment, request: Request, show: Callable[[Ended], None]) -> tuple[Ended, ...]:
    """Run both benchmarks, the second only if the first succeeded; show and return the ended runs."""
    from clusterctl.cli.bench.run import measure

    ended: list[Ended] = []
    for one in smoke_requests(request):
        ended.append(measure(experiment, one))
        show(ended[-1])
        if ended[-1].faults:
            break
    return tuple(ended)


def smoke_document(ended: tuple[Ended, ...]) -> dict[str, Any]:
    """Return both results as one document."""
    from clusterctl.documents.bench import Smoke
    from clusterctl.documents.words import Success

    failed = any(one.faults for one in ended)
    results = tuple(one.result.document() for one in ended)
    return Smoke(status=Success.FAILED if failed else Success.OK, results=results).document()
