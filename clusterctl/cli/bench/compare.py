"""``bench --compare`` and ``--repeats``: choose the variants of a run and the number of repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterctl.benchmarks.training import Training
    from clusterctl.launch.variants import Variant

# Three repeats find a difference of 30 % at 2 % noise, five one of 10 %, in 1.7 times the time.
_DEFAULT_REPEATS = 5


def chosen(compare: str | None, repeats: int | None, library: str | None) -> tuple[tuple[Variant, ...], int]:
    """Return the variants (empty: one plain run) and the repeats; raise UsageError for a contradiction."""
    from clusterctl.launch.variants import DEFAULT, Variant, parse_variants

    if compare is None:
        if repeats is None or repeats == 1:
            return (), 1
        return (Variant(DEFAULT),), repeats
    variants = parse_variants(compare, library)
    if library is not None and any(variant.library is not None for variant in variants):
        raise UsageError("--compare and --library both name libraries", hint="leave out --library")
    return variants, repeats or _DEFAULT_REPEATS


def require_trainable(training: Training | None, variants: Sequence[Variant]) -> None:
    """Raise UsageError if the API or the hook of a training does not exist for the library of a variant."""
    from clusterctl.launch import choose

    for variant in variants:
        if variant.library is not None:
            choose.require_trainable(training, variant.library)
