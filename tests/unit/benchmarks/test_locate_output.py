"""The verdict comes from the rates in rank 0's records, and from nothing else."""

from __future__ import annotations

import json

import pytest
from simulated_pairs import SimulatedFleet

from clusterctl.benchmarks import locate
from clusterctl.benchmarks.locate_windows import LowWindow
from clusterctl.workloads.locate import cause
from clusterctl.workloads.locate.search import search
from clusterctl.workloads.locate.verdict import SuspectState

NAMES = ("gpu01", "gpu02", "gpu03", "gpu04", "gpu05", "gpu06")


def record(kind, **fields):
    return "clusterctl-record " + json.dumps({"kind": kind, **fields})


@pytest.fixture(scope="module")
def lines():
    """The records of a run in which gpu03 is slow."""
    fleet = SimulatedFleet(len(NAMES), 1, {(2, 0): 0.3})
    found = [record("locate-start", ranks=6, seed=locate.SEED), record("locate-devices", devices=["cpu"] * 6)]
    found += [record("locate-window", rates={"gemm": [1e9] * 6})] * 3
    steps = search(len(NAMES), locate.SEED)
    planned = next(steps)
    while planned:
        values = fleet.answer(planned)
        found.append(
            record("locate-round", rates=[[*pair, place, rate] for (pair, place), rate in values.items()])
        )
        try:
            planned = steps.send(values)
        except StopIteration as ended:
            planned, verdict = None, ended.value
    tests = cause.examine(verdict.named, len(NAMES), locate.SEED)
    probe = next(tests)
    while probe:
        values = fleet.probe(probe)
        found.append(
            record("locate-cause", rates=[[*pair, place, rate] for (pair, place), rate in values.items()])
        )
        try:
            probe = tests.send(values)
        except StopIteration:
            probe = None
    return [*found, record("locate-end")]


def test_the_slow_node_is_named(lines):
    found = locate.parse("\n".join(["# of the launcher", *lines]), NAMES)
    assert [one.nodes for one in found.verdict.named] == [(2,)] and not found.faults
    assert (found.fleet.names, found.windows, found.alone) == (NAMES, 3, ())
    assert {(one.finding.nodes, one.test.value, one.status) for one in found.examined} == {
        ((2,), "sends", SuspectState.NAMED), ((2,), "receives", SuspectState.NAMED)
    }  # fmt: skip


def test_a_window_with_other_load_is_marked_and_names_no_rank(lines):
    windows = [line for line in lines if '"locate-window"' in line]
    busy = record("locate-window", rates={"gemm": [1e9, 0.5e9, 0.9e9, 1e9, 0.8e9, 1e9]})
    others = [line for line in lines if line not in windows]
    found = locate.parse("\n".join([*others[:2], windows[0], busy, windows[0], *others[2:]]), NAMES)
    assert found.low_windows == (LowWindow(2, "gemm", (1, 4), 0.5),) and found.alone == ()
    assert locate.parse("\n".join(lines), NAMES).low_windows == ()


@pytest.mark.parametrize(
    ("devices", "unlike", "status"),
    [
        (["H100"] * 2 + ["A100"] + ["H100"] * 3, {2: 1}, SuspectState.OPEN),
        (["A100"] + ["H100"] + ["A100"] + ["H100"] * 3, {0: 2, 2: 2}, SuspectState.OPEN),
        # Two other nodes with this device are well, so the device is not the reason.
        (["A100"] * 4 + ["H100"] * 2, {4: 2, 5: 2}, SuspectState.NAMED),
    ],
)
def test_a_node_is_not_named_if_its_device_may_be_the_reason(lines, devices, unlike, status):
    changed = [line.replace(json.dumps(["cpu"] * 6), json.dumps(devices)) for line in lines]
    found = locate.parse("\n".join(changed), NAMES)
    assert {one.rank: one.peers for one in found.unlike} == unlike
    (slow,) = found.verdict.findings
    assert (slow.nodes, slow.status) == ((2,), status)
    assert found.suspected == (frozenset({"gpu03"}) if status is SuspectState.NAMED else frozenset())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "before its verdict"),
        (lambda lines: [*lines[:8], lines[-1]], "before its verdict"),
        (lambda lines: [*lines[:-1], lines[-2], lines[-1]], "lead to the verdict"),
        (lambda lines: [line.replace("[0, ", "[4, ", 1) for line in lines], "do not meet in this round"),
        (lambda lines: [line.replace("[1000000000.0,", "[-1,", 1) for line in lines], "is not a rate"),
        (lambda lines: [line.replace("[1000000000.0,", "[true,", 1) for line in lines], "is not a rate"),
        (lambda lines: [line.replace("[1000000000.0,", "[", 1) for line in lines], "without the rates of all ranks"),
        (lambda lines: [line.replace('"rates"', '"rate"') for line in lines], "rates"),
        (lambda lines: [line.replace('["cpu", ', "[", 1) for line in lines], "5 devices for 6 ranks"),
        (lambda _: [], "before its verdict"),
    ],
)  # fmt: skip
def test_records_that_do_not_belong_together_are_no_verdict(lines, change, message):
    found = locate.parse("\n".join(change(list(lines))), NAMES)
    assert found.verdict is None
    (fault,) = found.faults
    assert message in fault.message


def test_the_ranks_of_one_node_are_compared_with_each_other():
    assert locate.parse("", ("gpu01",) * 4).fleet.ranks == ((0,), (1,), (2,), (3,))


def test_the_command_names_the_node_of_each_rank():
    words = locate.words(("python3", "w.pyz", "locate"), "gloo", (0, 1, 0, 1), ("eth0", "eth1"), 60)
    assert words[3:] == (
        "--backend", "gloo", "--nodes", "0,1,0,1", "--seed", str(locate.SEED), "--rails", "eth0,eth1", "-T", "60"
    )  # fmt: skip
