"""All-reduce in two dimensions: what it moves between two nodes of two ranks, which are network namespaces (root)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import shaped_networks
from shaped_networks import Networks

PLACES = str(Path(__file__).resolve().parent / "programs" / "places.py")
MEBIBYTES = 16
NODES, RANKS = 2, 4

# The shell execs twice, so that the process that the test knows is the rank.
INSIDE = ("sh", "-c", 'exec ip netns exec "$TEST_NETNS" "$@"', "inside", sys.executable)


@pytest.fixture(scope="module")
def possible(tier_unavailable: Callable[[str], None]) -> None:
    reason = shaped_networks.missing()
    if reason:
        tier_unavailable(reason)


@pytest.fixture
def networks(possible: None) -> Iterator[Networks]:
    """One rail of 2 Gbit/s between two nodes; nothing is left of it afterwards."""
    with shaped_networks.shaped_networks((2000,), mtu=9000) as made:
        yield made
    listed = subprocess.run(
        ("ip", "netns", "list"), capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert not any(name in listed for name in made.names)


def sent_share(networks: Networks, ranks: Any, side_of: Callable[[int], int], **more: str) -> list[float]:
    """Run one all_reduce; what the interface of each node sent, as a share of the data."""

    def of_rank(rank: int) -> Mapping[str, str]:
        return {
            "TEST_NETNS": networks.names[side_of(rank)],
            "CCORE_ROOT_ADDR": networks.address(0),
            "CCORE_NODE_ID": f"node{side_of(rank)}",
            "CCORE_SOCKET_IFNAME": "=" + ",".join(networks.rails),
            **more,
        }

    ranks.start((*INSIDE, PLACES, str(MEBIBYTES)), RANKS, of_rank)
    for one in ranks.finish():
        assert one.returncode == 0, one.output
        assert json.loads(one.output) == [side_of(rank) for rank in range(RANKS)]
    return [networks.sent_bytes(side, 0) / (MEBIBYTES << 20) for side in range(NODES)]


@pytest.mark.parametrize("placement", ["blocked", "cyclic"])
def test_a_node_sends_no_more_than_its_share(networks: Networks, ranks: Any, placement: str) -> None:
    side_of = (lambda rank: rank // 2) if placement == "blocked" else (lambda rank: rank % 2)
    share = 2 * (NODES - 1) / NODES
    for sent in sent_share(networks, ranks, side_of):
        assert share <= sent <= 1.05 * share, sent


def test_the_flat_ring_sends_more(networks: Networks, ranks: Any) -> None:
    share = 2 * (RANKS - 1) / RANKS
    off = {"LIGHT_2D_ALLREDUCE": "0", "CCORE_ALGO": "all_reduce:ring"}
    for sent in sent_share(networks, ranks, lambda rank: rank // 2, **off):
        assert share <= sent <= 1.05 * share, sent


TAKEN = """
import numpy
from collective_core.communicator import Communicator
with Communicator.from_environment() as comm:
    for count in (1 << 17, (1 << 17) + 1):
        comm.all_reduce(*[numpy.zeros(count, "f4")] * 2)
        print(comm.trace()[-1].algorithm)
"""


# As LightCC documents it: only data up to the threshold goes in two dimensions.
@pytest.mark.parametrize(("limit", "taken"), [(str(1 << 19), [True, False]), (str(1 << 30), [True, True])])
def test_more_than_the_threshold_of_lightcc_goes_flat(ranks: Any, limit: str, taken: list[bool]) -> None:
    given = {"LIGHT_INTRA_SIZE": "2", "LIGHT_HIERARCHICAL_THRESHOLD": limit}
    ranks.start((sys.executable, "-c", TAKEN), RANKS, lambda _: given)
    for one in ranks.finish():
        assert one.returncode == 0, one.output
        assert [name == "2d" for name in one.output.split()] == taken


def test_nodes_can_be_emulated(ranks: Any) -> None:
    ranks.start((sys.executable, PLACES, "1"), RANKS, lambda _: {"LIGHT_INTRA_SIZE": "2"})
    for one in ranks.finish():
        assert one.returncode == 0, one.output
        assert json.loads(one.output) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"CCORE_ALGO": "all_reduce:rong"}, "all_reduce has no algorithm 'rong'; it has "),
        ({"LIGHT_2D_ALLREDUCE": "yes"}, "LIGHT_2D_ALLREDUCE=yes: expected a whole number from 0 to 1"),
        ({"LIGHT_INTRA_SIZE": "-1"}, "LIGHT_INTRA_SIZE=-1: expected a whole number from 0"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(ranks: Any, setting: dict[str, str], expected: str) -> None:
    ranks.start((sys.executable, PLACES, "1"), 2, lambda _: setting)
    for one in ranks.finish():
        assert one.returncode == 1
        assert expected in one.output
