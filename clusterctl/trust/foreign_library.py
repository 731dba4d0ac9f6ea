"""Judge whether ranks used a library of others: its file in every process, one sha256, and its own words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.trust.usage import RankUsage


@dataclass(frozen=True, slots=True)
class VendorProof:
    """Hold what must prove a library: its title, the words with which it reports its use, and words that deny it.

    ``says`` None: the vendor documents no such words. ``denies``: each with the reason.
    """

    title: str
    says: str | None = None
    denies: tuple[tuple[str, str], ...] = ()


def unproven(
    wanted: VendorProof, np: int, usage: Sequence[RankUsage], texts: Sequence[Mapping[int, str]]
) -> tuple[Fault, ...]:
    """Return the first reason for which the ranks did not use the library; ``texts``: their output by rank."""
    for check in (_denied(wanted, texts), _mapped(wanted, np, usage), _said(wanted, texts)):
        found = next(check, None)
        if found is not None:
            return (found,)
    return ()


def _fault(message: str, hint: str, rank: int | None = None) -> Fault:
    return Fault(FaultKind.LIBRARY_UNPROVEN, message, rank=rank, hint=hint)


def _denied(wanted: VendorProof, texts: Sequence[Mapping[int, str]]) -> Iterator[Fault]:
    for words, reason in wanted.denies:
        for by_rank in texts:
            for rank in sorted(rank for rank, text in by_rank.items() if words in text):
                line = next(line for line in by_rank[rank].splitlines() if words in line)
                yield _fault(
                    f"rank {rank}: {wanted.title} is loaded, but {reason}; it printed: {line.strip()[-200:]}",
                    "the figures would be those of another library: fix the reason, or choose --library nccl",
                    rank,
                )


def _mapped(wanted: VendorProof, np: int, usage: Sequence[RankUsage]) -> Iterator[Fault]:
    by_rank = {one.rank: one.files for one in usage}
    without = [rank for rank in range(np) if not by_rank.get(rank)]
    if without:
        yield _fault(
            f"rank {without[0]} has no file of {wanted.title} mapped, or did not report it",
            "check that `python` of the inventory has the library, and that nothing in `env` replaces it (LD_PRELOAD, "
            "LD_LIBRARY_PATH, PYTHONPATH)",
            without[0],
        )
    first = by_rank.get(0, ())
    for rank, files in sorted(by_rank.items()):
        if {one.sha256 for one in files} != {one.sha256 for one in first}:
            yield _fault(
                f"rank {rank} has another build of {wanted.title} than rank 0: {_listed(files)}, not {_listed(first)}",
                "install the same file on all nodes",
                rank,
            )


def _said(wanted: VendorProof, texts: Sequence[Mapping[int, str]]) -> Iterator[Fault]:
    words = wanted.says
    if words is None or any(words in text for by_rank in texts for text in by_rank.values()):
        return
    yield _fault(
        f"{wanted.title} is loaded, but no rank printed the words by which it reports its use: {words}",
        "remove NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE from `env` of the inventory",
    )


def _listed(files: Sequence[object]) -> str:
    return ", ".join(map(str, files)) or "none"
