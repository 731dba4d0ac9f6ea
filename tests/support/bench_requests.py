"""Requests of ``bench`` from options by the names of their fields, whatever group they are in."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from clusterctl.cli.bench.options import Iterations, Ranks, SizeOptions, TrainingOptions, What
from clusterctl.cli.bench.request import requests_of

if TYPE_CHECKING:
    from clusterctl.launch.request import Request

GROUPS = (What, Ranks, SizeOptions, Iterations, TrainingOptions)


def bench_requests(**options: Any) -> tuple[Request, ...]:
    """Return what the command line with these options requests; raise UsageError as it does."""
    groups = [
        kind(**{one.name: options.pop(one.name) for one in fields(kind) if one.name in options})
        for kind in GROUPS
    ]
    assert not options
    return requests_of(*groups)  # type: ignore[arg-type]
