"""Make the pages about performance, and their picture, from benchmarks/claims.txt (``make docs``)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = ROOT / "benchmarks" / "claims.txt"
DOCS = ROOT / "docs"
MISSED = "**missed**"
_TIMES = re.compile(r"(\d+(?:\.\d+)?)x")


@dataclass(frozen=True)
class Front:
    """A claim as the first page shows it. ``result`` is a ratio such as 2.5x, or a value with its unit."""

    what: str
    against: str
    result: str

    @property
    def times(self) -> float | None:
        """How many times as fast as the other tool, if the result is a ratio."""
        found = _TIMES.fullmatch(self.result)
        return float(found[1]) if found else None


@dataclass(frozen=True)
class Claim:
    """One line of the data. ``goal`` and ``measured`` are texts, ``date`` has the form 2026-11-29."""

    group: str
    claim: str
    goal: str
    measured: str
    date: str
    script: str
    front: tuple[Front, ...] = ()


def claims(text: str) -> list[Claim]:
    """Parse the data; raise ValueError with the number of the line and what was expected there."""
    found: list[Claim] = []
    group = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("> "):
            cells = line[2:].split(" | ")
            if len(cells) != 3 or not found:
                raise ValueError(f"line {number}: expected '> what | against | result' below a claim: {line}")
            last = found.pop()
            found.append(replace(last, front=(*last.front, Front(*cells))))
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].startswith("**") and not any(cells[1:]):
            group = cells[0]
        elif len(cells) == 5 and group:
            claim, goal, measured, date, script = cells
            found.append(Claim(group, claim, goal, measured, date, script))
        else:
            raise ValueError(f"line {number}: expected a group, then claims with five cells: {line}")
    return found


def _table(heads: tuple[str, ...], marks: str, rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield marks
    for row in rows:
        yield f"| {' | '.join(row)} |"


def first_page(found: list[Claim]) -> str:
    """Return docs/performance.md."""
    rows = [
        (
            front.what,
            front.against,
            front.result + (f" {MISSED}" if MISSED in claim.measured else ""),
            claim.date,
        )
        for claim in found
        for front in claim.front
    ]
    missed = sum(MISSED in claim.measured for claim in found)
    lines = (
        "# Performance",
        "",
        "How clusterctl and `collective_core` compare with the tools that they replace. A ratio of 2x means",
        "twice as fast; both sides of a ratio were measured in the same run.",
        "",
        "![How many times as fast as other tools, as the table below lists it](performance.svg)",
        "",
        *_table(("what", "against", "result", "measured"), "|---|---|--:|---|", rows),
        "",
        f"A result is marked {MISSED} if its claim missed its goal, here or on another machine.",
        f"[All {len(found)} claims](performance-claims.md) have their goals, dates and scripts; {missed} of them",
        "missed a goal, and stay in the list. The [log](performance-log.md) has the history, the machines,",
        "the details, and what was tried without success.",
        "",
        "## How the figures were taken",
        "",
        "Unless stated otherwise, a machine has 2 cores and 24 GiB, with Debian 12 and Python 3.11. Nodes are",
        "real sshd processes on loopback addresses of this machine, so nodes and controller share the two",
        "cores.",
        "",
        "`make bench` runs the scripts that need no GPU. To take new figures, run a script on an idle machine,",
        "change its line in `benchmarks/claims.txt`, run `make docs`, and add an entry to the log.",
        "",
    )  # fmt: skip
    return "\n".join(lines)


def all_claims(found: list[Claim]) -> str:
    """Return docs/performance-claims.md."""
    lines = [
        "# Performance: all claims",
        "",
        "Each claim with its goal, its newest measurement, the date of that, and the script under",
        "`benchmarks/` that measures it. This page is made from `benchmarks/claims.txt` by `make docs`.",
        "[Performance](performance.md) has the ten that matter most to who chooses a tool.",
        "",
        "| claim | goal | measured | date | script |",
        "|---|--:|--:|---|---|",
    ]
    group = ""
    for one in found:
        if one.group != group:
            group = one.group
            lines.append(f"| {group} | | | | |")
        lines.append(f"| {one.claim} | {one.goal} | {one.measured} | {one.date} | {one.script} |")
    return "\n".join([*lines, ""])


def picture(found: list[Claim]) -> str:
    """Return docs/performance.svg: a bar for each ratio of the first page, on a logarithmic scale from 0.5 to 100."""
    bars = [(front, front.times) for claim in found for front in claim.front if front.times is not None]
    left, width, row = 420, 400, 46
    height = row * len(bars) + 40
    font = 'font-family="sans-serif" font-size="13"'

    def at(times: float) -> float:
        return left + width * math.log(times / 0.5) / math.log(200)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 70} {height}" role="img" {font}>',
        "<title>How many times as fast as other tools</title>",
        f'<rect width="{left + width + 70}" height="{height}" fill="#ffffff"/>',
    ]
    for tick in (1, 2, 5, 10, 20, 50, 100):
        color = "#444444" if tick == 1 else "#dddddd"
        lines.append(f'<path d="M{at(tick):.1f} 8V{height - 28}" stroke="{color}"/>')
        lines.append(f'<text x="{at(tick):.1f}" y="{height - 10}" text-anchor="middle">{tick}x</text>')
    for number, (front, times) in enumerate(bars):
        top = 12 + number * row
        begin, end = sorted((at(1), at(times)))
        color = "#2a7f62" if times >= 1 else "#b3452c"
        what, against = (escape(text.replace("`", "")) for text in (front.what, f"against {front.against}"))
        lines.append(f'<text x="{left + 20}" y="{top + 15}" text-anchor="end">{what}</text>')
        lines.append(
            f'<text x="{left + 20}" y="{top + 31}" text-anchor="end" fill="#555555" font-size="11">{against}</text>'
        )
        lines.append(
            f'<rect x="{begin:.1f}" y="{top + 6}" width="{max(end - begin, 1):.1f}" height="22" fill="{color}"/>'
        )
        lines.append(f'<text x="{end + 6:.1f}" y="{top + 22}">{front.result}</text>')
    return "\n".join([*lines, "</svg>", ""])


def pages() -> dict[Path, str]:
    """Return every file that is made, with its text."""
    found = claims(DATA.read_text(encoding="utf-8"))
    return {
        DOCS / "performance.md": first_page(found),
        DOCS / "performance-claims.md": all_claims(found),
        DOCS / "performance.svg": picture(found),
    }


if __name__ == "__main__":
    for _path, _text in pages().items():
        _path.write_text(_text, encoding="utf-8")
