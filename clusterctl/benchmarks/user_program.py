"""Define a program of the user as a benchmark: its words, its name, and the rate that it prints."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.training import RankRate, TrainingRun
from clusterctl.documents.kinds import SampleUnit
from clusterctl.inventory.model import ContainerSettings
from clusterctl.text.foreign import NotUnderstood, decimal
from clusterctl.text.secret.scrub import scrubbed
from clusterctl.text.visible import one_line

HOROVOD = r"Total img/sec on (?P<ranks>[0-9]{1,9}) \S{1,20}: (?P<image>[0-9.]{1,30})(?: \+-(?P<spread>[0-9.]{1,30}))?"
"""The line in which Horovod's synthetic benchmarks print the rate of all ranks."""
UNITS: tuple[SampleUnit, ...] = get_args(SampleUnit)
_MOST = 1e18
_LONGEST_NAME = 60
_INTERPRETERS = re.compile(r"python[0-9.]{0,8}|bash|sh|dash|perl|ruby|julia")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RateLine:
    """Say in which lines a program prints its rate: a regular expression with one group, or that of Horovod.

    A group with the name of a unit (``image``, ``sequence``, ``token``) says what is counted. ``per_rank``: each rank
    prints its own rate, and the rates add up.
    """

    pattern: str = HOROVOD
    per_rank: bool = False

    @property
    def is_given(self) -> bool:
        """Tell whether the user gave the pattern, so that a program without such a line is a failure."""
        return self.pattern != HOROVOD


@dataclass(frozen=True, slots=True)
class UserProgram:
    """Hold a program, its arguments, its rate, and the files that it needs.

    ``directory`` is where clusterctl runs; ``brought`` is a tar file of a directory that ranks shall run in. With a
    ``container``, Slurm starts the ranks in its image.
    """

    words: tuple[str, ...]
    rate: RateLine = RateLine()
    directory: str = ""
    brought: bytes | None = field(default=None, repr=False)
    container: ContainerSettings | None = None

    @property
    def line(self) -> str:
        """Return the command as one line, without secrets, and the image in which it runs."""
        image = "" if self.container is None else f"  # in {self.container.image}"
        return scrubbed(shlex.join(self.words)) + image

    @property
    def start(self) -> tuple[str, str | None]:
        """Return the program that starts, and the script that it interprets, if it is one that clusterctl knows."""
        words = list(self.words)
        while words[1:] and (_base(words[0]) == "env" or _ASSIGNMENT.fullmatch(words[0])):
            if words[1].startswith("-"):
                break
            words.pop(0)
        program, *rest = words
        if not _INTERPRETERS.fullmatch(_base(program)) or not rest:
            return program, None
        # An option may have a value: then nothing is known about the word after it.
        return program, rest[0] if not rest[0].startswith("-") else None

    @property
    def name(self) -> str:
        """Return the name of the program for people: that of its script, or of its module."""
        program, script = self.start
        at = self.words.index(program)
        module = self.words[at + 2 : at + 3] if self.words[at + 1 : at + 2] == ("-m",) else ()
        named = one_line(_base(script or (module[0] if module else program)), _LONGEST_NAME)
        return named.strip() or "program"

    def run_of(self, matches: Mapping[int, Mapping[str, str]], np: int) -> TrainingRun:
        """Return the rates in the last matching line of each rank; no rate and no fault if none was expected.

        The rate of all ranks is the one that rank 0 prints, or else the only rank that prints one.
        """
        settings = {"program": self.line}
        faults: list[Fault] = []
        if self.rate.per_rank:
            rates = [rate for rank, found in sorted(matches.items()) if (rate := _rate(rank, found, faults))]
            absent = [rank for rank in range(np) if rank not in matches]
            if absent and not faults:
                faults.append(_unread(f"rank {absent[0]} printed no rate", absent[0]))
            return TrainingRun((), tuple(rates), settings | _unit(matches), (), tuple(faults))
        if not matches:
            if self.rate.is_given:
                faults.append(
                    _unread(f"no rank printed a line that matches --rate {self.rate.pattern!r:.80}")
                )
            return TrainingRun((), (), settings, (), tuple(faults))
        if 0 not in matches and len(matches) > 1:
            faults.append(_unread(f"ranks {_listed(matches)} printed a rate, and rank 0 did not"))
            return TrainingRun((), (), settings, (), tuple(faults))
        rank = min(matches)
        found = matches[rank]
        rate = _rate(rank, found, faults)
        if (counted := found.get("ranks")) is not None and counted != str(np):
            faults.append(
                Fault(
                    FaultKind.FEWER_RANKS,
                    f"rank {rank} reports a rate of {counted} ranks, but {np} were started",
                    rank=rank,
                    hint="the processes did not find each other: check that the program was built for this launcher",
                )
            )
        return TrainingRun(
            (), (), settings | _unit(matches), (), tuple(faults),
            total=(rate.samples_per_s, rate.spread) if rate and not faults else None,
        )  # fmt: skip

    def notes(self, matches: Mapping[int, Mapping[str, str]]) -> tuple[str, ...]:
        """Return a note if other ranks printed rates that do not count."""
        others = [rank for rank in matches if rank != min(matches)]
        if self.rate.per_rank or not others or 0 not in matches:
            return ()
        who = f"rank{'s' if len(others) > 1 else ''} {_listed(others)}"
        hint = "--rate-per-rank adds up those of all ranks"
        return (f"{who} printed a rate, too: that of rank 0 counts for all ranks; {hint}",)


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _unit(matches: Mapping[int, Mapping[str, str]]) -> dict[str, str]:
    groups = matches[min(matches)] if matches else {}
    return {"sample": next((unit for unit in UNITS if unit in groups), "sample")}


def _rate(rank: int, found: Mapping[str, str], faults: list[Fault]) -> RankRate | None:
    """Return the rate in a rank's line; add a fault if it is not a positive number."""
    text = next((found[unit] for unit in UNITS if unit in found), "")
    try:
        value = decimal(text.replace(",", ""))
        spread = decimal(found["spread"]) if "spread" in found else 0.0
    except NotUnderstood:
        value, spread = -1.0, 0.0
    if not (0 < value <= _MOST and math.isfinite(spread)):
        faults.append(_unread(f"rank {rank} printed {text[:60]!r}, which is not a rate above 0", rank))
        return None
    return RankRate(rank, value, spread, None, None)


def _unread(message: str, rank: int | None = None) -> Fault:
    return Fault(
        FaultKind.UNPARSABLE,
        message,
        rank=rank,
        hint="compare --rate with the ranks' logs in the run folder",
    )


def _listed(ranks: Sequence[int] | Mapping[int, object]) -> str:
    found = sorted(ranks)
    return ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")
