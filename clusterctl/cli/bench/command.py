"""``bench``: run a benchmark across the nodes and report the result."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from clusterctl.cli import console, report_files
from clusterctl.cli import options as cli
from clusterctl.cli.bench import compare as bench_compare
from clusterctl.cli.bench import dry_run as bench_dry_run
from clusterctl.cli.bench import output as bench_output
from clusterctl.cli.bench import preflight as bench_preflight
from clusterctl.cli.bench import reports as bench_reports
from clusterctl.cli.bench import run as bench_run
from clusterctl.cli.bench import smoke as bench_smoke
from clusterctl.cli.bench import trust as bench_trust
from clusterctl.cli.bench.request import TIMEOUT_S, build_request

_COLLECTIVE = "Collective"
_TRAINING = "Training"


def bench(
    inventory: cli.InventoryOption = None,
    limit: cli.LimitOption = None,
    containers: Annotated[
        bool,
        typer.Option("--containers", help="Run in the containers that 'up' started instead of on the nodes."),
    ] = False,
    collective: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--collective",
            metavar="NAME",
            help="Measure this collective; names as in nccl-tests.",
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
            "-np", "--np", min=1, help="Number of ranks; default: all slots of the nodes.", show_default=False
        ),
    ] = None,
    scaling: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--scaling",
            metavar="N,..",
            help="Numbers of ranks of the scaling curve; default: 1, one full node, and -np.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    library: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--library", help="nccl, gloo or ccore; default: nccl on GPUs, else an installed library."
        ),
    ] = None,
    launcher: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--launcher", help="openmpi, mpich, torchrun, srun, or local (this machine)."),
    ] = None,
    map_by: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--map-by", help="slot: fill one node after another; node: one rank per node, round-robin."
        ),
    ] = None,
    timeout_s: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            "--timeout",
            min=1.0,
            metavar="S",
            help="Maximum seconds per launch (default 600, with --smoke 180).",
            show_default=False,
        ),
    ] = None,
    min_bytes: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "-b",
            "--min-bytes",
            metavar="SIZE",
            help="Smallest size: 8, 64K, 1M.",
            rich_help_panel=_COLLECTIVE,
        ),
    ] = None,
    max_bytes: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("-e", "--max-bytes", metavar="SIZE", help="Largest size.", rich_help_panel=_COLLECTIVE),
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
        typer.Option("-w", "--warmup", min=1, help="Untimed iterations or steps before the measurement."),
    ] = None,
    windows: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--windows",
            min=1,
            help="Number of timed windows; the report shows their spread.",
            rich_help_panel=_TRAINING,
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
        bool, typer.Option("--channels-last", help="Use the NHWC memory format.", rich_help_panel=_TRAINING)
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
        bool,
        typer.Option("--compile", help="Compile the model with torch.compile.", rich_help_panel=_TRAINING),
    ] = False,
    bucket_cap_mb: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            "--bucket-cap-mb",
            min=0.1,
            help="Size of DDP's gradient buckets in MiB (default 25).",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    phase: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--phase",
            min=1,
            max=2,
            help="BERT phase; 1: 128 tokens, 2: 512 tokens.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    compare: bench_compare.CompareOption = None,
    repeats: bench_compare.RepeatsOption = None,
    smoke: bench_smoke.SmokeOption = False,
    preflight: bench_preflight.PreflightOption = False,
    dry_run: bench_dry_run.DryRunOption = False,
    baseline: bench_trust.BaselineOption = None,
    allow_slow_path: bench_trust.SlowPathOption = False,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    runs: cli.RunsOption = None,
    html: bench_reports.HtmlOption = None,
    junit: bench_reports.JunitOption = None,
    output: bench_output.OutputOption = bench_output.Output.table,
    as_json: cli.JsonOption = False,
) -> None:
    """Measure a collective, or the training of a model.

    Exit code 0: the output was parsed and the requested ranks took part; 1: wrong results, a loss that is NaN, a
    fallback from GPUDirect RDMA, or figures below --baseline; 5: a node is unreachable; 10: a rank died, hung or
    did not start; 11: the output cannot be parsed.
    """
    request = build_request(
        collective=collective, model=model, np=np, scaling=scaling, library=library, launcher=launcher,
        map_by=map_by, timeout_s=timeout_s or (bench_smoke.TIMEOUT_S if smoke else TIMEOUT_S),
        min_bytes=min_bytes, max_bytes=max_bytes, step_factor=step_factor,
        iters=iters, warmup=warmup, windows=windows, batch_size=batch_size, image_size=image_size,
        precision=precision, channels_last=channels_last, learning_rate=learning_rate, compiled=compiled,
        bucket_cap_mb=bucket_cap_mb, phase=phase, allow_slow_path=allow_slow_path,
    )  # fmt: skip
    report_files.refuse_unwritable(html, junit)
    variants, times = bench_compare.chosen(compare, repeats, library)
    bench_output.require_possible(output, request, as_json=as_json, compared=bool(variants))
    if smoke:
        bench_smoke.require_alone(
            {
                "--collective": collective, "--model": model, "--scaling": scaling, "--compare": compare,
                "--repeats": repeats, "--min-bytes": min_bytes, "--max-bytes": max_bytes,
                "--step-factor": step_factor, "--iters": iters, "--warmup": warmup, "--html": html,
                "--baseline": baseline,
            }
        )  # fmt: skip
    if preflight:
        bench_preflight.require_alone(
            {
                "--collective": collective, "--model": model, "--scaling": scaling, "--compare": compare,
                "--repeats": repeats, "--min-bytes": min_bytes, "--max-bytes": max_bytes, "--smoke": smoke,
                "--step-factor": step_factor, "--iters": iters, "--warmup": warmup, "--html": html,
                "--junit": junit, "--baseline": baseline,
            }
        )  # fmt: skip
    if dry_run:
        bench_dry_run.require_alone(
            {
                "--smoke": smoke, "--preflight": preflight, "--baseline": baseline, "--html": html, "--junit": junit,
                "--output": output is not bench_output.Output.table,
            }
        )  # fmt: skip
    known = bench_trust.baseline_of(baseline, runs, compared=bool(variants))
    from clusterctl.cli import containers_session
    from clusterctl.cli.session import open_session

    if containers:
        containers_session.refuse_inventory(inventory)
        session = containers_session.containers_session(None, runs, limit=limit, fanout=fanout)
    else:
        session = open_session(
            inventory, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys
        )
    request = bench_run.with_launcher(session, request)
    if dry_run:
        raise typer.Exit(bench_dry_run.run(session, request, variants, as_json=as_json))
    if preflight:
        raise typer.Exit(bench_preflight.run(session, request, runs, as_json=as_json))
    if smoke:
        all_ended = bench_smoke.run(session, request, runs)
    else:
        all_ended = (bench_run.measure(session, request, variants, times, runs, known),)
    if as_json:
        console.emit_json(bench_smoke.document(all_ended) if smoke else all_ended[0].result.document())
    for ended in all_ended:
        if not as_json:
            console.data(bench_output.render(ended.result, output))
        bench_run.say_end(ended)
    written = bench_reports.write(*(ended.record for ended in all_ended), html=html, junit=junit)
    raise typer.Exit(next((ended.exit_code for ended in all_ended if ended.exit_code), 0) or written)
