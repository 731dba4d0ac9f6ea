"""``bench --dry-run``: print the commands and files of a run, without starting a rank."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from clusterctl.cli import console, launch_output

if TYPE_CHECKING:
    from clusterctl.benchmarks.base import Fault
    from clusterctl.cli.session import Session
    from clusterctl.launch.preflight import Readiness
    from clusterctl.launch.request import Request
    from clusterctl.launch.variants import Variant


def run(session: Session, requests: Sequence[Request], variants: Sequence[Variant], *, as_json: bool) -> int:
    """Probe the nodes, plan the launches of every sweep and variant, print them, and return the exit code."""
    from clusterctl.benchmarks.collective import program_of
    from clusterctl.cli.bench.run import runner_of, terminable
    from clusterctl.documents.launch import PlannedLaunches
    from clusterctl.launch.identity import SHOWN
    from clusterctl.launch.interleave import request_of
    from clusterctl.launch.plan import plan
    from clusterctl.launch.user_program import brought

    wished = [
        (one, request if one is None else request_of(request, one, variants))
        for request, one in product(requests, variants or (None,))
    ]
    answers_of: dict[tuple[str, str | None], tuple[Readiness, ...]] = {}
    with terminable(), runner_of(session) as runner:
        for _, request in wished:
            if (key := (request.collective, request.library)) in answers_of:
                continue
            answers_of[key], faults = runner.prepare({}, program_of(request.collective), request.library)
            if faults:
                return _failed(faults, session, as_json=as_json)
    # Every request has the same program.
    brought_files = {} if (program := requests[0].program) is None else brought(program)
    shown: list[str] = []
    launches: list[dict[str, Any]] = []
    for one, request in wished:
        chosen = plan(request, answers_of[request.collective, request.library], SHOWN)
        chosen.require_partner()
        for note in chosen.notes():
            console.talk(f"note: {note}")
        faults = chosen.unmet()
        if faults:
            return _failed(faults, session, as_json=as_json)
        planned = chosen.launches()
        if len(requests) > 1:
            shown.append(f"# {chosen.sweep.title}")
        names = {"launcher": chosen.launcher.name, "library": chosen.library}
        if one is not None:
            shown.append(f"# variant {one.name}")
            names = {"variant": one.name, **names}
        shown.append(launch_output.text(planned))
        more = {**names, "brought": brought_files or None}
        launches += [{**more, **document} for document in launch_output.documents(planned)]
    if brought_files:
        shown.append(launch_output.brought_text(brought_files))
    if as_json:
        document = PlannedLaunches.model_validate({"status": "ok", "launches": launches, "failures": []})
        console.emit_json(document.document())
    else:
        console.data("\n".join(shown))
        console.talk(
            "note: each run replaces TOKEN and MARK by random texts, and chooses the ports of the rendezvous"
        )
    return 0


def _failed(faults: Sequence[Fault], session: Session, *, as_json: bool) -> int:
    from clusterctl.cli.bench.run import say_without
    from clusterctl.documents.launch import PlannedLaunches
    from clusterctl.report.text.failures import fault_lines
    from clusterctl.results.model import exit_code

    if as_json:
        document = PlannedLaunches.model_validate({"status": "failed", "launches": [], "failures": faults})
        console.emit_json(document.document())
    for line in fault_lines(faults):
        console.talk(line)
    say_without(faults, session.inventory.nodes)
    return exit_code(tuple(faults))
