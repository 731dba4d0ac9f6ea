"""Turn the options of ``bench`` into a request; reject contradictions before a node is contacted."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from clusterctl.cli.option_groups import given
from clusterctl.cli.options import require_seconds
from clusterctl.errors import UsageError
from clusterctl.text.closest import did_you_mean

if TYPE_CHECKING:
    from clusterctl.benchmarks.training import Training
    from clusterctl.cli.bench.options import Iterations, Ranks, SizeOptions, TrainingOptions, What
    from clusterctl.launch.request import Request

TIMEOUT_S = 600.0
PRECISIONS = ("fp32", "tf32", "amp-bf16", "amp-fp16")
_APIS = ("ddp", "horovod")
_HOOKS = ("none", "fp16", "topk")
# DDP and collective_core take any size; a typing error should not become a bucket of terabytes.
_MOST_MIB = 1 << 20
_LEAST_MIB = 0.1
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# K, KB and KiB are the same, as in nccl-tests, whose K is 1024 bytes.
_SIZE = re.compile(r"(?P<number>[0-9]{1,18}(?:\.[0-9]{1,6})?) ?(?P<unit>[KMG]?)(?:I?B)?", re.IGNORECASE)
_MOST_DIGITS = 18
"""Python's int() rejects texts of more than 4300 digits."""


def parse_size(text: str) -> int:
    """Return the bytes in ``8``, ``64K``, ``64KiB`` or ``1.5 MB`` (powers of 1024); raise UsageError otherwise."""
    found = _SIZE.fullmatch(text.strip())
    size = Decimal(found["number"]) * _UNITS[found["unit"].upper()] if found else Decimal(0)
    if size < 1 or size != int(size):
        raise UsageError(
            f"{text[:60]!r} is not a size", hint="give bytes, or 64K, 1MB, 2GiB (powers of 1024)"
        )
    return int(size)


def parse_points(text: str) -> tuple[int, ...]:
    """Return the numbers of ranks in a text such as ``1,2,4``, ascending; raise UsageError otherwise."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and len(word) <= _MOST_DIGITS and int(word) > 0 for word in words):
        raise UsageError(
            f"--scaling {text[:60]!r} is not a list of ranks", hint="for example --scaling 1,2,4"
        )
    return tuple(sorted({int(word) for word in words}))


def requests_of(
    what: What,
    ranks: Ranks,
    sizes: SizeOptions,
    iterations: Iterations,
    training: TrainingOptions,
    *,
    allow_slow_path: bool = False,
) -> tuple[Request, ...]:
    """Check the options against each other, before anything is read or contacted; return a request for each sweep."""
    from clusterctl.benchmarks.model_names import MODELS
    from clusterctl.cli.bench import sweeps
    from clusterctl.launch import choose
    from clusterctl.text.closest import spelled

    if what.collective is not None and what.model is not None:
        raise UsageError(
            "--collective and --model cannot be combined", hint="run the two benchmarks one after the other"
        )
    _require_in_place(what, ranks, sizes, training)
    request = request_of_ranks(ranks, TIMEOUT_S, allow_slow_path=allow_slow_path)
    trained = None
    if what.model is not None:
        trained = _training(spelled(what.model, MODELS), iterations, training)
        if request.library is not None:
            choose.require_trainable(trained, request.library)
    request = replace(request, training=trained, sweep=_sweep(sizes, iterations))
    return sweeps.requests(request, what.collective, sizes.datatype, sizes.op)


def request_of_ranks(ranks: Ranks, timeout_s: float, *, allow_slow_path: bool) -> Request:
    """Return a request for these ranks that does not say yet what they run; ``timeout_s`` is the default."""
    from clusterctl.launch import choose
    from clusterctl.launch.request import Request

    timeout_s = timeout_s if ranks.timeout_s is None else ranks.timeout_s
    require_seconds(timeout_s)
    if ranks.scaling is not None and ranks.np is not None:
        raise UsageError("--scaling and -np both set the numbers of ranks", hint="leave out -np")
    return Request(
        training=None,
        sweep={},
        np=ranks.np,
        points=parse_points(ranks.scaling) if ranks.scaling is not None else None,
        library=choose.known_library(ranks.library) if ranks.library is not None else None,
        launcher=choose.known_launcher(ranks.launcher) if ranks.launcher is not None else None,
        map_by=choose.known_mapping(ranks.map_by) if ranks.map_by is not None else None,
        timeout_s=timeout_s,
        oversubscribe=ranks.oversubscribe,
        allow_slow_path=allow_slow_path,
    )


def _require_in_place(what: What, ranks: Ranks, sizes: SizeOptions, training: TrainingOptions) -> None:
    """Raise UsageError for options of a training without --model, and for those of a collective with it."""
    if what.model is None:
        misplaced = [*(["--scaling"] if ranks.scaling is not None else ()), *given(training)]
    else:
        misplaced = given(sizes)
    if misplaced:
        needed = "--model" if what.model is None else "--collective"
        raise UsageError(
            f"{', '.join(misplaced)} requires {needed}",
            hint=f"add {needed}, or leave {', '.join(misplaced)} out",
        )


def _sweep(sizes: SizeOptions, iterations: Iterations) -> dict[str, Any]:
    """Return the fields of a sweep that were given."""
    sweep: dict[str, Any] = {
        "min_bytes": parse_size(sizes.min_bytes) if sizes.min_bytes is not None else None,
        "max_bytes": parse_size(sizes.max_bytes) if sizes.max_bytes is not None else None,
        "step_factor": sizes.step_factor,
        "iters": iterations.iters,
        "warmup_iters": iterations.warmup,
        "gpus": sizes.gpus_per_process,
    }
    if sizes.min_bytes and sizes.max_bytes and sweep["min_bytes"] > sweep["max_bytes"]:
        raise UsageError(
            f"--min-bytes ({sizes.min_bytes}) is larger than --max-bytes ({sizes.max_bytes})",
            hint="swap them",
        )
    return {name: value for name, value in sweep.items() if value is not None}


def _training(model: str, iterations: Iterations, asked: TrainingOptions) -> Training:
    from clusterctl.benchmarks.model_names import require_model
    from clusterctl.benchmarks.training import Training

    require_model(model, phase=asked.phase, channels_last=asked.channels_last, image_size=asked.image_size)
    if asked.learning_rate is not None and not 0 <= asked.learning_rate < math.inf:
        raise UsageError(
            f"--learning-rate must be a positive number, not {asked.learning_rate:g}",
            hint="give a number above 0",
        )
    if asked.precision is not None and asked.precision not in PRECISIONS:
        raise UsageError(
            f"unknown precision {asked.precision!r}", hint=f"choose from: {', '.join(PRECISIONS)}"
        )
    return Training(
        model=model, batch_size=asked.batch_size, image_size=asked.image_size, warmup=iterations.warmup,
        windows=asked.windows, steps=iterations.iters, precision=asked.precision or "fp32",
        default_precision=asked.precision is None, channels_last=asked.channels_last,
        learning_rate=asked.learning_rate, compile=asked.compiled, phase=asked.phase,
        **_data_parallel(asked.api, asked.hook, asked.bucket_cap_mb, compiled=asked.compiled),
    )  # fmt: skip


def _data_parallel(
    api: str | None, hook: str | None, bucket_cap_mb: str | None, *, compiled: bool
) -> dict[str, Any]:
    """Return the fields of a training; raise UsageError for an invalid value, and for contradictions."""
    chosen = api or "ddp"
    if chosen not in _APIS:
        raise UsageError(f"unknown API {chosen[:60]!r}", hint=did_you_mean(chosen, _APIS))
    kind, equals, ratio = (hook or "none").partition("=")
    if kind not in _HOOKS or (equals and kind != "topk"):
        raise UsageError(
            f"--hook {(hook or '')[:60]!r} is not a valid hook",
            hint="choose none, fp16, topk, or topk=RATIO such as topk=0.01",
        )
    found: dict[str, Any] = {"api": chosen, "hook": kind}
    if equals:
        found["top_k_ratio"] = _number("the RATIO of --hook topk=RATIO", ratio, 0.0, 1.0)
    if bucket_cap_mb == "auto":
        _require_tunable(chosen, kind, compiled=compiled)
        found["tune_buckets"] = True
    elif bucket_cap_mb is not None:
        found["bucket_cap_mb"] = _number("--bucket-cap-mb", bucket_cap_mb, _LEAST_MIB, _MOST_MIB)
    return found


def _number(flag: str, text: str, least: float, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= most or number < least:
        expected = f"from {least:g} to {most:.0f}" if least else f"above 0 and at most {most:.0f}"
        raise UsageError(
            f"{flag} must be a number {expected}, not {text[:60]!r}",
            hint="for example --hook topk=0.01, --bucket-cap-mb 25 or --bucket-cap-mb auto",
        )
    return number


def _require_tunable(api: str, hook: str, *, compiled: bool) -> None:
    if api != "ddp":
        raise UsageError(
            "--bucket-cap-mb auto requires --api ddp: DistributedOptimizer fixes its buckets when it starts",
            hint="give a size, such as --bucket-cap-mb 25, or compare several: "
            "--compare HOROVOD_FUSION_THRESHOLD=0,HOROVOD_FUSION_THRESHOLD=26214400",
        )
    if compiled:
        raise UsageError(
            "--bucket-cap-mb auto and --compile cannot be combined: each size would be compiled again",
            hint="give a size, such as --bucket-cap-mb 25, or leave out --compile",
        )
