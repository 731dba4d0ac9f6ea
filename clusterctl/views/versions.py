"""The table of versions: software, its version in the image, and on the hosts."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.documents.evidence import SoftwareVersions, VersionOnNodes
from clusterctl.documents.kinds import Compatibility
from clusterctl.inventory import nodeset
from clusterctl.report.line import Tone
from clusterctl.report.view import Block, Cell, Head, Item, Table

_SAID = {Compatibility.REFUSED: "does not fit", Compatibility.UNKNOWN: "may not fit"}
_TONES = {Compatibility.REFUSED: Tone.BAD, Compatibility.UNKNOWN: Tone.OPEN}
_LONGEST = 100


def misfits(found: SoftwareVersions) -> tuple[str, ...]:
    """Return a line for each thing that does not fit, or may not."""
    return tuple(f"{_SAID[one.judgement]}: {one.what}: {one.reason}" for one in found.unfit)


def block(found: SoftwareVersions) -> Block:
    """Return the table with a column for the image, if ranks run in one, and what does not fit below it."""
    with_image = any(row.image for row in found.rows)
    rows = [row for row in found.rows if any(one.version for one in (*row.image, *row.host))]
    heads = [Head("version of", words=True), *([Head("image", words=True)] if with_image else [])]
    table = Table(
        (*heads, Head("host", words=True)),
        tuple(
            tuple(map(Cell, (row.name, *([_cell(row.image)] if with_image else []), _cell(row.host))))
            for row in rows
        ),
        style="plain",
    )
    items = tuple(
        Item(_TONES[one.judgement], said) for one, said in zip(found.unfit, misfits(found), strict=True)
    )
    return Block("Versions", tables=(table,) if rows else (), items=items)


def _cell(versions: Sequence[VersionOnNodes]) -> str:
    if len(versions) == 1:
        return _shown(versions[0])
    return ", ".join(f"{_shown(one)} ({nodeset.fold(one.nodes)})" for one in versions) or "-"


def _shown(one: VersionOnNodes) -> str:
    return (one.version or "-")[:_LONGEST]
