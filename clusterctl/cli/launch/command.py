"""``launch``: run a program of the user on the nodes, with the plan, the proofs and the record of ``bench``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console, either_inventory, next_command, report_files
from clusterctl.cli import options as cli
from clusterctl.cli.bench import compare as bench_compare
from clusterctl.cli.bench import dry_run as bench_dry_run
from clusterctl.cli.bench import ending as bench_ending
from clusterctl.cli.bench import options
from clusterctl.cli.bench import run as bench_run
from clusterctl.cli.bench import sweeps as bench_sweeps
from clusterctl.cli.bench import trust as bench_trust
from clusterctl.cli.bench.request import request_of_ranks
from clusterctl.cli.option_groups import with_groups
from clusterctl.errors import UsageError
from clusterctl.text.secret.scrub import scrubbed

if TYPE_CHECKING:
    from clusterctl.benchmarks.user_program import UserProgram
    from clusterctl.launch.request import Request


TIMEOUT_S = 86400.0
"""A program of the user may train for long; ``launch/stall.py`` notes a stopped rank before this time."""
_PROGRAM = "-- PROGRAM..."


@with_groups
def launch(
    inventory_argument: cli.InventoryArgument = None,
    *,
    where: options.Where,
    command: Annotated[
        list[str],
        typer.Argument(
            metavar=_PROGRAM, help="A program and its arguments, which reach every rank as they are."
        ),
    ],
    ranks: options.Ranks,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            metavar="PATTERN",
            help="Regular expression with one group for the rate of all ranks: 'samples/s: ([0-9.]+)'.",
            show_default="the total of Horovod's synthetic benchmark",
        ),
    ] = None,
    rate_per_rank: Annotated[
        bool, typer.Option("--rate-per-rank", help="Each rank prints its own rate, and the rates add up.")
    ] = False,
    bring: Annotated[
        Path | None,
        typer.Option(
            "--bring",
            metavar="DIR",
            help="Copy this directory to every node; the ranks run in it, then it is removed.",
        ),
    ] = None,
    container: Annotated[
        str | None,
        typer.Option(
            "--container",
            metavar="IMAGE",
            help="Run the ranks in this image by srun and Pyxis, with the volumes of the inventory's container; an "
            "image or a squashfs file. Without Pyxis enroot starts a squashfs file.",
        ),
    ] = None,
    comparison: options.ComparisonOptions,
    planned: options.Planned,
    acceptance: options.Acceptance,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    label: cli.LabelOption = None,
    runs: cli.RunsOption = None,
    reports: options.Reports,
    as_json: cli.JsonOption = False,
) -> None:
    """Run a program of your own on the nodes, with the proofs of bench.

    Ranks get MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and LOCAL_RANK from every launcher. Without a rate in the
    output, the result is the wall time.

    Exit code 0: the program ended with 0 on all ranks; 1: a fallback from GPUDirect RDMA, or figures below --baseline
    or --min-efficiency; 5: a node is unreachable; 10: a rank died, hung or did not start; 11: the rate is unreadable.
    """
    from clusterctl.cli.launch import files
    from clusterctl.documents.bench import BenchStatus
    from clusterctl.launch import choose
    from clusterctl.rundir import default_root

    where = replace(where, inventory=either_inventory.one(inventory_argument, where.inventory))
    options.DRY_RUN.refuse_excluded(planned, acceptance, reports)
    if ranks.library is not None:
        choose.own_library(ranks.library)
    program = program_of(command, rate, per_rank=rate_per_rank)
    request = request_of_ranks(ranks, TIMEOUT_S, allow_slow_path=acceptance.allow_slow_path)
    runs = runs or default_root(where.inventory)
    if container is not None:
        request = _by_slurm(request, container, containers=where.containers)
    if bring is not None:
        program = replace(program, brought=files.packed(bring, leave_out=runs))
    request = replace(request, program=program)
    report_files.refuse_unwritable(reports.html, reports.junit, reports.csv, reports.prometheus)
    variants, times = bench_compare.chosen(comparison.compare, comparison.repeats, ranks.library)
    bench_trust.require_curve(acceptance.min_efficiency, request)
    known = bench_trust.baseline_of(acceptance.baseline, runs, compared=comparison.compare is not None)
    session = bench_run.session_of(where, fanout, runs, accept_new_host_keys=accept_new_host_keys)
    if container is not None:
        settings = session.inventory.nodes[0].container.model_copy(update={"image": container})
        request = replace(request, program=replace(program, container=settings))
    request = bench_run.with_launcher(session, request)
    if planned.dry_run:
        raise typer.Exit(bench_dry_run.run(session, (request,), variants, as_json=as_json))
    experiment = bench_run.Experiment(session, runs, label, variants, times, known, acceptance.min_efficiency)
    all_ended = bench_sweeps.run(
        experiment, (request,), bench_ending.shown(options.Output.table, as_json=as_json)
    )
    if as_json:
        console.emit_json(bench_sweeps.document(all_ended))
    # A program that ended well needs no next command.
    doubted = any(one.result.status is not BenchStatus.OK for one in all_ended) and not where.containers
    way = next_command.way(where.inventory, where.limit, runs=runs) if doubted else None
    raise typer.Exit(bench_ending.finish(all_ended, reports, way))


def _by_slurm(request: Request, image: str, *, containers: bool) -> Request:
    """Return the request with srun, which alone can start ranks in an image; raise UsageError for what excludes it."""
    from clusterctl.errors import UsageError

    cli.require_image(image, "--container")
    if containers:
        raise UsageError(
            "--container and --containers cannot be combined",
            hint="--container starts ranks in an image by Slurm; --containers uses those of clusterctl up",
        )
    if request.launcher not in (None, "srun"):
        raise UsageError(
            f"--container needs the launcher srun, not {request.launcher}",
            hint="leave out --launcher, or start containers with clusterctl up and use --containers",
        )
    return replace(request, launcher="srun")


_FORM = "write it in quotes, with one group around the number: --rate 'samples/s: ([0-9.]+)'"
_LONGEST = 500


def program_of(words: Sequence[str], rate: str | None, *, per_rank: bool) -> UserProgram:
    """Return the program; raise UsageError for an empty word as program, and for a pattern without one group."""
    from clusterctl.benchmarks.user_program import UNITS, RateLine, UserProgram

    if not words[0] or words[0].startswith("-"):
        raise UsageError(
            f"{words[0]!r} is not a program",
            hint="write the program after '--': clusterctl launch -- python3 train.py",
        )
    if rate is None and per_rank:
        raise UsageError("--rate-per-rank requires --rate", hint=_FORM)
    if any(scrubbed(word) != word for word in (*words, " ".join(words))):
        console.talk(
            "note: an argument looks like a secret, and every account on the nodes can read command lines; "
            "put it into `env` of the inventory"
        )
    line = RateLine()
    if rate is not None:
        try:
            pattern = re.compile(rate[: _LONGEST + 1])
        except re.error as error:
            raise UsageError(
                f"--rate {rate[:60]!r} is not a regular expression: {error}", hint=_FORM
            ) from None
        if len(rate) > _LONGEST or pattern.groups != 1 or not {*pattern.groupindex} <= {*UNITS}:
            raise UsageError(
                f"--rate {rate[:60]!r} must have exactly one group, unnamed or named {', '.join(UNITS)}, and at most "
                f"{_LONGEST} characters",
                hint=f"{_FORM}; groups that are not read are written (?:...)",
            )
        line = RateLine(rate, per_rank)
    return UserProgram(tuple(words), line, str(Path.cwd()))
