"""Record what a terminal shows as SVG images for the documents, from fixed facts and results.

As a program, ``terminal_screens.py DIR`` writes all screens into a directory (``make screens``).
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import bench_views
from result_documents import collective, training
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from sample_fleet import sample_fleet

from clusterctl.cli.terminal import color
from clusterctl.report.text import of_view
from clusterctl.report.view import View

COLUMNS = 120
INVENTORY = "inventory.yaml"
# The eight colours of a terminal, chosen so that each has a contrast of 4.5 or more on the background.
_THEME = TerminalTheme(
    (22, 25, 29),
    (214, 219, 225),
    [
        *((54, 61, 70), (255, 123, 107), (95, 214, 164), (240, 203, 108)),
        *((100, 181, 246), (220, 157, 224), (86, 204, 214), (214, 219, 225)),
    ],
)
_FRAME = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>TITLE</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>
{lines}
</defs>
<rect fill="#16191d" x="0" y="0" width="{width}" height="{height}" rx="8"/>
<g transform="translate(9, 9)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def check(columns: int = COLUMNS) -> str:
    """Return ``clusterctl check`` of eight GPU nodes."""
    from clusterctl.cli.check.output import view
    from clusterctl.views.next_step import Way, after_check

    judged = sample_fleet(8)
    following = list(after_check(judged.verdicts, Way((INVENTORY,))))
    return _typed(f"clusterctl check {INVENTORY}") + _painted(
        view(judged, following, for_page=False), columns
    )


def requirement(columns: int = COLUMNS) -> str:
    """Return ``clusterctl requirements show`` of one requirement."""
    from clusterctl.report.requirements_document import document_of
    from clusterctl.views import requirements

    view = requirements.pages(document_of(["peermem"])["requirements"])
    return _typed("clusterctl requirements show peermem") + _painted(view, columns)


def plan(columns: int = COLUMNS) -> str:
    """Return the plan of ``clusterctl bootstrap --dry-run`` for some requirements of four nodes."""
    from clusterctl.apply.plan.build import build
    from clusterctl.apply.plan.file_diff import Present
    from clusterctl.apply.plan.model import Plan
    from clusterctl.report.view import View
    from clusterctl.views import plan as view_of_plan

    judged = sample_fleet(7, only=("docker", "memlock"))
    planned = Plan(tuple(build(name, decided) for name, decided in judged.verdicts.values_by_node.items()))
    absent = {
        node.node: {path: Present(False) for one in node.steps if (path := getattr(one.step, "path", None))}
        for node in planned.nodes
    }
    nodes = view_of_plan.changes_of(planned, absent)
    shown = View("", (*view_of_plan.blocks(nodes), view_of_plan.end(nodes)))
    words = f"clusterctl bootstrap {INVENTORY} --only docker,memlock --dry-run"
    return _typed(words) + _painted(shown, columns)


def bench(_columns: int = COLUMNS) -> str:
    """Return ``clusterctl bench`` of a collective, as four H200 measured it."""
    words = "clusterctl bench --collective all_reduce -np 4 -b 1K -e 1G -f 4"
    return _typed(words) + _painted(bench_views.view(collective()), None)


def comparison(columns: int = COLUMNS) -> str:
    """Return ``clusterctl runs compare`` of two trainings, the second of which is slower across nodes."""

    def of_nodes(np: int, per_rank: float) -> list[float]:
        return [per_rank + 2.0 * (rank % 5 - 2) for rank in range(np)]

    before = training([of_nodes(8, 2585.0), of_nodes(16, 2561.0), of_nodes(32, 2540.0)])
    after = training(
        [of_nodes(8, 2584.0), of_nodes(16, 2410.0), of_nodes(32, 2310.0)], run="20261124T093000Z-bench-cafe"
    )
    view = bench_views.comparison_view(before, after)
    return _typed("clusterctl runs compare beef cafe") + _painted(view, columns)


SCREENS: dict[str, Callable[[int], str]] = {
    "check": check,
    "requirement": requirement,
    "plan": plan,
    "bench": bench,
    "comparison": comparison,
}


def _painted(view: View, columns: int | None) -> str:
    return "\n".join(map(color.painted, of_view.lines(view, columns)))


def _typed(command: str) -> str:
    return f"\x1b[32m$\x1b[0m {command}\n"


def svg(name: str, columns: int = COLUMNS) -> str:
    """Return a screen as SVG, which is the same on every machine and loads no fonts."""
    console = Console(
        file=io.StringIO(),
        record=True,
        width=columns,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
    )
    for line in SCREENS[name](columns).splitlines():
        shown = Text.from_ansi(line)
        # A terminal continues a long line at its left edge.
        for part in shown.divide(range(columns, len(shown), columns)):
            console.print(part, overflow="ignore", no_wrap=True, crop=False, highlight=False)
    frame = _FRAME.replace("TITLE", f"clusterctl: {name}")
    made = console.export_svg(theme=_THEME, code_format=frame, unique_id=f"screen-{name}")
    # rich leaves room for the title bar of a window.
    height = re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', made)[0]
    made = made.replace(height, f"{float(height) - 30:g}", 2)
    return re.sub(r"[ \t]+$", "", made, flags=re.MULTILINE)


def main(folder: Path) -> None:
    """Write all screens."""
    for name in SCREENS:
        (folder / f"{name}.svg").write_text(svg(name), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
