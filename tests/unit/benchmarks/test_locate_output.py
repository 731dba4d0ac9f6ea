"""The verdict comes from the rates that each rank wrote about itself, and from nothing else."""

from __future__ import annotations

import pytest
from locate_records import Ranks, record
from simulated_pairs import SimulatedFleet

from clusterctl.benchmarks import locate
from clusterctl.benchmarks.locate import LowWindow
from clusterctl.workloads.locate.verdict import SuspectState

NAMES = ("gpu01", "gpu02", "gpu03", "gpu04", "gpu05", "gpu06")


def slow_third(devices=None):
    """The ranks of a run in which gpu03 is slow."""
    return Ranks(SimulatedFleet(len(NAMES), 1, {(2, 0): 0.3}), devices=devices)


@pytest.fixture(scope="module")
def texts():
    return slow_third().run()


def test_the_slow_node_is_named(texts):
    found = locate.parse({**texts, 0: "# of the launcher\n" + texts[0]}, NAMES)
    assert [one.nodes for one in found.verdict.named] == [(2,)] and not found.faults
    assert (found.fleet.names, found.windows, found.alone) == (NAMES, 3, ())
    assert {(one.finding.nodes, one.test.value, one.status) for one in found.examined} == {
        ((2,), "sends", SuspectState.NAMED), ((2,), "receives", SuspectState.NAMED)
    }  # fmt: skip


def test_a_window_with_other_load_is_marked_and_names_no_rank(texts):
    busy = slow_third().run([{}, {1: 0.5e9, 2: 0.9e9, 4: 0.8e9}, {}])
    found = locate.parse(busy, NAMES)
    assert found.low_windows == (LowWindow(2, "gemm", (1, 4), 0.5),) and found.alone == ()
    assert locate.parse(texts, NAMES).low_windows == ()


@pytest.mark.parametrize(
    ("devices", "unlike", "status"),
    [
        (["H100"] * 2 + ["A100"] + ["H100"] * 3, {2: 1}, SuspectState.OPEN),
        (["A100"] + ["H100"] + ["A100"] + ["H100"] * 3, {0: 2, 2: 2}, SuspectState.OPEN),
        # Two other nodes with this device are well, so the device is not the reason.
        (["A100"] * 4 + ["H100"] * 2, {4: 2, 5: 2}, SuspectState.NAMED),
    ],
)
def test_a_node_is_not_named_if_its_device_may_be_the_reason(devices, unlike, status):
    found = locate.parse(slow_third(devices).run(), NAMES)
    assert {one.rank: one.peers for one in found.unlike} == unlike
    (slow,) = found.verdict.findings
    assert (slow.nodes, slow.status) == ((2,), status)
    assert found.suspected == (frozenset({"gpu03"}) if status is SuspectState.NAMED else frozenset())


def _changed(rank, old, new):
    return lambda texts: {**texts, rank: texts[rank].replace(old, new, 1)}


def _cut(rank, lines):
    return lambda texts: {**texts, rank: "".join(texts[rank].splitlines(keepends=True)[:lines])}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_cut(3, -1), "before its verdict: rank 3 did not write its last record"),
        (_cut(3, 8), "before its verdict"),
        (lambda texts: {rank: text for rank, text in texts.items() if rank != 2}, "before its verdict"),
        (lambda texts: {rank: _cut(rank, 8)(texts)[rank] for rank in texts}, "before its verdict"),
        (lambda texts: {**texts, 4: texts[4] + record("round", rank=4, met=[[0, 1.0]]) + "\n"}, "rank 4 wrote"),
        (_changed(1, '"rates": {"gemm": 1000000000.0}', '"rates": {"gemm": -1}'), "is not a rate"),
        (_changed(1, '"rates": {"gemm": 1000000000.0}', '"rates": {"gemm": true}'), "is not a rate"),
        (_changed(1, '"rates": {"gemm": 1000000000.0}', '"rates": {"gemm": 1e19}'), "is not a rate"),
        (_changed(1, '"rates": {"gemm": 1000000000.0}', '"rates": {}'), "something else alone than rank 0"),
        (_changed(1, '"met": [[', '"met": [[["a"], '), "is not a rank and its rate"),
        (_changed(1, '"met": [[', '"met": [[5, 1.0], ['), "rank 1 "),
        (_changed(1, '"rates"', '"rate"'), "rates"),
        (_changed(2, '"device": "cpu"', '"device": 5'), "a device is not a text"),
        (lambda _: {}, "before its verdict"),
    ],
)  # fmt: skip
def test_records_that_do_not_belong_together_are_no_verdict(texts, change, message):
    found = locate.parse(change(texts), NAMES)
    assert found.verdict is None
    (fault,) = found.faults
    assert message in fault.message


def test_a_rank_writes_nothing_for_another_one(texts):
    """Records in the name of another rank do not count, whatever they hold."""
    others = "".join(record("round", rank=rank, met=[[2, 0.001]]) + "\n" for rank in range(6) if rank != 1)
    found = locate.parse({**texts, 1: others + texts[1] + others}, NAMES)
    assert found.verdict == locate.parse(texts, NAMES).verdict


def test_a_run_whose_ranks_were_sent_other_rates_is_no_verdict(texts):
    """A liar that sends one rate and writes another makes the rounds differ from those that follow from the records."""
    slow = SimulatedFleet(len(NAMES), 1, {(4, 0): 0.3})
    other = Ranks(slow).run()
    found = locate.parse({**texts, 1: other[1]}, NAMES)
    assert found.verdict is None or [one.nodes for one in found.verdict.named] == [(2,)]


def test_the_ranks_of_one_node_are_compared_with_each_other():
    assert locate.parse({}, ("gpu01",) * 4).fleet.ranks == ((0,), (1,), (2,), (3,))


def test_the_command_names_the_node_of_each_rank():
    words = locate.words(("python3", "w.pyz", "locate"), "gloo", (0, 1, 0, 1), ("eth0", "eth1"), 60)
    assert words[3:] == (
        "--backend", "gloo", "--nodes", "0,1,0,1", "--seed", str(locate.SEED), "--rails", "eth0,eth1", "-T", "60"
    )  # fmt: skip
