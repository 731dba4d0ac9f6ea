"""The proof of a result, as lines of text below its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clusterctl.documents.evidence import GpuDirectNode, RankPath, SlowPart
from clusterctl.documents.proof import (
    BaselineVerdict,
    Expected,
    GpuDirect,
    Proof,
    SlowRank,
    UsageProof,
    VariantProof,
)
from clusterctl.report.line import Tone
from clusterctl.report.text import health, topology
from clusterctl.report.text.baseline import not_judged_lines
from clusterctl.report.text.table import size
from clusterctl.report.view import Item
from clusterctl.text.grouping import grouped
from clusterctl.text.typed_inventory import filled

_BASELINE_TONES = {"ok": Tone.GOOD, "below-baseline": Tone.BAD}


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def expected(entry: Expected) -> list[str]:
    """Return the line on the expected bandwidth (``proof.expected``)."""
    if entry.expected_busbw_gbps is None:
        return [f"expected busbw: unknown ({entry.reason})"]
    bound = f"expected busbw: {entry.expected_busbw_gbps:.0f} GB/s ({entry.formula})"
    if entry.verdict == "impossible":
        return [f"{bound}; IMPOSSIBLE: {entry.reason}"]
    if entry.verdict == "unknown":
        return [f"{bound}; {entry.reason}"]
    measured = f"measured {entry.busbw_gbps:.0f} GB/s, {_share(entry.share)}"
    words = {"fine": "fine", "warn": "lower than expected", "slow": "SLOW"}
    return [f"{bound}; {measured}: {words[entry.verdict]}"]


def gpudirect(entry: GpuDirect) -> list[str]:
    """Return the lines on GPUDirect RDMA (``proof.gpudirect``): one if all nodes agree, else one per node."""
    said = [(node.name, _words(node)) for node in entry.nodes]
    if len({words for _, words in said}) == 1:
        return [f"GPUDirect RDMA: {said[0][1]}, on all {len(said)} nodes"]
    return ["GPUDirect RDMA:", *(f"  {name}: {words}" for name, words in said)]


_NAMES = {
    "no-gpudirect": "NOT USED", "sockets": "SOCKETS", "too-far": "off", "unsupported": "none", "no-rdma": "none",
}  # fmt: skip


def _words(node: GpuDirectNode) -> str:
    ways = ", ".join(dict.fromkeys([*node.send, *node.receive]))
    said = _NAMES.get(node.status, node.status) + (f" ({ways})" if ways else "")
    return said + (f": {node.cause}" if node.cause else "")


def stragglers(entry: Mapping[str, Sequence[SlowRank]]) -> list[str]:
    """Return one line per rank that is slower than its peers (``proof.stragglers``)."""
    return [
        f"straggler with {np} ranks: rank {slow.rank} on {slow.host or '?'}, "
        f"{_share(slow.loss)} below the median of all ranks"
        for np, listed in entry.items()
        for slow in listed
    ]


def baseline(entry: BaselineVerdict) -> list[str]:
    """Return the lines on the comparison with a baseline (``proof.baseline``)."""
    judged, of = entry.judged, entry.figures
    some = f"{judged} of {of} figures judged" if of and judged != of and entry.verdict != "no-match" else ""
    reason = "; ".join(text for text in (some, entry.reason) if text)
    return [
        f"baseline {entry.name}: {entry.verdict}{f' ({reason})' if reason else ''}",
        *(
            f"  {'' if row.size_bytes is None else size(row.size_bytes) + ', '}{row.np} ranks: "
            f"{row.value:.2f} {row.unit}, {_share(row.loss)} below {row.baseline:.2f} "
            f"(allowed {_share(row.allowed)})"
            for row in entry.below
        ),
        *(f"  {line}" for line in not_judged_lines(entry)),
        *([f"  hint: {entry.hint}"] if entry.hint else []),
    ]


def paths(entry: Sequence[RankPath]) -> list[str]:
    """Return one line for the ranks of each path (``proof.paths``), with the calls in front of NCCL."""
    ranks = grouped((_path(path), path.rank) for path in entry)
    if not ranks:
        return [
            "collective_core took no call (its NCCL-symbol library did not report): the figures are NCCL's alone"
        ]
    return [f"path of rank {_folded(numbers)}: {said}" for said, numbers in ranks.items()]


def _folded(numbers: Sequence[int]) -> str:
    """Return ranks as text: ``0-3``, or ``0, 2``."""
    first, last = numbers[0], numbers[-1]
    unbroken = list(numbers) == list(range(first, last + 1))
    return f"{first}-{last}" if unbroken and last > first else ", ".join(map(str, numbers))


def _path(entry: RankPath) -> str:
    if not entry.taken and not entry.passed:
        return str(entry.path)
    taken, passed = sum(entry.taken.values()), sum(entry.passed.values())
    calls = f"collective_core took {taken} calls, NCCL {passed}"
    if not taken:
        return f"collective_core took no call ({entry.why or 'of these'}): the figures are NCCL's alone"
    chosen = _chosen(entry.chosen)
    return f"{entry.path}; {calls}" + (f"; tuned: {chosen}" if chosen else "")


def _chosen(choices: Mapping[str, str]) -> str:
    """Return the tuner's choices as text, with one entry for neighbouring sizes: ``all_reduce 2^10-2^14 packets``."""
    runs: list[tuple[str, int, int, str]] = []
    keys = ((key.partition(" 2^")[0], int(key.partition(" 2^")[2]), by) for key, by in choices.items())
    for collective, power, by in sorted(keys):
        if runs and runs[-1][0] == collective and runs[-1][2:] == (power - 1, by):
            runs[-1] = (collective, runs[-1][1], power, by)
        else:
            runs.append((collective, power, power, by))
    return ", ".join(
        f"{collective} 2^{first}{f'-2^{last}' if last > first else ''} {by}"
        for collective, first, last, by in runs
    )


def usage(entry: UsageProof) -> list[str]:
    """Return the lines on a variant's proven settings (``proof.usage``)."""
    found = [f"settings in effect: {name} ({by})" for name, by in entry.proven.items()]
    if calls := entry.mechanisms.get("fp16"):
        found.append(f"hook fp16: {calls} calls on each rank")
    if other := entry.same_algorithms_as:
        found.append(
            f"note: the algorithms are those of {other} at every size, so these settings changed none"
        )
    return found


def algorithms(proof: VariantProof) -> list[str]:
    """Return the line on collective_core's algorithms with their sizes: ``algorithms: all_reduce oneshot 1K-64K``."""
    sizes: dict[tuple[str, str], list[int]] = {}
    for one in proof.usage.algorithms if proof.usage else ():
        if one.size_bytes:  # a barrier carries no data
            sizes.setdefault((one.operation, one.algorithm), []).append(one.size_bytes)
    said = ", ".join(
        " ".join(filter(None, (operation, algorithm, size(min(found)))))
        + (f"-{size(max(found))}" if len(set(found)) > 1 else "")
        for (operation, algorithm), found in sizes.items()
    )
    return [f"algorithms: {said}"] if said else []


def slow(entry: Sequence[SlowPart]) -> list[str]:
    """Return a line for each node or link that pairs confirmed as slow (``proof.slow``), and what to do."""
    told = []
    for one in entry:
        who = f"link {' - '.join(one.nodes)}" if len(one.nodes) == 2 else one.nodes[0]
        where = f" rail {one.place}" + (f" ({one.interface})" if one.interface else "")
        told.append(
            f"DOUBTFUL: {who}{where if one.place or one.interface else ''} is {_share(1 - one.ratio)} slower "
            f"than pairs beside it (chance {one.chance:.1g}), and all ranks wait for it"
        )
    return [*told, filled("  hint: clusterctl locate INVENTORY measures why", "")]


def neighbours(proof: Proof, stragglers: Mapping[str, Sequence[SlowRank]] | None) -> list[str]:
    """Return the line on the pairs that a run measured to find a slow rank (``proof.neighbours``), and the result."""
    measured = proof.neighbours
    if measured is None or not measured.ranks:
        return []
    rates = [one.gbps for one in measured.ranks]
    pairs = "pairs of neighbours" + (" and of nodes" if proof.slow is not None else "")
    found = list(
        dict.fromkeys(f"rank {one.rank}" for listed in (stragglers or {}).values() for one in listed)
    )
    found += [" - ".join(one.nodes) for one in proof.slow or ()]
    said = f"slow: {', '.join(found)}" if found else "no rank is slow"
    return [f"{pairs}: {said} ({min(rates):.3g} to {max(rates):.3g} GB/s at {size(measured.size_bytes)})"]


def refused(entry: str) -> list[str]:
    """Return the line on a variant that is not compared (``proof.refused``)."""
    return [entry]


def sharing(entry: str) -> list[str]:
    """Return the line on ranks that share a GPU (``proof.sharing``)."""
    return [f"ranks per GPU: {entry}; these figures are not those of as many GPUs"]


_PARTS: dict[str, Callable[[Any], list[str]]] = {
    "refused": refused, "usage": usage, "paths": paths, "sharing": sharing, "expected": expected,
    "gpudirect": gpudirect, "slow": slow, "stragglers": stragglers, "health": health.lines, "topology": topology.lines,
    "baseline": baseline,
}  # fmt: skip


def lines(*proofs: Proof | VariantProof) -> list[str]:
    """Return all lines of the proofs of a run and of a variant, but for ``algorithms``."""
    return [one.said for one in items(*proofs)]


def items(*proofs: Proof | VariantProof) -> list[Item]:
    """Return the same lines with their tones."""
    entries = ((name, render, getattr(one, name, None)) for name, render in _PARTS.items() for one in proofs)
    return [
        Item(_tone(name, entry), line)
        for name, render, entry in entries
        if entry is not None
        for line in render(entry)
    ]


def _tone(name: str, entry: object) -> Tone:
    """Return how one part of a proof is to be seen."""
    if isinstance(entry, Expected):
        return Tone.BAD if entry.verdict in ("slow", "impossible") else Tone.PLAIN
    if isinstance(entry, BaselineVerdict):
        return _BASELINE_TONES.get(entry.verdict, Tone.OPEN)
    return Tone.BAD if name == "stragglers" else Tone.PLAIN
