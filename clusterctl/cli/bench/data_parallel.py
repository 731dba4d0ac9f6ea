"""``bench --api``, ``--hook`` and ``--bucket-cap-mb``: how ranks train one model together."""

from __future__ import annotations

from typing import Any

from clusterctl.errors import UsageError
from clusterctl.text.closest import did_you_mean

_APIS = ("ddp", "horovod")
_HOOKS = ("none", "fp16", "topk")
# DDP and collective_core take any size; a typing error should not become a bucket of terabytes.
_MOST_MIB = 1 << 20
_LEAST_MIB = 0.1


def settings(
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
