"""The requirements in words: a list of all, and a page of one, from a ``clusterctl.requirements/1`` document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clusterctl.report.text.wrapping import below

_LABEL = 11
_NARROWEST = 40


def list_text(requirements: Sequence[Mapping[str, Any]], width: int | None = None) -> str:
    """Return one row per requirement: its name and when it is met; rows wrap at ``width``."""
    size = max(len(one["name"]) for one in requirements) + 2
    rows = [("requirement", "met when"), *((one["name"], one["checks"]) for one in requirements)]
    return "\n".join(line for name, checks in rows for line in _below(name.ljust(size), checks, size, width))


def show_text(requirement: Mapping[str, Any], width: int | None = None) -> str:
    """Return everything about one requirement, in labelled paragraphs."""
    pairs = (
        ("met when", requirement["checks"]),
        ("why", requirement["why"]),
        ("bootstrap", requirement["bootstrap"]),
        ("undo", requirement["undo"]),
    )
    lines = list(_below(f"{requirement['name']}: ", requirement["title"], 2, width))
    for label, text in pairs:
        lines += _below(f"  {label.ljust(_LABEL)}", text, _LABEL + 2, width)
    skip = f"requirements.skip: [{requirement['name']}] leaves this requirement out"
    inventory = [line for one in requirement["settings"] for line in _setting(one, width)]
    inventory += _below("", skip, 0, None if width is None else width - _LABEL - 2)
    for number, line in enumerate(inventory):
        lines.append(f"  {('' if number else 'inventory').ljust(_LABEL)}{line}")
    lines.append(f"  {'page'.ljust(_LABEL)}{requirement['page']}")
    return "\n".join(lines)


def _setting(setting: Mapping[str, Any], width: int | None) -> Iterator[str]:
    default = f" (default {setting['default']})" if setting["default"] else ""
    inner = None if width is None else width - _LABEL - 2
    yield from _below("", f"{setting['key']}: {setting['values']}{default}", 0, inner)
    yield from _below("  ", setting["meaning"], 2, inner)


def _below(start: str, text: str, indent: int, width: int | None) -> Iterator[str]:
    if width is None:
        yield f"{start}{text}"
        return
    yield from below(start, text, indent, max(width, indent + _NARROWEST))
