"""A man in the middle of two real ranks flips one bit: both end with an error that says so, and no sum is wrong."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from altering_proxy import Flip, altering_proxy

PROGRAM = str(Path(__file__).resolve().parent / "programs" / "reduce_and_check.py")
RANK_0, RANK_1 = (rf"rank {rank} \(host \S+ pid \d+\)" for rank in (0, 1))
# On the wire after the handshake, all_reduce of 16 bytes between two ranks by doubling, one message each way per round:
HEADER_BYTES, TAG_BYTES, PAYLOAD_BYTES, FRAME_BYTES = 56, 8, 16, 24
MESSAGE_BYTES = HEADER_BYTES + TAG_BYTES + PAYLOAD_BYTES
ROUND = 50
"""In whose header a bit is flipped."""
IN_ROUND = ROUND * MESSAGE_BYTES
IN_FRAME = ROUND * (FRAME_BYTES + MESSAGE_BYTES)


def ended(
    ranks: Any, folder: Path, preload: Any, flip: Flip, *arguments: str, streams: int = 1
) -> list[dict[str, Any]]:
    """Two ranks, the second of which connects through the proxy; what they said at their end."""
    with altering_proxy(folder, flip) as proxy:
        through = {"LD_PRELOAD": str(preload("through_proxy")), **proxy.environment()}

        def per_rank(rank: int) -> dict[str, str]:
            own = {
                "CCORE_TRANSPORT": "tcp",
                "CCORE_ALGO": "all_reduce:doubling",
                "CCORE_TCP_STREAMS": str(streams),
            }
            return {**own, **(through if rank == 1 else {})}

        ranks.start((sys.executable, PROGRAM, *arguments), 2, per_rank)
        reports = []
        for one in ranks.finish(timeout_s=90):
            assert one.returncode == 7, one.output
            reports.append(json.loads(one.output.splitlines()[-1]))
        assert proxy.flipped == 1
    for report in reports:
        assert report["code"] == "REMOTE", report
        assert report["after_s"] < 15, report  # both deadlines are 30 s
    return reports


@pytest.mark.parametrize(
    ("at", "by_connecting"),
    [
        pytest.param(0, True, id="magic"),
        pytest.param(4, False, id="kind"),
        pytest.param(8, True, id="sequence"),
        pytest.param(16, False, id="count"),
        pytest.param(24, True, id="dtype"),
        pytest.param(HEADER_BYTES, True, id="tag"),
        pytest.param(HEADER_BYTES + 7, False, id="tag-end"),
    ],
)
def test_the_header_of_a_message(
    ranks: Any, tmp_path: Path, preload: Any, at: int, by_connecting: bool
) -> None:
    reports = ended(ranks, tmp_path, preload, Flip("data", IN_ROUND + at, by_connecting), "1000")
    sender = RANK_1 if by_connecting else RANK_0
    for report in reports:
        assert re.search(
            rf"the header of message {ROUND + 1} from {sender} is not authentic", report["text"]
        ), report
        assert ROUND <= report["rounds"] <= ROUND + 1, report


@pytest.mark.parametrize(
    "at", [pytest.param(4, id="length"), pytest.param(8, id="offset"), pytest.param(16, id="tag")]
)
def test_the_header_of_a_frame_among_several_streams(
    ranks: Any, tmp_path: Path, preload: Any, at: int
) -> None:
    reports = ended(ranks, tmp_path, preload, Flip("data", IN_FRAME + at, bit=3), "100000", streams=2)
    for report in reports:
        assert re.search(
            rf"frame \d+ from {RANK_1} \(connection 1 of 2\) is not authentic", report["text"]
        ), report


def test_a_goodbye_that_becomes_something_else(ranks: Any, tmp_path: Path, preload: Any) -> None:
    """Without its tag, rank 0 would take it for an error of rank 1, which has left in peace."""
    with altering_proxy(tmp_path, Flip("control", 0, bit=1)) as proxy:
        through = {"LD_PRELOAD": str(preload("through_proxy")), **proxy.environment()}
        per_rank = {"CCORE_TRANSPORT": "tcp"}
        ranks.start(
            (sys.executable, PROGRAM, "20", "leaves"),
            2,
            lambda rank: {**per_rank, **(through if rank == 1 else {})},
        )
        first, second = ranks.finish(timeout_s=90)
        assert proxy.flipped == 1
    assert (second.returncode, second.output) == (0, "done\n")
    assert first.returncode == 7, first.output
    report = json.loads(first.output.splitlines()[-1])
    assert report["code"] == "REMOTE" and report["rounds"] == 20, report
    assert re.search(rf"control message 1 from {RANK_1} is not authentic", report["text"]), report


@pytest.mark.parametrize(
    ("at", "by_connecting"),
    [
        pytest.param(7, False, id="size"),
        pytest.param(16 + 24, False, id="an-address"),
        pytest.param(0, True, id="status"),
    ],
)
def test_what_ranks_tell_each_other_when_they_meet(
    ranks: Any, tmp_path: Path, preload: Any, at: int, by_connecting: bool
) -> None:
    reports = ended(ranks, tmp_path, preload, Flip("rendezvous", at, by_connecting), "10")
    sender = "rank 1" if by_connecting else "the rendezvous of rank 0"
    for report in reports:
        assert re.search(rf"message \d from {sender} is not authentic", report["text"]), report
        assert report["rounds"] == 0
