"""Which ranks ``locate`` plans: with torch, or with collective_core alone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from clusterctl.benchmarks.neighbours import Neighbourhood
from clusterctl.errors import UsageError
from clusterctl.inventory.model import Node
from clusterctl.launch import locate, preflight, slow_parts
from clusterctl.launch.identity import SHOWN
from clusterctl.launch.readiness import assumed

RUNNER = SimpleNamespace(identity=lambda: SHOWN, directory=SHOWN.directory)
PERF = "/opt/bin/all_reduce_perf"


def nodes(gpus=0, torch="2.9", core_perf=PERF, **node):
    made = [assumed(Node(name=name, address=name, slots=max(1, gpus), gpus=gpus, **node)) for name in "abc"]
    return [replace(one, torch=torch, core_perf=core_perf) for one in made]


def asked(library="ccore", message_bytes=None):
    return locate.request(library, None, "openmpi", 60, message_bytes)


def planned(request, answers):
    chosen, launch, _ = locate.planned(request, answers, RUNNER)
    return chosen, launch, "--without-torch" in launch.program


@pytest.mark.parametrize("torch", [None, "2.9"])
@pytest.mark.parametrize("library", ["ccore", None])
def test_cpus_are_measured_with_collective_core_alone(library, torch):
    chosen, launch, without = planned(asked(library), nodes(torch=torch))
    assert without and chosen.unmet() == () and launch.np == 3
    assert list(locate._notes(chosen, locate._gpus_not_measured(chosen))) == []


def test_gpus_are_measured_with_torch_and_without_it_the_report_says_so():
    chosen, launch, without = planned(asked(), nodes(gpus=2))
    assert not without and launch.np == 6 and locate._gpus_not_measured(chosen) == ()
    answers = nodes(gpus=2)
    answers[1] = replace(answers[1], torch=None)
    chosen, launch, without = planned(asked(), answers)
    assert without and launch.np == 3
    assert list(locate._notes(chosen, locate._gpus_not_measured(chosen))) == [
        "the GPUs of a,b,c are not measured: torch is not installed on b; pairs move host memory"
    ]


@pytest.mark.parametrize(
    ("answers", "library", "message", "hint"),
    [
        (nodes(torch=None, core_perf=None), "gloo", "torch is not installed", "--library ccore"),
        (nodes(torch=None, core_perf=None), "ccore", "collective_core is not installed", "--library gloo"),
        (nodes(torch=None, core_perf=None), None, "collective_core is not installed", "--only python; or "),
        (nodes(gpus=1, torch=None), None, "torch is not installed", "--library ccore"),
    ],
)
def test_what_is_missing_is_reported_with_the_way_around_it(answers, library, message, hint):
    faults = preflight.judge(answers, locate._needs(asked(library), answers))
    assert len(faults) == 3 and message in faults[0].message and hint in faults[0].hint


@pytest.mark.parametrize("size", [1, 65535, (1 << 30) + 1])
def test_messages_that_measure_no_bandwidth_are_refused(size):
    with pytest.raises(UsageError, match=f"--bytes must be from 64K to 1G, not {size} bytes"):
        asked(message_bytes=size)


def test_the_size_of_a_message_reaches_the_ranks():
    program = planned(asked(message_bytes=1 << 20), nodes())[1].program
    assert program[program.index("--bytes") + 1] == "1048576"


@pytest.mark.parametrize(
    ("answers", "largest", "size"),
    [
        (nodes(torch=None), 1 << 20, "1048576"),
        (nodes(torch=None), 1 << 30, "4194304"),
        (nodes(torch=None), 1 << 10, None),
        (nodes(torch=None, core_perf=None), 1 << 20, None),
        (nodes(torch=None)[:2], 1 << 20, None),
        (nodes(), 1 << 20, None),
    ],
)
def test_bench_measures_pairs_of_nodes_without_torch(answers, largest, size):
    chosen, measured, _ = planned(asked(), answers)
    chosen = replace(chosen, request=replace(chosen.request, sweep={"max_bytes": largest}))
    assert chosen.sweep.max_bytes == largest
    found = slow_parts.plan(chosen, measured, Neighbourhood(), RUNNER)
    if size is None:
        assert found is None
    else:
        words = found[0].program
        assert "--pairs-only" in words and words[words.index("--bytes") + 1] == size
