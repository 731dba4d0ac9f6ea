"""The views of ``requirements``: a list of all, and a page of each, from a ``clusterctl.requirements/1`` document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clusterctl.report.line import Tone
from clusterctl.report.view import Block, Cell, Head, Item, Table, View

_NO_HEADS = (Head("", words=True), Head("", words=True))


def listing(requirements: Sequence[Mapping[str, Any]]) -> View:
    """Return one row per requirement: its name and when it is met."""
    heads = (Head("requirement", words=True), Head("met when", words=True))
    rows = tuple((Cell(one["name"], Tone.HEAD), Cell(one["checks"])) for one in requirements)
    return View("", (Block("", tables=(Table(heads, rows),)),))


def pages(requirements: Sequence[Mapping[str, Any]]) -> View:
    """Return everything about each requirement, in labelled paragraphs."""
    return View("", tuple(map(_page, requirements)))


def _page(one: Mapping[str, Any]) -> Block:
    inventory = [
        *(line for setting in one["settings"] for line in _setting(setting)),
        f"requirements.skip: [{one['name']}] leaves this requirement out",
    ]
    pairs = (
        ("met when", one["checks"]),
        *((label, one[label]) for label in ("why", "bootstrap", "undo")),
        *(("" if number else "inventory", line) for number, line in enumerate(inventory)),
        ("page", one["page"]),
    )
    rows = tuple((Cell(f"  {label:9}", Tone.NAME), Cell(text)) for label, text in pairs)
    title = Item(Tone.HEAD, f"{one['name']}: {one['title']}")
    return Block("", items=(title,), tables=(Table(_NO_HEADS, rows),), apart=True)


def _setting(setting: Mapping[str, Any]) -> Iterator[str]:
    default = f" (default {setting['default']})" if setting["default"] else ""
    yield f"{setting['key']}: {setting['values']}{default}"
    yield f"  {setting['meaning']}"
