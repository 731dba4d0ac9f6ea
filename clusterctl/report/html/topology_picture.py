"""Draw a node's topology: CPUs, switches, GPUs and cards with their links, and the order of GPUs in a channel.

Each picture is drawn twice, as the charts are: in columns for a wide page, and as an indented tree for a narrow one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from clusterctl.documents.proof import TopologyGroup, TopologyPart
from clusterctl.report.figures import GpuChain, ShownGroup
from clusterctl.report.html.svg import number, tag

_ROW, _BOX = 27, 21
_LINK = 84
"""The length of a line with the text of a PCIe link above it."""
_DOMAIN, _SWITCH, _LEAF, _NVSWITCH = 96, 58, 168, 76
_WIDE, _NARROW = 920, 380
_INDENT = 20
_LANE = 9
"""The distance between the NVLinks of two pairs of GPUs."""


def draw(shown: ShownGroup) -> Markup:
    """Return the two drawings of a group of ``proof.topology``; nothing beyond the largest groups."""
    if shown.group.domains is None:
        return Markup("")
    columns, tree = _Columns(shown.group, shown.unequal), _Tree(shown.group, shown.unequal)
    wide = _svg(columns, f"{shown.name}-wide", shown.title, "wide")
    return wide + _svg(tree, f"{shown.name}-narrow", shown.title, "narrow")


def chain(one: GpuChain) -> Markup:
    """Return the two drawings of a row of GPUs."""
    return Markup("").join(
        _chain(
            [gpu if wide else gpu.removeprefix("GPU ") for gpu in one.gpus], one.is_ring, one.is_linked, wide
        )
        for wide in (True, False)
    )


def _svg(drawing: _Columns | _Tree, name: str, title: str, kind: str) -> Markup:
    parts = [tag("title", f"Topology of {title}", id=f"{name}-title"), *drawing.parts]
    view = f"0 0 {max(_WIDE if kind == 'wide' else _NARROW, drawing.right)} {number(drawing.bottom)}"
    style = f"chart topology {kind}"
    return tag("svg", *parts, class_=style, viewBox=view, role="img", aria_labelledby=f"{name}-title")


def _box(x: float, y: float, width: float, words: str, style: str, height: float = _BOX) -> list[Markup]:
    """Return a box with centred words whose middle is at ``y``."""
    shape = tag("rect", x=x, y=y - height / 2, width=width, height=height, rx=4, class_=f"part {style}")
    return [shape, tag("text", words, x=x + width / 2, y=y + 4.5, text_anchor="middle", class_="name")]


def _words(part: TopologyPart, most: int) -> str:
    """Return what a box says, shortened to ``most`` characters; the tooltip has all of it."""
    words = " ".join(word for word in (part.name or "switch", part.rate) if word)
    return words if len(words) <= most else f"{words[: most - 1]}\u2026"


def _link(part: TopologyPart) -> str:
    return part.degraded or part.link


def _odd(part: TopologyPart, unequal: frozenset[str]) -> str:
    return " odd" if part.degraded or part.name in unequal else ""


def _says(part: TopologyPart) -> Markup:
    words = [part.name or "PCIe switch", part.address, part.link, part.rate, part.degraded]
    return tag("title", ", ".join(word for word in words if word))


@dataclass
class _Columns:
    """One column each for NUMA nodes, levels of switches, GPUs and cards, and NVSwitches."""

    group: TopologyGroup
    unequal: frozenset[str]
    parts: list[Markup] = field(default_factory=list)
    bottom: float = 6
    right: float = 0

    def __post_init__(self) -> None:
        self._gpus: dict[str, float] = {}
        levels = max(
            (_levels(part) for domain in self.group.domains or () for part in domain.below), default=0
        )
        self._leaf = _DOMAIN + _LINK + levels * (_SWITCH + _LINK)
        self.right = self._leaf + _LEAF
        for domain in self.group.domains or ():
            top = self.bottom
            rows = [self._part(part, 0, _DOMAIN) for part in domain.below]
            middle = (rows[0] + rows[-1]) / 2
            self.parts += _box(1, middle, _DOMAIN, domain.name, "domain", self.bottom - top - 6)
            self.bottom += 10
        self._nvlinks()

    def _part(self, part: TopologyPart, level: int, left: float) -> float:
        """Draw a part below the one whose right edge is ``left``; return the height of its middle."""
        switch, odd = part.kind == "switch", _odd(part, self.unequal)
        x = _DOMAIN + _LINK + level * (_SWITCH + _LINK) if switch else self._leaf
        if switch:
            top = self.bottom
            rows = [self._part(one, level + 1, x + _SWITCH) for one in part.below or ()]
            if not rows:
                self.bottom += _ROW
            y = (top + self.bottom) / 2
            height = max(_BOX, self.bottom - top - 6)
            self.parts.append(tag("g", _says(part), *_box(x, y, _SWITCH, "switch", "switch", height)))
            self.bottom += 5
        else:
            y = self.bottom + _ROW / 2
            self.bottom += _ROW
            self.parts.append(tag("g", _says(part), *_box(x, y, _LEAF, _words(part, 21), part.kind + odd)))
            if part.kind == "gpu":
                self._gpus[part.name] = y
        self.parts.append(tag("path", d=f"M{number(left)},{number(y)}H{number(x)}", class_=f"wire{odd}"))
        link = tag("text", _link(part), x=x - 6, y=y - 4, text_anchor="end", class_=f"wire{odd}")
        self.parts.append(link)
        return y

    def _nvlinks(self) -> None:
        edge = self._leaf + _LEAF
        drawn = [one for one in self.group.nvlinks or () if one.gpu in self._gpus]
        bars: dict[str, list[float]] = {}
        lane = 0
        for one in drawn:
            y, says = (
                self._gpus[one.gpu],
                tag("title", f"{one.gpu} to {one.to}: {one.links} NVLinks"),
            )
            if one.to in self._gpus:
                lane += 1
                x, end = edge + 6 + lane * _LANE, self._gpus[one.to]
                path = f"M{edge},{number(y)}H{x}V{number(end)}H{edge}"
                self.parts.append(tag("path", says, d=path, class_=f"nvlink line s{lane % 6 + 1}"))
                self.right = max(self.right, x + 4)
                continue
            bars.setdefault(one.to, []).append(y)
            x = edge + _LINK + 6
            self.parts.append(tag("path", says, d=f"M{edge},{number(y)}H{x}", class_="nvlink line s2"))
            odd = "odd" if f"NVLinks of {one.gpu} to {one.to}" in self.unequal else None
            said = tag("text", f"{one.links} NVLinks", x=x - 6, y=y - 4, text_anchor="end", class_=odd)
            self.parts.append(said)
        for to, rows in bars.items():
            x, height = edge + _LINK + 6, max(rows) - min(rows) + _BOX
            self.parts += _box(x, (max(rows) + min(rows)) / 2, _NVSWITCH, to, "nvswitch", height)
            self.right = max(self.right, x + _NVSWITCH + 2)


@dataclass
class _Tree:
    """One row for each part, indented below the part to which it is attached."""

    group: TopologyGroup
    unequal: frozenset[str]
    parts: list[Markup] = field(default_factory=list)
    bottom: float = 4
    right: float = 0

    def __post_init__(self) -> None:
        self._nvlinks: Counter[str] = Counter()
        for one in self.group.nvlinks or ():
            self._nvlinks.update({one.gpu: one.links, one.to: one.links})
        for domain in self.group.domains or ():
            y = self._row()
            self.parts += _box(1, y, _DOMAIN, domain.name, "domain")
            self._below(domain.below, 1, y)

    def _row(self) -> float:
        self.bottom += _ROW
        return self.bottom - _ROW / 2

    def _below(self, parts: Sequence[TopologyPart], level: int, above: float) -> None:
        stem = level * _INDENT - _INDENT / 2
        for part in parts:
            y, x, odd = self._row(), level * _INDENT, _odd(part, self.unequal)
            self.parts.append(
                tag(
                    "path",
                    d=f"M{number(stem)},{number(above + _BOX / 2)}V{number(y)}H{x}",
                    class_=f"wire{odd}",
                )
            )
            width = _SWITCH if part.kind == "switch" else 146
            self.parts.append(tag("g", _says(part), *_box(x, y, width, _words(part, 18), part.kind + odd)))
            count = self._nvlinks[part.name]
            nvlinks = f"{count} NVLinks" if count else ""
            said = ", ".join(word for word in (_link(part), nvlinks) if word)
            self.parts.append(tag("text", said, x=x + width + 6, y=y + 4.5, class_=f"wire{odd}"))
            self._below(part.below or (), level + 1, y)


def _levels(part: TopologyPart) -> int:
    return 1 + max(map(_levels, (part.below or ())), default=0) if part.kind == "switch" else 0


def _chain(names: Sequence[str], ring: bool, linked: bool, wide: bool) -> Markup:
    width, gap = (52, 18) if wide else (22, 7)
    in_row = (_WIDE if wide else _NARROW) // (width + gap)
    parts: list[Markup] = []
    for index, (x, y) in enumerate(_places(len(names), in_row, width + gap)):
        parts += _box(x, y, width, names[index], "gpu")
        if linked and index % in_row:
            parts.append(tag("path", d=f"M{number(x - gap)},{number(y)}h{gap}", class_="wire"))
    rows = -(-len(names) // in_row)
    last = (min(len(names), in_row) - 1) * (width + gap) + width
    if ring and rows == 1 and len(names) > 1:
        parts.append(
            tag("path", d=f"M{number(last - width / 2)},{_BOX + 3}v7H{number(width / 2)}v-7", class_="wire")
        )
    height = rows * _ROW + (8 if ring else 0)
    view = f"0 0 {_WIDE if wide else _NARROW} {height}"
    return tag("svg", *parts, class_=f"chart topology chain {'wide' if wide else 'narrow'}", viewBox=view, role="img",
               aria_label=", ".join(names))  # fmt: skip


def _places(count: int, in_row: int, step: float) -> Iterator[tuple[float, float]]:
    return ((index % in_row * step + 1, index // in_row * _ROW + _BOX / 2 + 1) for index in range(count))
