"""What the links carry, measured by real ranks over a shaped network, and put to use (root)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import shaped_networks
from collective_core.link_matrix import text_of
from shaped_networks import Networks

MEASURE = ("-m", "collective_core.link_matrix")
# The shell execs twice, so that the process that the test knows is the rank.
INSIDE = ("sh", "-c", 'exec ip netns exec "$TEST_NETNS" "$@"', "inside", sys.executable)
# Memory carries 1.1 GB/s on an idle machine and 0.03 on one with 16 processes for 2 cores, the link 0.005. A burst
# after a pause raises that.
FASTER = 3
USED = """
import numpy
from collective_core.communicator import Communicator
with Communicator.from_environment(timeout_s=60) as comm:
    data = numpy.full(1 << 16, comm.rank + 1.0)
    comm.all_reduce(data, data)
    assert (data == sum(range(1, comm.size + 1))).all()
    print(comm.trace()[-1].algorithm)
"""


@pytest.fixture
def networks(tier_unavailable: Callable[[str], None]) -> Iterator[Networks]:
    """Two nodes with 40 Mbit/s between them."""
    reason = shaped_networks.missing()
    if reason:
        tier_unavailable(reason)
    with shaped_networks.shaped_networks((40,)) as made:
        yield made


def cells_of(text: str) -> list[list[str]]:
    return [line.partition("#")[0].split() for line in text.splitlines() if not line.startswith("#")]


def test_a_slow_link_is_seen_and_the_file_is_used(networks: Networks, ranks: Any, tmp_path: Path) -> None:
    links = tmp_path / "links.txt"
    sides = (0, 0, 1)

    def of_rank(rank: int) -> Mapping[str, str]:
        return {
            "TEST_NETNS": networks.names[sides[rank]],
            "CCORE_ROOT_ADDR": networks.address(0),
            "CCORE_NODE_ID": f"node{sides[rank]}",
            "CCORE_SOCKET_IFNAME": "=" + ",".join(networks.rails),
        }

    ranks.start((*INSIDE, *MEASURE, "--output", str(links)), 3, of_rank)
    assert [(one.returncode, one.output) for one in ranks.finish()] == [(0, "")] * 3
    cells = cells_of(links.read_text())
    assert [cells[rank][rank] for rank in range(3)] == ["X"] * 3
    rates = {
        (row, column): float(cells[row][column])
        for row in range(3) for column in range(3) if row != column
    }  # fmt: skip
    over_the_link = [rate for pair, rate in rates.items() if 2 in pair]
    in_memory = [rate for pair, rate in rates.items() if 2 not in pair]
    assert 0 < max(over_the_link) * FASTER < min(in_memory), rates
    ranks.processes.clear()
    ranks.start((*INSIDE, "-c", USED), 3, lambda rank: {**of_rank(rank), "CCORE_LINK_MATRIX": str(links)})
    assert [one.output for one in ranks.finish()] == ["n_trees\n"] * 3


def test_it_is_printed_without_a_file_and_a_folder_that_is_not_there_is_said(
    ranks: Any, tmp_path: Path
) -> None:
    ranks.start((sys.executable, *MEASURE), 2)
    printed = [one.output for one in ranks.finish()]
    assert [len(row) for row in cells_of(printed[0])] == [2, 2] and printed[1] == ""
    ranks.processes.clear()
    missing = tmp_path / "missing" / "links.txt"
    ranks.start((sys.executable, *MEASURE, "-o", str(missing)), 2)
    first, second = ranks.finish()
    assert first.returncode == 1 and first.output == f"cannot write {missing}: No such file or directory\n"
    assert (second.returncode, second.output) == (0, "")


def test_the_text_names_the_ranks() -> None:
    text = text_of([[0, 12.34567], [11, 0]], ["gpu01", "gpu02"])
    assert [line.split() for line in text.splitlines()[1:]] == [
        ["X", "12.35", "#", "rank", "0,", "gpu01"],
        ["11", "X", "#", "rank", "1,", "gpu02"],
    ]
