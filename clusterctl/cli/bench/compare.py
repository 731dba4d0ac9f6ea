"""``bench --compare`` and ``--repeats``: choose the variants of a run and the number of repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from clusterctl.launch.variants import Variant

_DEFAULT_REPEATS = 3

CompareOption = Annotated[
    Optional[str],  # noqa: UP045 - typer evaluates this at run time on 3.10
    typer.Option(
        "--compare",
        metavar="A,B,..",
        help="Interleaved variants: nccl,ccore or gdr=0,gdr=2 or NAME=VALUE; + joins settings.",
    ),
]
RepeatsOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--repeats",
        min=1,
        help="Number of repeats, interleaved.",
        show_default="1, with --compare 3",
    ),
]


def chosen(compare: str | None, repeats: int | None, library: str | None) -> tuple[tuple[Variant, ...], int]:
    """Return the variants (empty: one plain run) and the repeats; raise UsageError for a contradiction."""
    from clusterctl.launch.variants import Variant, parse_variants

    if compare is None:
        if repeats is None or repeats == 1:
            return (), 1
        return (Variant("default"),), repeats
    variants = parse_variants(compare)
    if library is not None and any(variant.library is not None for variant in variants):
        raise UsageError("--compare and --library both name libraries", hint="leave out --library")
    return variants, repeats or _DEFAULT_REPEATS
