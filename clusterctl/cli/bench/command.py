"""``bench``: run a benchmark across the nodes and report the result."""

from __future__ import annotations

from dataclasses import replace

import typer

from clusterctl.cli import console, next_command, report_files
from clusterctl.cli import options as cli
from clusterctl.cli.bench import compare as bench_compare
from clusterctl.cli.bench import dry_run as bench_dry_run
from clusterctl.cli.bench import ending as bench_ending
from clusterctl.cli.bench import options
from clusterctl.cli.bench import preflight as bench_preflight
from clusterctl.cli.bench import run as bench_run
from clusterctl.cli.bench import sweeps as bench_sweeps
from clusterctl.cli.bench import trust as bench_trust
from clusterctl.cli.bench.request import requests_of
from clusterctl.cli.option_groups import with_groups


@with_groups
def bench(
    *,
    where: options.Where,
    what: options.What,
    ranks: options.Ranks,
    sizes: options.SizeOptions,
    iterations: options.Iterations,
    training: options.TrainingOptions,
    comparison: options.ComparisonOptions,
    instead: options.Instead,
    planned: options.Planned,
    acceptance: options.Acceptance,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    label: cli.LabelOption = None,
    runs: cli.RunsOption = None,
    reports: options.Reports,
    printed: options.Printed,
    as_json: cli.JsonOption = False,
) -> None:
    """Measure a collective, or the training of a model.

    Exit code 0: the output was parsed and the requested ranks took part; 1: wrong results, a loss that is NaN, a
    fallback from GPUDirect RDMA, or figures below --baseline or --min-efficiency; 5: a node is unreachable; 10: a rank
    died, hung or did not start; 11: the output cannot be parsed.
    """
    from clusterctl.rundir import default_root

    for mode in options.MODES:
        mode.refuse_excluded(
            what, ranks, sizes, iterations, comparison, instead, planned, acceptance, reports, printed
        )
    if instead.smoke and ranks.timeout_s is None:
        ranks = replace(ranks, timeout_s=bench_sweeps.SMOKE_TIMEOUT_S)
    requests = requests_of(
        what, ranks, sizes, iterations, training, allow_slow_path=acceptance.allow_slow_path
    )
    report_files.refuse_unwritable(reports.html, reports.junit, reports.csv, reports.prometheus)
    variants, times = bench_compare.chosen(comparison.compare, comparison.repeats, ranks.library)
    bench_compare.require_trainable(requests[0].training, variants)
    bench_ending.require_possible(printed.output, requests[0], as_json=as_json, compared=bool(variants))
    runs = runs or default_root(where.inventory)
    bench_trust.require_curve(acceptance.min_efficiency, requests[0])
    known = bench_trust.baseline_of(acceptance.baseline, runs, compared=comparison.compare is not None)
    session = bench_run.session_of(where, fanout, runs, accept_new_host_keys=accept_new_host_keys)
    requests = tuple(bench_run.with_launcher(session, request) for request in requests)
    if planned.dry_run:
        raise typer.Exit(bench_dry_run.run(session, requests, variants, as_json=as_json))
    if instead.preflight:
        raise typer.Exit(bench_preflight.run(session, requests[0], runs, label, as_json=as_json))

    show = bench_ending.shown(printed.output, as_json=as_json)
    if instead.smoke:
        all_ended = bench_sweeps.run_smoke(bench_run.Experiment(session, runs, label), requests[0], show)
    else:
        experiment = bench_run.Experiment(
            session, runs, label, variants, times, known, acceptance.min_efficiency
        )
        all_ended = bench_sweeps.run(experiment, requests, show)
    if as_json:
        document = bench_sweeps.smoke_document if instead.smoke else bench_sweeps.document
        console.emit_json(document(all_ended))
    way = None if where.containers else next_command.way(where.inventory, where.limit, runs=runs)
    raise typer.Exit(bench_ending.finish(all_ended, reports, way))
