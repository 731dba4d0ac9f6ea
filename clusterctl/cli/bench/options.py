"""The options of ``bench``, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Optional

import typer

from clusterctl.cli import options as cli
from clusterctl.cli.bench import compare as bench_compare
from clusterctl.cli.bench import dry_run as bench_dry_run
from clusterctl.cli.bench import output as bench_output
from clusterctl.cli.bench import preflight as bench_preflight
from clusterctl.cli.bench import reports as bench_reports
from clusterctl.cli.bench import smoke as bench_smoke
from clusterctl.cli.bench import trust as bench_trust


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
        Optional[str],  # noqa: UP045 - typer evaluates this at run time on 3.10
        typer.Option(
            "--collective",
            metavar="COLLECTIVE,..",
            help="Measure these collectives, a sweep for each; names as in nccl-tests.",
            show_default="all_reduce",
        ),
    ] = None
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--model", metavar="MODEL", help="Train resnet50, bert-large, ..., or a torchvision classifier."
        ),
    ] = None


@dataclass(frozen=True)
class Ranks:
    """Choose the ranks, and how they start and communicate."""

    np: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "-np",
            "--np",
            min=1,
            help="Number of ranks.",
            show_default="all slots of the nodes",
        ),
    ] = None
    scaling: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--scaling",
            metavar="N,..",
            help="Numbers of ranks of the scaling curve.",
            show_default="1, one full node, and -np",
        ),
    ] = None
    library: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--library",
            metavar="LIBRARY",
            help="nccl, gloo, ccore, or nccl+ccore (NCCL, with collective_core in front).",
            show_default="nccl on GPUs, else an installed library",
        ),
    ] = None
    launcher: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--launcher",
            metavar="LAUNCHER",
            help="openmpi, mpich, torchrun, srun, or local (this machine).",
            show_default="an installed MPI; local on this machine without one",
        ),
    ] = None
    map_by: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--map-by",
            metavar="slot|node",
            help="slot: fill one node after another; node: one rank per node, round-robin.",
            show_default="slot; node where slots are CPU cores",
        ),
    ] = None
    oversubscribe: Annotated[
        bool,
        typer.Option("--oversubscribe", help="Let several ranks share a GPU; without -np two on each."),
    ] = False
    timeout_s: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            "--timeout",
            min=1.0,
            metavar="SECONDS",
            help="Maximum time of one launch.",
            show_default="600, with --smoke 180",
        ),
    ] = None


@dataclass(frozen=True)
class SizeOptions:
    """Choose the message sizes of a collective."""

    min_bytes: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "-b",
            "--min-bytes",
            metavar="SIZE",
            help="Smallest size: 8, 64KiB, 1MB (powers of 1024).",
            show_default="8",
        ),
    ] = None
    max_bytes: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "-e", "--max-bytes", metavar="SIZE", help="Largest size.", show_default="1G, without GPUs 8M"
        ),
    ] = None
    step_factor: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "-f", "--step-factor", min=2, help="Factor between sizes.", show_default="2, without GPUs 4"
        ),
    ] = None
    datatype: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "-d",
            "--datatype",
            metavar="TYPE,..",
            help="Types of elements, a sweep for each: float, double, half, bfloat16, int8, uint8, int32, int64, all.",
            show_default="float",
        ),
    ] = None
    op: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "-o",
            "--op",
            metavar="OP,..",
            help="Operators of reductions, a sweep for each: sum, prod, max, min, all, or avg.",
            show_default="sum",
        ),
    ] = None


@dataclass(frozen=True)
class Iterations:
    """Choose how often a size, or a step of a training, is measured."""

    iters: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "-n",
            "--iters",
            min=1,
            help="Timed iterations per size, or steps per timed window.",
            show_default="20, without GPUs 10; training: 10, without GPUs 2 or 1",
        ),
    ] = None
    warmup: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "-w",
            "--warmup",
            min=1,
            help="Untimed iterations or steps before the measurement.",
            show_default="5, without GPUs 2; training: 10, without GPUs 1",
        ),
    ] = None


@dataclass(frozen=True)
class TrainingOptions:
    """Choose the settings of a training."""

    windows: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--windows",
            min=1,
            help="Number of timed windows; the report shows their spread.",
            show_default="10, without GPUs 4 or 2",
        ),
    ] = None
    batch_size: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--batch-size",
            min=1,
            help="Samples per rank and step.",
            show_default="depends on model and device: resnet50 64, without GPUs 8",
        ),
    ] = None
    image_size: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--image-size",
            min=32,
            help="Pixels per side.",
            show_default="that of the model, 224 or 299; built-in models without GPUs: 64",
        ),
    ] = None
    precision: Annotated[
        Optional[str],  # noqa: UP045
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
        Optional[float],  # noqa: UP045
        typer.Option("--learning-rate", help="Step of the optimizer.", show_default="SGD 0.01, BERT 1e-4"),
    ] = None
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the model with torch.compile.")] = False
    bucket_cap_mb: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            "--bucket-cap-mb",
            min=0.1,
            help="Size of DDP's gradient buckets.",
            metavar="MIB",
            show_default="25",
        ),
    ] = None
    phase: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--phase", min=1, max=2, help="BERT phase; 1: 128 tokens, 2: 512 tokens.", show_default="1"
        ),
    ] = None


@dataclass(frozen=True)
class ComparisonOptions:
    """Choose variants and repeats."""

    compare: bench_compare.CompareOption = None
    repeats: bench_compare.RepeatsOption = None


@dataclass(frozen=True)
class Instead:
    """Choose another program than one benchmark."""

    smoke: bench_smoke.SmokeOption = False
    preflight: bench_preflight.PreflightOption = False
    dry_run: bench_dry_run.DryRunOption = False


@dataclass(frozen=True)
class Acceptance:
    """Choose which results pass."""

    baseline: bench_trust.BaselineOption = None
    allow_slow_path: bench_trust.SlowPathOption = False


@dataclass(frozen=True)
class Reports:
    """Choose the reports and their format."""

    html: bench_reports.HtmlOption = None
    junit: bench_reports.JunitOption = None
    output: bench_output.OutputOption = bench_output.Output.table
