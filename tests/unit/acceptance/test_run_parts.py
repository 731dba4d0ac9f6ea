"""Outcomes survive a cut, and pairs cover the ring."""

from __future__ import annotations

from clusterctl.acceptance.checked import NodeDevices
from clusterctl.acceptance.engine import rounds_of_pairs
from clusterctl.acceptance.model import Parsed, RowMeasurement, RowOutcome
from clusterctl.acceptance.on_node import outcome_of
from clusterctl.acceptance.outcomes import FILE, OutcomeFile


def test_outcomes_are_kept_and_a_line_that_was_cut_off_is_run_again(tmp_path):
    first = RowOutcome("a", "disk", parsed=Parsed((RowMeasurement("read_mbps", 1.5, "MB/s", True),)))
    kept = OutcomeFile(tmp_path)
    kept.add(first)
    kept.add(RowOutcome("b", "disk", not_run="fio not found"))
    with (tmp_path / FILE).open("ab") as stream:
        stream.write(b'{"node": "c", "row": "di')
    again = OutcomeFile(tmp_path)
    assert again.all[0] == first
    assert again.has("a", "disk", 0)
    assert not again.has("b", "disk", 0) and not again.has("c", "disk", 0) and not again.has("a", "disk", 1)
    again.add(RowOutcome("c", "disk"))
    assert OutcomeFile(tmp_path).has("c", "disk", 0)


def test_every_node_meets_both_neighbours_and_no_node_is_in_two_pairs_at_once():
    for count in range(3, 12):
        names = [f"n{i}" for i in range(count)]
        rounds = rounds_of_pairs(names)
        assert len(rounds) <= 3
        for pairs in rounds:
            busy = [name for pair in pairs for name in pair]
            assert len(busy) == len(set(busy))
        met = {frozenset(pair) for pairs in rounds for pair in pairs}
        assert met == {frozenset((names[i], names[(i + 1) % count])) for i in range(count)}
    assert rounds_of_pairs(["a", "b"]) == [[("a", "b")]]
    assert rounds_of_pairs(["a"]) == [[("a", "a")]]
    assert rounds_of_pairs([]) == []


def test_a_tool_and_its_version_are_named_once():
    def named(tool, version):
        return outcome_of(
            RowOutcome("a", "row", tool=tool), lambda _: Parsed(version=version), "", NodeDevices()
        ).tool

    assert named("torch 2.11.0", "torch 2.11.0+cu130") == "torch 2.11.0+cu130"
    assert named("fio-3.33", "fio-3.33") == named("fio-3.33", "") == "fio-3.33"
    assert named("stress-ng", "0.15.06") == "stress-ng 0.15.06"
    assert named("", "0.15.06") == "0.15.06"
