"""Measure variants interleaved (A B A B ...), so that changes on the machines over time affect all variants."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from clusterctl.benchmarks.base import Fault
from clusterctl.launch import failure
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.measure import Measurement
from clusterctl.launch.measured import Interleaved, Measured, PartlyMeasured, Repeated
from clusterctl.launch.request import Request
from clusterctl.launch.run import Runner
from clusterctl.launch.variants import Variant
from clusterctl.launch.viewer import Turn, spoken


def request_of(request: Request, variant: Variant, variants: Sequence[Variant]) -> Request:
    """Return the request of one variant among others."""
    return replace(
        request,
        library=variant.library or request.library,
        environment=variant.environment,
        same_program=len({one.library for one in variants}) > 1,
        proving=any(one.environment for one in variants),
    )


def once(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that passes each text to ``say`` the first time, for notes that every measurement repeats."""
    told: set[str] = set()

    def say_new(text: str) -> None:
        if text not in told:
            told.add(text)
            say(text)

    return say_new


def interleave(
    request: Request,
    variants: Sequence[Variant],
    repeats: int,
    runner: Runner,
    logs: Path,
    say: Callable[[str], None],
    starting: Callable[[Mapping[str, str | int], LaunchPlan], None] = lambda *_: None,
) -> Interleaved:
    """Measure every variant ``repeats`` times, interleaved; each launch has its own directory of logs.

    ``starting`` is called before each launch, with its variant and its repeat. Raise PartlyMeasured if a person
    interrupts it after something was measured.
    """
    found: list[list[Measured]] = [[] for _ in variants]
    noting = once(say)
    faults: tuple[Fault, ...] = ()
    for number in range(1, repeats + 1):
        for index, variant in enumerate(variants):
            where = Turn(variant.name, index + 1, len(variants), number, repeats)
            folder = logs / f"{index + 1}-{re.sub(r'[^A-Za-z0-9._=-]', '_', variant.name)[:60]}" / str(number)
            names: dict[str, str | int] = {"variant": variant.name, "repeat": number}
            asked = request_of(request, variant, variants)
            measuring = Measurement(
                asked, runner, folder, noting, starting=partial(starting, names), turn=where
            )
            try:
                measured = measuring.run()
            except KeyboardInterrupt as error:
                if isinstance(error, PartlyMeasured) and isinstance(error.measured, Measured):
                    found[index].append(error.measured)
                if not found[0]:
                    raise
                faults = (failure.interrupted(spoken(where)),)
                raise PartlyMeasured(_interleaved(request, variants, found, repeats, faults)) from None
            found[index].append(measured)
            if measured.faults:
                faults = tuple(replace(f, message=f"{spoken(where)}: {f.message}") for f in measured.faults)
                break
        if faults:
            break
    return _interleaved(request, variants, found, repeats, faults)


def _interleaved(
    request: Request,
    variants: Sequence[Variant],
    found: Sequence[Sequence[Measured]],
    repeats: int,
    faults: tuple[Fault, ...],
) -> Interleaved:
    runs = tuple(Repeated(v, tuple(measured)) for v, measured in zip(variants, found, strict=True))
    return Interleaved(request, runs, repeats, faults)
