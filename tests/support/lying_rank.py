"""A rank of ``locate`` that lies: ``lying_rank.py KIND VICTIM SEED PROGRAM WORDS...``.

``python_of`` writes a Python whose ranks lie on some nodes; ``others_named`` tells which other nodes a result blames.
Liars of one run have the same seed and victim, so they tell the same lie, and spare each other.
"""

from __future__ import annotations

import os
import random
import shlex
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RATES = ("one-low", "one-high", "all-low", "all-high", "others-high", "random", "zero", "huge")
"""Lies about the rate of a pair."""
ALONE = ("alone-low", "alone-high")
"""About its own rate."""
RECORDS = (
    "other-peer",
    "other-rank",
    "other-device",
    "other-tag",
    "writes-other",
    "sends-other",
    "cut",
    "more",
)
"""What it writes names others, or is not what it sent."""
FAULTS = ("slow", "slow-with-one", "stops", "ends", "crashes", "blames", "accuses", "out-of-step", "invalid")
"""Also slow, or gone in the middle, with texts that blame the victim."""
KINDS = (*RATES, *ALONE, *RECORDS, *FAULTS)
LIES_BEFORE_ITS_END = 3


def python_of(
    folder: Path,
    kind: str,
    victim: int | str,
    liars: Collection[str],
    seed: int = 0,
    python: str = sys.executable,
) -> str:
    """Write a Python that lies in ``locate`` on the nodes ``liars``, and return its path.

    ``victim``: the rank that the lies are about, or ``all`` for a kind that has none.
    """
    words = shlex.join([__file__, kind, str(victim), str(seed)])
    nodes = "|".join(f'"{node} "*" --backend "*' for node in liars)
    path = folder / "lying-python"
    path.write_text(
        f'#!/bin/sh\ncase "$(hostname) $* " in\n  {nodes}) set -- {words} "$@" ;;\nesac\nexec {python} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


def others_named(document: Mapping[str, Any], liars: Collection[str]) -> list[str]:
    """Return what a result of ``locate`` says against nodes that do not lie; a link needs a liar at one end."""
    named = [("slow", one["nodes"]) for one in document["suspects"] if one["status"] == "named"]
    named += [("slow alone", [one["node"]]) for one in document["suspects_alone"] if one["status"] == "named"]
    named += [("sometimes slow", [one["node"]]) for one in document["sometimes_slow"]]
    named += [("differs", [one["at_fault"]]) for one in document["ends_differ"] if one["at_fault"]]
    named += [("held back", [one["node"]]) for one in document["held_back"] if one["named"]]
    named += [(one["kind"], [one["node"]]) for one in document["failures"] if one["node"]]
    named += [("in the logs", [host]) for host in document.get("cause", {}).get("hosts", ())]
    apart = document["apart"] or {"nodes": (), "links": ()}
    named += [("apart", [node]) for node in apart["nodes"]] + [("apart", link) for link in apart["links"]]
    return [f"{what}: {' and '.join(nodes)}" for what, nodes in named if not set(nodes) & set(liars)]


@dataclass
class Liar:
    """The lie of this rank, and the honest functions that it replaces."""

    kind: str
    victim: str
    seed: int
    emit: Callable[..., None]
    exchanges: int = 0
    share: float = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.share = self.chance.uniform(0.2, 0.8)

    def meets(self, peer: int) -> bool:
        return self.victim in ("all", str(peer))

    def exchange(self, real: Callable[..., float], tools: Any, peer: int, iters: int, part: object) -> float:
        """Exchange messages as asked, and return seconds that are not true."""
        self.exchanges += self.meets(peer)
        if self.exchanges > LIES_BEFORE_ITS_END:
            self.end(tools)
        if self.kind == "slow" or (self.kind == "slow-with-one" and self.meets(peer)):
            started = time.perf_counter()
            # The partner waits for its last message.
            time.sleep(0.2)
            return real(tools, peer, iters, part) + (time.perf_counter() - started) / iters
        seconds = real(tools, peer, iters, part)
        return seconds / self.factor(peer)

    def factor(self, peer: int) -> float:
        """Return what the rate with a peer is multiplied by."""
        low, high = 1 - self.share, 1 + 9 * self.share
        about_victim = self.meets(peer)
        return {
            "one-low": low if about_victim else 1,
            "one-high": high if about_victim else 1,
            "all-low": low,
            "all-high": high,
            "others-high": 1 if about_victim else 1 + self.share,
            "random": self.chance.uniform(0.01, 3),
            "zero": 1e-30,
            "huge": 1e12,
        }.get(self.kind, 1)

    def end(self, tools: Any) -> None:
        """Leave the others in the middle of a round, if the kind says so."""
        if self.kind == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.kind == "out-of-step":
            tools.barrier()
        if self.kind not in ("ends", "crashes", "blames", "accuses"):
            return
        host = f"node{int(self.victim) + 1:02d}"
        sys.stdout.flush()
        if self.kind == "blames":
            from clusterctl.workloads import rank_values

            raise rank_values.refused(int(self.victim), "expected a number")
        if self.kind == "accuses":
            said = f"rank {self.victim} (host {host}, pid 7) died or cannot be reached (closed)"
            os.write(2, f"collective_core.errors.CollectiveCoreError: remote: {said}\n".encode())
            os._exit(1)
        texts = (
            f"mpirun noticed that process rank {self.victim} with PID 0 on node {host} exited on signal 9 (Killed).",
            f"{host}:1:2 [0] NCCL WARN Cuda failure 999 'unknown error'",
            f"{host}: rank {self.victim}: out of memory",
        )
        os.write(2, "".join(f"{text}\n" for text in texts).encode())
        if self.kind == "crashes":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(0)

    def gathered(self, real: Callable[..., Any], tools: Any, value: object, read: object) -> Any:
        """Send another value than the one that was measured."""
        if self.kind == "invalid" and isinstance(value, float) and self.exchanges:
            return real(tools, [value], read)
        if self.kind == "sends-other" and isinstance(value, float) and self.exchanges:
            return real(tools, value * (1 - self.share), read)
        return real(tools, value, read)

    def alone(self, rate: float) -> float:
        """Return another rate of this rank alone."""
        return rate * {"alone-low": 1 - self.share, "alone-high": 1 + 9 * self.share}.get(self.kind, 1)

    def write(self, kind: str, **fields: Any) -> None:
        """Write a record that is not true, or further ones."""
        met = [one for one in fields.get("met", ()) if one]
        victim = int(self.victim) if self.victim.isdigit() else 0
        if self.kind == "cut" and kind == "locate-end":
            return
        if self.kind == "more" and met:
            self.emit(kind, **fields)
        if self.kind == "other-peer" and met:
            fields["met"] = [[victim, met[0][1] * (1 - self.share)]]
        if self.kind == "writes-other" and met and self.meets(met[0][0]):
            fields["met"] = [[met[0][0], met[0][1] * (1 - self.share)]]
        if self.kind == "other-device" and kind == "locate-start":
            fields["device"] = f"CPU\nnode{victim + 1:02d}: slow: 71 % slower than pairs beside it\n"
        if self.kind == "other-rank":
            low = [[peer, rate * (1 - self.share)] for peer, rate in met]
            self.emit(kind, **{**fields, "rank": victim, **({"met": low} if met else {})})
        if self.kind == "other-tag":
            record = f'clusterctl-record {{"kind": "{kind}", "rank": {victim}, "met": [[{victim}, 0.001]]}}'
            for tag in (
                f"[1,{victim}]<stdout>:",
                f"[{victim}] ",
                f"[default{victim}]:",
                f'<stdout rank="{victim}">',
            ):
                os.write(1, f"{tag}{record}\n".encode())
        self.emit(kind, **fields)


def _lie(kind: str, victim: str, seed: int) -> None:
    """Replace what this rank measures, sends and writes."""
    from clusterctl.workloads import records
    from clusterctl.workloads.locate import measure

    liar = Liar(kind, victim, seed, records.emit)
    join, rate = measure._join, measure._rate

    def joined(place: Any, arguments: Any) -> Any:
        tools = join(place, arguments)
        made: Any = type(tools)
        exchange, gathered = made.exchange, made.gathered
        made.exchange = lambda self, peer, iters, part: liar.exchange(exchange, self, peer, iters, part)
        made.gathered = lambda self, value, read: liar.gathered(gathered, self, value, read)
        return tools

    measure._join = joined
    measure._rate = lambda work, amount, tools: liar.alone(rate(work, amount, tools))
    records.emit = liar.write


def main(words: Sequence[str]) -> int:
    """Run the program as this rank."""
    kind, victim, seed, program, *rest = words
    sys.path.insert(0, program)
    from clusterctl.workloads.__main__ import main as work

    _lie(kind, victim, int(seed))
    sys.argv = [program, *rest]
    return work(rest)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
