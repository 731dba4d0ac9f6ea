"""The live state of ``locate``: the phase and its round, from records that arrive in any pieces."""

from __future__ import annotations

import pytest

from clusterctl.cli.locate.live import LocateViewer


def record(kind):
    return f'clusterctl-record {{"kind": "locate-{kind}", "rates": [[0, 1, 0, 1.4]]}}\n'


RUN = (
    record("start") + record("devices") + 3 * record("window") + 10 * record("round") + 2 * record("cause")
    + "".join(
        f'clusterctl-record {{"kind": "locate-repeated", "round": {number}, "rank": 0, "met": []}}\n'
        for number in (3, 4)
    ) + record("end")
)  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 100, len(RUN)])
def test_each_record_moves_the_state_whatever_the_pieces(size):
    said = []
    viewer = LocateViewer(said.append)
    viewer.started(4)
    for at in range(0, len(RUN), size):
        viewer.said(RUN[at : at + size])
    assert said[-1] == "random pairs, round 4"
    if size == 1:
        assert said[0] == "each rank alone, window 1" and "pairs, round 8 of 8" in said
        assert "confirming, round 2" in said and "why it is slow, round 1" in said


def test_what_a_rank_prints_besides_is_no_progress():
    said = []
    LocateViewer(said.append).said("warning: locate-round\n" * 100)
    assert said == []
