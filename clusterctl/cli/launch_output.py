"""Print planned launches: the command, and the files that it needs on the launching node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clusterctl.text.user_files import size_text
from clusterctl.text.visible import one_line
from clusterctl.text.wording import counted

if TYPE_CHECKING:
    from clusterctl.launch.base import LaunchPlan

# clusterctl's own programs: only their names are printed.
_PROGRAMS = (".py", ".sh")
_MOST_BROUGHT = 20


def text(launches: Sequence[LaunchPlan]) -> str:
    """Return shell text: the command of each launch, and its files as comments."""
    from clusterctl.artifacts import shell

    lines: list[str] = []
    for plan in launches:
        placed = ", ".join(f"{p.node} x{p.ranks}" for p in plan.placements)
        lines += [f"# {counted(plan.np, 'rank')}: {placed}", shell.line(plan.argv)]
        for name, data in plan.files.items():
            lines.append(f"# {plan.directory}/{name}" + (" (part of clusterctl)" if _program(name) else ":"))
            if not _program(name):
                lines += [f"#   {line}" for line in data.decode().splitlines()]
    return "\n".join(lines)


def brought_text(files: Mapping[str, int]) -> str:
    """Return shell comments with the first files that every node gets, and their number and size."""
    lines = [
        f"# --bring copies {counted(len(files), 'file')}, {size_text(sum(files.values()))}, to every node:"
    ]
    lines += [f"#   {one_line(name, 200)}" for name in list(files)[:_MOST_BROUGHT]]
    if len(files) > _MOST_BROUGHT:
        lines.append(f"#   and {len(files) - _MOST_BROUGHT} more; --json lists all of them")
    return "\n".join(lines)


def documents(launches: Sequence[LaunchPlan]) -> list[dict[str, Any]]:
    """Return each launch as in launch.json, with its command as a line, and its files."""
    from clusterctl.artifacts import shell
    from clusterctl.launch.launched import planned

    return [
        {
            **planned(plan),
            "line": shell.line(plan.argv),
            "files": {
                f"{plan.directory}/{name}": None if _program(name) else data.decode()
                for name, data in plan.files.items()
            },
        }
        for plan in launches
    ]


def _program(name: str) -> bool:
    return name.endswith(_PROGRAMS)
