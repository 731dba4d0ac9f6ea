"""The verb ``bench``: run a benchmark across the nodes and say how it went."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Optional

import typer

from clusterctl.cli import bench_reports, bench_store, console, report_files
from clusterctl.cli import options as cli
from clusterctl.cli.bench_request import build_request
from clusterctl.errors import UsageError

_COLLECTIVE = "Collective"
_TRAINING = "Training"


def bench(
    inventory: cli.InventoryOption = None,
    limit: cli.LimitOption = None,
    collective: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--collective",
            metavar="NAME",
            help="Time a collective, as nccl-tests names it.",
        ),
    ] = None,
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--model", metavar="NAME", help="Train resnet50, bert-large, ..., or a torchvision classifier."
        ),
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
        typer.Option("--batch-size", min=1, help="Samples per rank and step.", rich_help_panel=_TRAINING),
    ] = None,
    image_size: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--image-size", min=32, help="Pixels per side.", rich_help_panel=_TRAINING),
    ] = None,
    precision: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--precision", help="fp32 (default), tf32, amp-bf16 or amp-fp16.", rich_help_panel=_TRAINING
        ),
    ] = None,
    channels_last: Annotated[
        bool, typer.Option("--channels-last", help="NHWC memory format.", rich_help_panel=_TRAINING)
    ] = False,
    learning_rate: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            "--learning-rate",
            help="Default: SGD 0.01, BERT 1e-4.",
            rich_help_panel=_TRAINING,
            show_default=False,
        ),
    ] = None,
    compiled: Annotated[
        bool, typer.Option("--compile", help="torch.compile the model.", rich_help_panel=_TRAINING)
    ] = False,
    bucket_cap_mb: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            "--bucket-cap-mb", min=0.1, help="DDP's gradient buckets (MiB); 25.", rich_help_panel=_TRAINING
        ),
    ] = None,
    phase: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--phase", min=1, max=2, help="BERT: 1, 128 tokens; 2, 512 tokens.", rich_help_panel=_TRAINING
        ),
    ] = None,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    runs: cli.RunsOption = None,
    html: bench_reports.HtmlOption = None,
    junit: bench_reports.JunitOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Run a benchmark across the nodes: a collective, or the training of a model.

    Exit code 0 only when the output was understood and its ranks are the ranks asked for; 1: wrong results
    or a loss that is not a number; 5: a node is not reachable; 10: a rank died, hung or never came; 11: output
    that cannot be read.
    """
    request = build_request(
        collective=collective, model=model, np=np, scaling=scaling, library=library, launcher=launcher,
        map_by=map_by, timeout_s=timeout_s, min_bytes=min_bytes, max_bytes=max_bytes, step_factor=step_factor,
        iters=iters, warmup=warmup, windows=windows, batch_size=batch_size, image_size=image_size,
        precision=precision, channels_last=channels_last, learning_rate=learning_rate, compiled=compiled,
        bucket_cap_mb=bucket_cap_mb, phase=phase,
    )  # fmt: skip
    for path in (html, junit):
        report_files.refuse_unwritable(path)
    import os

    from clusterctl.artifacts import shell
    from clusterctl.cli.session import open_session
    from clusterctl.inventory.secret_names import recorded
    from clusterctl.launch import choose
    from clusterctl.launch.measure import Measurement
    from clusterctl.launch.run import Runner
    from clusterctl.report import table
    from clusterctl.results import model as results
    from clusterctl.rundir import RunDir
    from clusterctl.transport.ssh_config import KNOWN_HOSTS_VARIABLE

    session = open_session(inventory, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys)
    chosen = request.launcher or (None if session.inventory.launcher.value == "openmpi" else "")
    if chosen == "":
        raise UsageError(
            f"the inventory's launcher {session.inventory.launcher.value!r} is not supported yet",
            hint="choose one with --launcher openmpi",
        )
    choose.require_servable(chosen, len(session.inventory.nodes))
    run = RunDir.create("bench", runs)
    run.write("inventory", recorded(session.inventory))
    runner = Runner(
        session.inventory.nodes,
        session.connect,
        fanout=session.fanout,
        known_hosts=os.environ.get(KNOWN_HOSTS_VARIABLE),
    )
    with _terminable(), runner:
        measured = Measurement(request, runner, run.folder("logs"), console.talk).run()
    lines = [{"np": launch["np"], "line": shell.line(launch["argv"])} for launch in measured.launches]
    run.write("artifacts", {"schema": "clusterctl.artifacts/1", "commands": lines})
    run.write("launch", {"schema": "clusterctl.launch/1", "launches": list(measured.launches)})
    result = results.from_measured(measured, run.id)
    document = result.document()
    run.write("results", document)
    record = bench_store.store(run, document, [str(entry["line"]) for entry in lines])
    if as_json:
        console.emit_json(document)
    else:
        console.data(table.render(result))
    for fault in measured.faults:
        console.talk(f"failed: {fault.kind.value}: {fault.message}")
    for hint in dict.fromkeys(fault.hint for fault in measured.faults if fault.hint):
        console.talk(f"hint: {hint}")
    if measured.faults and any(run.path.rglob("*.log")):
        console.talk(f"hint: what else the logs say: clusterctl explain {run.path}")
    console.talk(f"run folder: {run.path}")
    written = bench_reports.write(record, html=html, junit=junit)
    raise typer.Exit(results.exit_code(measured.faults) or written)


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
