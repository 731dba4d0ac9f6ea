"""The options of ``bench``, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import typer

from clusterctl.cli import options as cli
from clusterctl.cli.option_groups import Mode, NotWith

DRY_RUN = Mode("--dry-run", "measures nothing")
MODES = (
    Mode("--smoke", "has a fixed benchmark", "-np, --library, --launcher, --timeout, --junit and --json"),
    Mode("--preflight", "runs no benchmark", "-np, --library, --launcher, --map-by and --timeout"),
    DRY_RUN,
)
_NOT_FIXED = NotWith("--smoke", "--preflight")
"""Of options that choose the benchmark."""
_OF_A_RESULT = NotWith("--smoke", "--preflight", "--dry-run")


class Output(str, Enum):
    """Name the output formats."""

    table = "table"
    horovod = "horovod"


@dataclass(frozen=True)
class Where:
    """Choose the nodes, or the containers on them."""

    inventory: cli.InventoryOption = None
    limit: cli.LimitOption = None
    containers: Annotated[
        bool,
        typer.Option("--containers", help="Run in the containers that 'up' started instead of on the nodes."),
    ] = False


@dataclass(frozen=True)
class What:
    """Choose a collective, or a model to train."""

    collective: Annotated[
        str | None,
        typer.Option(
            "--collective",
            metavar="COLLECTIVE,..",
            help="Measure these collectives, a sweep for each; names as in nccl-tests.",
            show_default="all_reduce",
        ),
        _NOT_FIXED,
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="MODEL", help="Train resnet50, bert-large, ..., or a torchvision classifier."
        ),
        _NOT_FIXED,
    ] = None


@dataclass(frozen=True)
class Ranks:
    """Choose the ranks, and how they start and communicate."""

    np: Annotated[
        int | None,
        typer.Option("-np", "--np", min=1, help="Number of ranks.", show_default="all slots of the nodes"),
    ] = None
    scaling: Annotated[
        str | None,
        typer.Option(
            "--scaling",
            metavar="N,..",
            help="Numbers of ranks of the scaling curve.",
            show_default="with -np only those; else 1, one full node, and all slots",
        ),
        _NOT_FIXED,
    ] = None
    library: Annotated[
        str | None,
        typer.Option(
            "--library",
            metavar="LIBRARY",
            help="nccl, gloo, ccore, nccl+ccore (NCCL, with collective_core in front); for bench also what the nodes "
            "have of acspeed, aiacc, horovod, accl, lightcc. The published accl and lightcc need a PyTorch that is too "
            "old for bench: use launch without --library.",
            show_default="nccl on GPUs, else an installed library",
        ),
    ] = None
    launcher: Annotated[
        str | None,
        typer.Option(
            "--launcher",
            metavar="LAUNCHER",
            help="openmpi, mpich, torchrun, srun, or local (this machine).",
            show_default="an installed MPI; local on this machine without one",
        ),
    ] = None
    map_by: Annotated[
        str | None,
        typer.Option(
            "--map-by",
            metavar="slot|node",
            help="slot: fill one node after another; node: one rank per node, round-robin.",
            show_default="slot; node where slots are CPU cores",
        ),
    ] = None
    oversubscribe: Annotated[
        bool, typer.Option("--oversubscribe", help="Let several ranks share a GPU; without -np two on each.")
    ] = False
    timeout_s: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            min=1.0,
            metavar="SECONDS",
            help="Maximum time of one launch.",
            show_default="600, with --smoke 180; launch: 86400",
        ),
    ] = None


@dataclass(frozen=True)
class SizeOptions:
    """Choose the message sizes of a collective, and the GPUs of its processes."""

    gpus_per_process: Annotated[
        int | None,
        typer.Option(
            "-g",
            "--gpus-per-process",
            min=1,
            help="GPUs of each process of a collective, as nccl-tests' -g; -np then counts processes.",
            show_default="1",
        ),
    ] = None
    min_bytes: Annotated[
        str | None,
        typer.Option(
            "-b",
            "--min-bytes",
            metavar="SIZE",
            help="Smallest size: 8, 64KiB, 1MB (powers of 1024).",
            show_default="8",
        ),
        _NOT_FIXED,
    ] = None
    max_bytes: Annotated[
        str | None,
        typer.Option(
            "-e", "--max-bytes", metavar="SIZE", help="Largest size.", show_default="1G, without GPUs 8M"
        ),
        _NOT_FIXED,
    ] = None
    step_factor: Annotated[
        int | None,
        typer.Option(
            "-f", "--step-factor", min=2, help="Factor between sizes.", show_default="2, without GPUs 4"
        ),
        _NOT_FIXED,
    ] = None
    datatype: Annotated[
        str | None,
        typer.Option(
            "-d",
            "--datatype",
            metavar="TYPE,..",
            help="Types of elements, a sweep for each: float, double, half, bfloat16, int8, uint8, int32, int64, all.",
            show_default="float",
        ),
        _NOT_FIXED,
    ] = None
    op: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--op",
            metavar="OP,..",
            help="Operators of reductions, a sweep for each: sum, prod, max, min, all, or avg.",
            show_default="sum",
        ),
        _NOT_FIXED,
    ] = None


@dataclass(frozen=True)
class Iterations:
    """Choose how often a size, or a step of a training, is measured."""

    iters: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--iters",
            min=1,
            help="Timed iterations per size, or steps per timed window.",
            show_default="20, without GPUs 10; training: 10, without GPUs 2 or 1",
        ),
        _NOT_FIXED,
    ] = None
    warmup: Annotated[
        int | None,
        typer.Option(
            "-w",
            "--warmup",
            min=1,
            help="Untimed iterations or steps before the measurement.",
            show_default="5, without GPUs 2; training: 10, without GPUs 1",
        ),
        _NOT_FIXED,
    ] = None


@dataclass(frozen=True)
class TrainingOptions:
    """Choose the settings of a training."""

    windows: Annotated[
        int | None,
        typer.Option(
            "--windows",
            min=1,
            help="Number of timed windows; the report shows their spread.",
            show_default="10, without GPUs 4 or 2",
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size",
            min=1,
            help="Samples per rank and step.",
            show_default="depends on model and device: resnet50 64, without GPUs 8",
        ),
    ] = None
    image_size: Annotated[
        int | None,
        typer.Option(
            "--image-size",
            min=32,
            help="Pixels per side.",
            show_default="that of the model, 224 or 299; built-in models without GPUs: 64",
        ),
    ] = None
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision",
            metavar="fp32|tf32|amp-bf16|amp-fp16",
            help="Number format of the training.",
            show_default="fp32",
        ),
    ] = None
    channels_last: Annotated[bool, typer.Option("--channels-last", help="Use the NHWC memory format.")] = (
        False
    )
    learning_rate: Annotated[
        float | None,
        typer.Option("--learning-rate", help="Step of the optimizer.", show_default="SGD 0.01, BERT 1e-4"),
    ] = None
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the model with torch.compile.")] = False
    api: Annotated[
        str | None,
        typer.Option(
            "--api",
            metavar="ddp|horovod",
            help="How ranks train one model: torch's DDP, or Horovod's API (collective_core's).",
            show_default="ddp",
        ),
    ] = None
    hook: Annotated[
        str | None,
        typer.Option(
            "--hook",
            metavar="none|fp16|topk[=RATIO]",
            help="Compress gradients: as float16, or only the largest elements.",
            show_default="none; topk: 0.01",
        ),
    ] = None
    bucket_cap_mb: Annotated[
        str | None,
        typer.Option(
            "--bucket-cap-mb",
            help="Size of the gradient buckets; auto: train some steps with each size first.",
            metavar="MIB|auto",
            show_default="25, with --api horovod the module's own",
        ),
    ] = None
    phase: Annotated[
        int | None,
        typer.Option(
            "--phase", min=1, max=2, help="BERT phase; 1: 128 tokens, 2: 512 tokens.", show_default="1"
        ),
    ] = None


@dataclass(frozen=True)
class ComparisonOptions:
    """Choose variants and repeats."""

    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="A,B,..",
            help="Interleaved variants: nccl,ccore or plain,2d,topk or gdr=0,gdr=2 or NAME=VALUE; + joins settings.",
        ),
        _NOT_FIXED,
    ] = None
    repeats: Annotated[
        int | None,
        typer.Option(
            "--repeats", min=1, help="Number of repeats, interleaved.", show_default="1, with --compare 5"
        ),
        _NOT_FIXED,
    ] = None


@dataclass(frozen=True)
class Instead:
    """Choose another program than one benchmark."""

    smoke: Annotated[
        bool,
        typer.Option("--smoke", help="For CI: a short checked all_reduce, then a few steps of resnet50."),
        NotWith("--preflight", "--dry-run"),
    ] = False
    preflight: Annotated[
        bool,
        typer.Option(
            "--preflight",
            help="Only check what a launch needs, step by step, and report the first step that fails.",
        ),
        NotWith("--dry-run"),
    ] = False


@dataclass(frozen=True)
class Planned:
    """Only print what would run."""

    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only probe the nodes, and print each command and its files.")
    ] = False


@dataclass(frozen=True)
class Acceptance:
    """Choose which results pass."""

    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="BASELINE", help="Exit with 1 if figures are below this recorded baseline."
        ),
        _OF_A_RESULT,
    ] = None
    min_efficiency: Annotated[
        float | None,
        typer.Option(
            "--min-efficiency",
            metavar="PERCENT",
            min=0.1,
            max=100.0,
            help="Exit with 1 if a point of a training is less efficient than this, relative to one rank.",
        ),
        _OF_A_RESULT,
    ] = None
    allow_slow_path: Annotated[
        bool, typer.Option("--allow-slow-path", help="Report a fallback from GPUDirect RDMA without failing.")
    ] = False


@dataclass(frozen=True)
class Reports:
    """Choose the reports."""

    html: Annotated[cli.HtmlOption, _OF_A_RESULT] = None
    junit: Annotated[cli.JunitOption, NotWith("--preflight", "--dry-run")] = None
    csv: Annotated[cli.CsvOption, _OF_A_RESULT] = None
    prometheus: Annotated[cli.PrometheusOption, _OF_A_RESULT] = None


@dataclass(frozen=True)
class Printed:
    """Choose the format on stdout."""

    output: Annotated[
        Output,
        typer.Option("--output", help="horovod: the output of Horovod's synthetic benchmark, for scripts."),
        NotWith("--dry-run"),
    ] = Output.table
