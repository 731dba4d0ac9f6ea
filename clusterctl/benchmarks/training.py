"""Define the training benchmark: the workload's argv, and the parser of its ranks' records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, get_args

from clusterctl.benchmarks.base import Fault, FaultKind, RankProof
from clusterctl.documents.kinds import SampleUnit
from clusterctl.text.foreign import NotUnderstood, json_value, lines
from clusterctl.text.visible import one_line_texts
from clusterctl.workloads.records import MARK

Api = Literal["ddp", "horovod"]
"""How ranks train one model: torch's DistributedDataParallel, or Horovod's DistributedOptimizer."""
Hook = Literal["none", "fp16", "topk"]
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Training:
    """Hold one training run; the workload chooses sizes that are not set, depending on the device."""

    model: str = "resnet50"
    backend: str | None = None
    batch_size: int | None = None
    image_size: int | None = None
    warmup: int | None = None
    windows: int | None = None
    steps: int | None = None
    precision: str = "fp32"
    default_precision: bool = False
    """Whether the command line leaves the precision to clusterctl."""
    channels_last: bool = False
    compile: bool = False
    api: Api = "ddp"
    hook: Hook = "none"
    """How the command line wants gradients compressed; variables of the library may also ask for top-k."""
    top_k_ratio: float | None = None
    """The share of the elements that the hook topk sends; None: the library's default."""
    bucket_cap_mb: float | None = None
    """The size of the gradient buckets; with ``tune_buckets`` it is measured."""
    tune_buckets: bool = False
    phase: int | None = None
    learning_rate: float | None = None
    timeout_s: float = 600.0

    @property
    def name(self) -> str:
        return self.model

    def argv(self, program: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command of one rank."""
        chosen = {
            "--backend": self.backend,
            "--batch-size": self.batch_size,
            "--image-size": self.image_size,
            "--warmup": self.warmup,
            "--windows": self.windows,
            "--steps": self.steps,
            "--learning-rate": self.learning_rate,
            "--bucket-cap-mb": "auto" if self.tune_buckets else self.bucket_cap_mb,
            "--phase": self.phase,
        }
        options = [word for flag, value in chosen.items() if value is not None for word in (flag, str(value))]
        return (
            *program,
            "--model", self.model,
            "--precision", self.precision,
            *(("--channels-last",) if self.channels_last else ()),
            *(("--compile",) if self.compile else ()),
            *(("--api", self.api) if self.api != "ddp" else ()),
            *(("--hook", self.hook) if self.hook == "fp16" else ()),
            "--timeout-s", f"{self.timeout_s:g}",
            *options,
        )  # fmt: skip

    def variables(self) -> dict[str, str]:
        """Return the variables of the library that some options set, by the names that LightCC and Horovod document."""
        found = {"LIGHT_TOPK_ALLREDUCE": "1"} if self.hook == "topk" else {}
        if self.top_k_ratio is not None:
            found["LIGHT_TOPK_RATIO"] = f"{self.top_k_ratio:g}"
        if self.api == "horovod" and self.bucket_cap_mb is not None:
            found["HOROVOD_FUSION_THRESHOLD"] = str(int(self.bucket_cap_mb * _MIB))
        return found

    def mechanisms(self) -> tuple[str, ...]:
        """Return what every rank must report as used, by the names of the workload's counts."""
        return (
            *(("fp16",) if self.hook == "fp16" else ()),
            *(("bucket_tuning",) if self.tune_buckets else ()),
        )

    def parse(self, stdout_by_rank: Mapping[int, str]) -> TrainingRun:
        """Parse the ranks' records; faults found in them are part of the result."""
        return parse(stdout_by_rank)


@dataclass(frozen=True, slots=True)
class RankRate:
    """Hold one rank's samples/s (mean over its windows, and 1.96 sigma), and its first and last loss or None."""

    rank: int
    samples_per_s: float
    spread: float
    loss_first: float | None
    loss_last: float | None


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Hold the results of one training run; ``settings`` are those that rank 0 used."""

    ranks: tuple[RankProof, ...]
    rates: tuple[RankRate, ...]
    settings: dict[str, Any]
    libraries: tuple[str, ...]
    faults: tuple[Fault, ...]
    paths: tuple[tuple[int, str], ...] = ()
    """How collective_core moved the CUDA tensors of each rank, if it did."""
    usage: tuple[tuple[int, object], ...] = ()
    """What each rank reported to have used, as it was written."""
    losses: tuple[float, ...] = ()
    """The loss at the end of each window, the mean of all ranks; empty if a rank did not report all of them."""
    communication: float | None = None
    """The share of a step that goes when no gradients are exchanged; None: not measured."""
    total: tuple[float, float] | None = None
    """The throughput of all ranks and its 1.96 sigma, if one rank reports them for all."""

    @property
    def samples_per_s(self) -> float:
        """Return the throughput of all ranks together."""
        return self.total[0] if self.total else sum(rate.samples_per_s for rate in self.rates)

    @property
    def loss_first(self) -> float | None:
        """Return the loss of the first step, the mean of all ranks, which have different samples."""
        return _mean([rate.loss_first for rate in self.rates])

    @property
    def loss(self) -> float | None:
        """Return the loss of the last step, the mean of all ranks."""
        return _mean([rate.loss_last for rate in self.rates])

    @property
    def sample(self) -> SampleUnit:
        """Return the unit of the throughput."""
        return next((unit for unit in get_args(SampleUnit) if unit == self.settings.get("sample")), "image")


def _mean(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return fmean(found) if found else None


_MOST = 1e18
"""Upper limit of the figures of a training, so that the sum over all ranks stays finite."""
_FIGURES = ("samples_per_s_mean", "samples_per_s_spread", "loss_first", "loss_last")
_SETTINGS = (
    *("model", "sample", "parameters", "device", "precision", "channels_last", "batch_size"),
    *("image_size", "phase", "sequence_length", "predictions", "optimizer", "data"),
    *(
        "compile",
        "api",
        "hook",
        "bucket_cap_mb",
        "tuned_buckets",
        "windows",
        "steps",
        "threads",
        "cpu_binding",
    ),
    *("torch", "ranks_per_gpu"),
)


def _records(stdout_by_rank: Mapping[int, str]) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """Return every rank's records, and (rank, reported rank) of those that report another rank and are ignored."""
    found, foreign = [], []
    for rank, text in sorted(stdout_by_rank.items()):
        for line in lines(text):
            _, mark, rest = line.partition(MARK)
            if not mark:
                continue
            try:
                record = one_line_texts(json_value(rest))
            except NotUnderstood:
                continue
            if not isinstance(record, dict) or type(named := record.get("rank")) is not int:
                continue
            if named != rank:
                foreign.append((rank, named))
            elif _is_whole(record):
                found.append(record)
    return found, foreign


def _is_whole(record: dict[str, Any]) -> bool:
    """Tell whether a rank's result has all its figures as numbers; an incomplete result is ignored."""
    if not isinstance(record.get("pid", 0), int) or not isinstance(record.get("proof") or {}, dict):
        return False
    figures = [record.get(name) for name in _FIGURES] if record.get("kind") == "rank" else []
    return all(isinstance(figure, int | float) and abs(figure) <= _MOST for figure in figures)


def _settings(record: dict[str, Any]) -> dict[str, Any]:
    return {
        key: record[key]
        for key in _SETTINGS
        if key in record and isinstance(record[key], str | int | float | bool | None)
    }


def _losses(finished: Sequence[dict[str, Any]]) -> tuple[float, ...]:
    found = [r.get("losses") for r in finished]
    if not found or not all(isinstance(one, list) and len(one) == len(found[0] or ()) for one in found):
        return ()
    flat = [value for one in found for value in one or ()]
    if not all(type(value) in (int, float) and abs(value) <= _MOST for value in flat):
        return ()
    return tuple(fmean(values) for values in zip(*(one or () for one in found), strict=True))


def _communication(finished: Sequence[dict[str, Any]]) -> float | None:
    """Return the share of a step that is communication: what a step without it is shorter on the slowest rank."""
    read = [(r.get("step_s"), r.get("step_alone_s")) for r in finished]
    pairs = [(s, alone) for s, alone in read if isinstance(s, float) and isinstance(alone, float)]
    if not pairs or len(pairs) < len(read) or not all(0 < s <= _MOST for pair in pairs for s in pair):
        return None
    return max(0.0, 1.0 - max(alone for _, alone in pairs) / fmean(s for s, _ in pairs))


def _libraries(records: list[dict[str, Any]]) -> tuple[str, ...]:
    lines: dict[str, None] = {}
    for record in records:
        proof = record.get("proof") or {}
        if proof.get("version"):
            paths = " ".join(map(str, proof.get("libraries") or ()))
            lines[f"{proof.get('backend')} {proof['version']} {paths}".strip()] = None
    return tuple(lines)


def _doubled(
    starts: Sequence[dict[str, Any]], finished: Sequence[dict[str, Any]], foreign: Sequence[tuple[int, int]]
) -> list[Fault]:
    """Return a fault for a process that reports another rank, and for a rank that reports twice."""
    if foreign:
        rank, named = foreign[0]
        return [
            Fault(
                FaultKind.DUPLICATE_RANKS,
                f"the process that was started as rank {rank} reports as rank {named}",
                rank=rank,
                hint="check that the launcher passes its environment to the ranks",
            )
        ]
    for records in (starts, finished):
        twice = [rank for rank, count in Counter(r["rank"] for r in records).items() if count > 1]
        if twice:
            return [
                Fault(
                    FaultKind.DUPLICATE_RANKS,
                    f"more than one process reports as rank {twice[0]}, or rank {twice[0]} reports twice",
                    rank=twice[0],
                    hint=f"see the records in rank-{twice[0]}.log in the run folder",
                )
            ]
    return []


# Ranks of data-parallel training end each step together, so their rates over several steps can hardly differ.
_LARGEST_RATIO = 2.0
_LEAST_STEPS = 4


def _rates_apart(finished: Sequence[dict[str, Any]]) -> list[Fault]:
    """Return a fault if a rank reports a rate that its peers' rates rule out, because all ranks wait for each other."""
    measured = [r for r in finished if isinstance(r.get("steps"), int) and r["steps"] >= _LEAST_STEPS]
    if len(measured) < 2:
        return []
    slow, *_, fast = sorted(measured, key=lambda r: float(r["samples_per_s_mean"]))
    low, high = float(slow["samples_per_s_mean"]), float(fast["samples_per_s_mean"])
    if low > 0 and high <= _LARGEST_RATIO * low:
        return []
    return [
        Fault(
            FaultKind.RATES_DIFFER,
            f"rank {fast['rank']} reports {high:g} samples/s and rank {slow['rank']} {low:g}, "
            "although ranks end each step together",
            rank=fast["rank"],
            hint="one of the two figures is wrong: compare the clocks and logs of both ranks",
        )
    ]


def parse(stdout_by_rank: Mapping[int, str]) -> TrainingRun:
    """Parse the records of all ranks from their stdout; malformed records become faults, not exceptions."""
    records, foreign = _records(stdout_by_rank)
    starts = [record for record in records if record.get("kind") == "start"]
    finished = sorted((r for r in records if r.get("kind") == "rank"), key=lambda r: r["rank"])
    faults = [
        Fault(
            FaultKind.NAN_LOSS,
            f"rank {r['rank']} on {r.get('host')}: the loss is {r.get('loss')}, not a finite number",
            rank=r["rank"],
            node=str(r.get("host")),
            hint="lower the learning rate, raise the precision, or check the collective library for wrong sums",
        )
        for r in records
        if r.get("kind") == "failure" and r.get("reason") == "nan-loss"
    ]
    faults += _doubled(starts, finished, foreign)
    if not finished and not faults:
        faults.append(Fault(FaultKind.UNPARSABLE, "no rank recorded a result"))
    faults += _rates_apart(finished)
    digests = {r["rank"]: str(r.get("parameters_digest")) for r in finished}
    if len(set(digests.values())) > 1:
        odd = next(rank for rank, digest in digests.items() if digest != digests[min(digests)])
        faults.append(
            Fault(
                FaultKind.REPLICAS_DIFFER,
                f"after training, rank {odd} has different parameters than rank {min(digests)}",
                rank=odd,
                hint="the collective library returned different sums on different ranks",
            )
        )
    known = {record["rank"]: record for record in starts} | {record["rank"]: record for record in finished}
    return TrainingRun(
        tuple(
            RankProof(rank, str(r.get("host")), int(r.get("pid", 0)), str(r.get("device")))
            for rank, r in sorted(known.items())
        ),
        tuple(
            RankRate(
                r["rank"],
                float(r["samples_per_s_mean"]),
                float(r["samples_per_s_spread"]),
                float(r["loss_first"]),
                float(r["loss_last"]),
            )
            for r in finished
        ),
        _settings(finished[0]) if finished else {},
        _libraries(finished),
        tuple(faults),
        tuple((r["rank"], path[:500]) for r in finished if isinstance(path := r.get("path"), str)),
        tuple((r["rank"], r.get("usage")) for r in finished),
        _losses(finished),
        _communication(finished),
    )
