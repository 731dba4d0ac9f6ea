"""Turn the options of ``bench`` into a request; reject contradictions before a node is contacted."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from clusterctl.cli.options import require_seconds
from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from clusterctl.launch.request import Request

TIMEOUT_S = 600.0
PRECISIONS = ("fp32", "tf32", "amp-bf16", "amp-fp16")
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


def build_request(
    *,
    collective: str | None = None,
    model: str | None = None,
    np: int | None = None,
    scaling: str | None = None,
    library: str | None = None,
    launcher: str | None = None,
    gpus_per_process: int | None = None,
    map_by: str | None = None,
    oversubscribe: bool = False,
    timeout_s: float = TIMEOUT_S,
    min_bytes: str | None = None,
    max_bytes: str | None = None,
    step_factor: int | None = None,
    datatype: str | None = None,
    op: str | None = None,
    iters: int | None = None,
    warmup: int | None = None,
    windows: int | None = None,
    batch_size: int | None = None,
    image_size: int | None = None,
    precision: str | None = None,
    channels_last: bool = False,
    learning_rate: float | None = None,
    allow_slow_path: bool = False,
    compiled: bool = False,
    api: str | None = None,
    hook: str | None = None,
    bucket_cap_mb: str | None = None,
    phase: int | None = None,
) -> tuple[Request, ...]:
    """Check the options against each other, before anything is read or contacted; return a request for each sweep."""
    from clusterctl.benchmarks.model_names import MODELS, require_model
    from clusterctl.benchmarks.training import Training
    from clusterctl.cli.bench import data_parallel, sweeps
    from clusterctl.closest import spelled
    from clusterctl.launch import choose
    from clusterctl.launch.request import Request

    require_seconds(timeout_s)
    if learning_rate is not None and not 0 <= learning_rate < math.inf:
        raise UsageError(
            f"--learning-rate must be a positive number, not {learning_rate:g}", hint="give a number above 0"
        )
    if collective is not None and model is not None:
        raise UsageError(
            "--collective and --model cannot be combined", hint="run the two benchmarks one after the other"
        )
    if model is not None:
        model = spelled(model, MODELS)
        require_model(model, phase=phase, channels_last=channels_last, image_size=image_size)
    if precision is not None and precision not in PRECISIONS:
        raise UsageError(f"unknown precision {precision!r}", hint=f"choose from: {', '.join(PRECISIONS)}")
    if scaling is not None and np is not None:
        raise UsageError("--scaling and -np both set the numbers of ranks", hint="leave out -np")
    of_training = {
        "--scaling": scaling, "--windows": windows, "--batch-size": batch_size, "--image-size": image_size,
        "--learning-rate": learning_rate, "--precision": precision, "--channels-last": channels_last or None,
        "--compile": compiled or None, "--api": api, "--hook": hook, "--bucket-cap-mb": bucket_cap_mb,
        "--phase": phase,
    }  # fmt: skip
    of_collective = {
        "--min-bytes": min_bytes, "--max-bytes": max_bytes, "--step-factor": step_factor, "--datatype": datatype,
        "--op": op, "-g": gpus_per_process,
    }  # fmt: skip
    foreign = of_training if model is None else of_collective
    misplaced = [flag for flag, value in foreign.items() if value is not None]
    if misplaced:
        what = "--model" if model is None else "--collective"
        raise UsageError(
            f"{', '.join(misplaced)} requires {what}", hint=f"add {what}, or leave {', '.join(misplaced)} out"
        )
    sweep: dict[str, Any] = {
        "min_bytes": parse_size(min_bytes) if min_bytes is not None else None,
        "max_bytes": parse_size(max_bytes) if max_bytes is not None else None,
        "step_factor": step_factor,
        "iters": iters,
        "warmup_iters": warmup,
        "gpus": gpus_per_process,
    }
    if min_bytes and max_bytes and sweep["min_bytes"] > sweep["max_bytes"]:
        raise UsageError(
            f"--min-bytes ({min_bytes}) is larger than --max-bytes ({max_bytes})", hint="swap them"
        )
    training = None
    if model is not None:
        training = Training(
            model=model, batch_size=batch_size, image_size=image_size, warmup=warmup, windows=windows,
            steps=iters, precision=precision or "fp32", default_precision=precision is None,
            channels_last=channels_last, learning_rate=learning_rate, compile=compiled, phase=phase,
            **data_parallel.settings(api, hook, bucket_cap_mb, compiled=compiled),
        )  # fmt: skip
    known = choose.known_library(library) if library is not None else None
    if known is not None:
        choose.require_trainable(training, known)
    request = Request(
        training=training,
        sweep={name: value for name, value in sweep.items() if value is not None},
        np=np,
        points=parse_points(scaling) if scaling is not None else None,
        library=known,
        launcher=choose.known_launcher(launcher) if launcher is not None else None,
        map_by=choose.known_mapping(map_by) if map_by is not None else None,
        timeout_s=timeout_s,
        oversubscribe=oversubscribe,
        allow_slow_path=allow_slow_path,
    )
    return sweeps.requests(request, collective, datatype, op)
