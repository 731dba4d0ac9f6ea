"""The verb ``bench``: run a benchmark across the nodes and say how it went."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from clusterctl.launch.measure import Request

COLLECTIVES = ("all_reduce",)
MODELS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg16")
PRECISIONS = ("fp32", "tf32", "amp-bf16")
_SUFFIXES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_COLLECTIVE = "Collective"
_TRAINING = "Training"


def bench(
    inventory: cli.InventoryOption = None,
    limit: cli.LimitOption = None,
    collective: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--collective", metavar="NAME", help="Time a collective: all_reduce (the default)."),
    ] = None,
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--model", metavar="NAME", help=f"Train a model: {', '.join(MODELS)}."),
    ] = None,
    np: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "-np", "--np", min=1, help="Ranks; default: all slots of the nodes.", show_default=False
        ),
    ] = None,
    scaling: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--scaling",
            metavar="N,..",
            help="Points of the scaling curve; default: 1, one full node, and -np.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    library: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--library", help="nccl, gloo or ccore; default: nccl on GPUs, else what is installed."),
    ] = None,
    launcher: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--launcher", help="openmpi, or local (this machine, no MPI); default: as it fits."),
    ] = None,
    map_by: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--map-by", help="slot: fill node after node; node: one rank to each node in turn."),
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=1.0, metavar="S", help="Seconds one launch may take.")
    ] = 600.0,
    min_bytes: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "-b", "--min-bytes", metavar="SIZE", help="First size: 8, 64K, 1M.", rich_help_panel=_COLLECTIVE
        ),
    ] = None,
    max_bytes: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("-e", "--max-bytes", metavar="SIZE", help="Last size.", rich_help_panel=_COLLECTIVE),
    ] = None,
    step_factor: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("-f", "--step-factor", min=2, help="Factor between sizes.", rich_help_panel=_COLLECTIVE),
    ] = None,
    iters: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("-n", "--iters", min=1, help="Timed iterations per size, or steps per timed window."),
    ] = None,
    warmup: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("-w", "--warmup", min=1, help="Iterations or steps before the clock starts."),
    ] = None,
    windows: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--windows", min=1, help="Timed windows; their spread is shown.", rich_help_panel=_TRAINING
        ),
    ] = None,
    batch_size: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--batch-size", min=1, help="Images per rank and step.", rich_help_panel=_TRAINING),
    ] = None,
    image_size: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--image-size", min=32, help="Pixels per side.", rich_help_panel=_TRAINING),
    ] = None,
    precision: Annotated[
        str, typer.Option("--precision", help="fp32, tf32 or amp-bf16.", rich_help_panel=_TRAINING)
    ] = "fp32",
    channels_last: Annotated[
        bool, typer.Option("--channels-last", help="NHWC memory format.", rich_help_panel=_TRAINING)
    ] = False,
    learning_rate: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            "--learning-rate", help="Of SGD; default 0.01.", rich_help_panel=_TRAINING, show_default=False
        ),
    ] = None,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Run a benchmark across the nodes: a collective, or the training of a model.

    Exit code 0 only when the output was understood and its ranks are the ranks asked for; 1: wrong results or a
    loss that is not a number; 5: a node is not reachable; 10: a rank died, hung or never came; 11: unreadable output.
    """
    request = _request(
        collective=collective, model=model, np=np, scaling=scaling, library=library, launcher=launcher,
        map_by=map_by, timeout_s=timeout_s, min_bytes=min_bytes, max_bytes=max_bytes, step_factor=step_factor,
        iters=iters, warmup=warmup, windows=windows, batch_size=batch_size, image_size=image_size,
        precision=precision, channels_last=channels_last, learning_rate=learning_rate,
    )  # fmt: skip
    import os

    from clusterctl.cli.session import open_session
    from clusterctl.launch.measure import Measurement
    from clusterctl.launch.run import Runner
    from clusterctl.report import table
    from clusterctl.results import model as results
    from clusterctl.rundir import RunDir
    from clusterctl.transport.ssh_config import KNOWN_HOSTS_VARIABLE

    session = open_session(inventory, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys)
    run = RunDir.create("bench", runs)
    run.write("inventory", session.inventory.model_dump(mode="json"))
    chosen = request.launcher or (None if session.inventory.launcher.value == "openmpi" else "")
    if chosen == "":
        raise UsageError(
            f"the inventory's launcher {session.inventory.launcher.value!r} is not supported yet",
            hint="choose one with --launcher openmpi",
        )
    runner = Runner(
        session.inventory.nodes,
        session.connect,
        fanout=session.fanout,
        known_hosts=os.environ.get(KNOWN_HOSTS_VARIABLE),
    )
    with _terminable(), runner:
        measured = Measurement(request, runner, run.folder("logs"), console.talk).run()
    run.write("launch", {"schema": "clusterctl.launch/1", "launches": list(measured.launches)})
    result = results.from_measured(measured, run.id)
    document = result.document()
    run.write("results", document)
    if as_json:
        console.emit_json(document)
    else:
        console.data(table.render(result))
    for fault in measured.faults:
        console.talk(f"failed: {fault.kind.value}: {fault.message}")
    for hint in dict.fromkeys(fault.hint for fault in measured.faults if fault.hint):
        console.talk(f"hint: {hint}")
    console.talk(f"run folder: {run.path}")
    raise typer.Exit(results.exit_code(measured.faults))


def parse_size(text: str) -> int:
    """Read bytes: a whole number, or with K, M or G (powers of 1024); raise UsageError for anything else."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in _SUFFIXES else (text, "")
    if not number.isdigit() or int(number) < 1:
        raise UsageError(f"{text!r} is not a size", hint="write bytes, or 64K, 1M, 2G")
    return int(number) * _SUFFIXES.get(unit, 1)


def parse_points(text: str) -> tuple[int, ...]:
    """Read ``1,2,4`` as ascending numbers of ranks; raise UsageError for anything else."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdigit() and int(word) > 0 for word in words):
        raise UsageError(f"--scaling {text!r} is not a list of ranks", hint="for example --scaling 1,2,4")
    return tuple(sorted({int(word) for word in words}))


def _request(
    *,
    collective: str | None,
    model: str | None,
    np: int | None,
    scaling: str | None,
    library: str | None,
    launcher: str | None,
    map_by: str | None,
    timeout_s: float,
    min_bytes: str | None,
    max_bytes: str | None,
    step_factor: int | None,
    iters: int | None,
    warmup: int | None,
    windows: int | None,
    batch_size: int | None,
    image_size: int | None,
    precision: str,
    channels_last: bool,
    learning_rate: float | None,
) -> Request:
    """Check the options against each other, before anything is read or contacted."""
    from clusterctl.benchmarks.training import Training
    from clusterctl.launch.measure import Request

    if collective is not None and model is not None:
        raise UsageError(
            "--collective and --model ask for two benchmarks", hint="run them one after the other"
        )
    if collective is not None and collective not in COLLECTIVES:
        raise UsageError(
            f"there is no benchmark of {collective!r} yet", hint=f"there is: {', '.join(COLLECTIVES)}"
        )
    if model is not None and model not in MODELS:
        raise UsageError(f"there is no model {model!r}", hint=f"the models are: {', '.join(MODELS)}")
    if precision not in PRECISIONS:
        raise UsageError(f"there is no precision {precision!r}", hint=f"one of {', '.join(PRECISIONS)}")
    if scaling is not None and np is not None:
        raise UsageError("--scaling names the points already", hint="leave out -np")
    of_training = {
        "--scaling": scaling, "--windows": windows, "--batch-size": batch_size, "--image-size": image_size,
        "--learning-rate": learning_rate,
    }  # fmt: skip
    of_collective = {"--min-bytes": min_bytes, "--max-bytes": max_bytes, "--step-factor": step_factor}
    foreign = of_training if model is None else of_collective
    misplaced = [flag for flag, value in foreign.items() if value is not None]
    if misplaced:
        what = "--model" if model is None else "--collective"
        raise UsageError(f"{', '.join(misplaced)} goes with {what}", hint=f"add {what}, or leave it out")
    sweep: dict[str, Any] = {
        "min_bytes": parse_size(min_bytes) if min_bytes is not None else None,
        "max_bytes": parse_size(max_bytes) if max_bytes is not None else None,
        "step_factor": step_factor,
        "iters": iters,
        "warmup_iters": warmup,
    }
    training = None
    if model is not None:
        training = Training(
            model=model, batch_size=batch_size, image_size=image_size, warmup=warmup, windows=windows,
            steps=iters, precision=precision, channels_last=channels_last, learning_rate=learning_rate,
        )  # fmt: skip
    return Request(
        training=training,
        sweep={name: value for name, value in sweep.items() if value is not None},
        np=np,
        points=parse_points(scaling) if scaling is not None else None,
        library=library,
        launcher=launcher,
        map_by=map_by,
        timeout_s=timeout_s,
    )


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end the ranks as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
