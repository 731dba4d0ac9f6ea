"""Expected bandwidths held against published figures (expectation_cases/, each with its source)."""

import json
from pathlib import Path

import pytest

from clusterctl.trust import expectation
from clusterctl.trust.expectation import Inputs
from clusterctl.trust.links import NodeLinks, RdmaLink, nvlink

CASES = json.loads((Path(__file__).parent / "expectation_cases" / "published.json").read_text())


def inputs(case):
    gpus = case["gpus"]
    rates = case["nvlink"]
    found, why = nvlink(rates, [len(rates)] * (gpus * (gpus - 1)), gpus)
    rdma = tuple(RdmaLink(f"mlx5_{i}", 1, rate) for i, rate in enumerate(case["rdma_gbitps"]))
    return Inputs(
        case["collective"], case["ranks"], case["nodes"], NodeLinks(gpus, found, why, rdma),
        case.get("in_network"), case.get("mnnvl"),
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_published_figures(case):
    found = expectation.judge(inputs(case), case["rows"])
    assert found.verdict == case["verdict"], found
    assert case["source"]
    if "share" in case:
        assert found.share == pytest.approx(case["share"], abs=0.005)
    if found.verdict == "unknown":
        assert found.reason
    document = found.model_dump()
    assert document["verdict"] == case["verdict"]
    assert json.loads(json.dumps(document)) == document


def test_the_limit_is_never_below_what_is_expected():
    for case in CASES:
        bound = expectation.bound(inputs(case))
        if bound.expected_gbps is not None:
            assert bound.expected_gbps <= bound.limit_gbps * 1.001, case["name"]


@pytest.mark.parametrize(
    ("ranks", "nodes", "collective", "limit"),
    [
        # Bytes that must leave a node: 2(N-1)/N of the data for all_reduce without switches that reduce.
        (16, 2, "all_reduce", 400 * (15 / 16) * 2),
        (32, 4, "all_gather", 400 * (31 / 32) * (4 / 3)),
        (16, 2, "broadcast", 400),
        # Half of each of 8 ranks' data leaves its node.
        (16, 2, "alltoall", 400 * (15 / 16) * 2 / 8),
    ],
)
def test_limits_between_nodes(ranks, nodes, collective, limit):
    links = NodeLinks(8, nvlink([53.125] * 18, [18] * 56, 8)[0], "", (RdmaLink("mlx5_0", 1, 3200),))
    found = expectation.bound(Inputs(collective, ranks, nodes, links, False, False))
    assert found.limit_gbps == pytest.approx(limit)


def test_a_gibibyte_that_the_ranks_do_not_divide_is_judged():
    """nccl-tests' all_gather -e 1G on 24 ranks: parts are multiples of 16 bytes."""
    links = NodeLinks(8, nvlink([26.562] * 18, [18] * 56, 8)[0], "", (RdmaLink("mlx5_0", 1, 3200),))
    size = (1 << 30) // 24 // 16 * 16 * 24
    found = expectation.judge(
        Inputs("all_gather", 24, 3, links, False, False), [(size >> 1, 360.0), (size, 200.0)]
    )
    assert (found.verdict, found.size_bytes) == ("slow", size)


def test_nothing_is_guessed():
    one = NodeLinks(1, None, "one GPU")
    assert expectation.bound(Inputs("all_reduce", 4, 1, None)).why == "the nodes' links are not known"
    assert expectation.bound(Inputs("all_reduce", 1, 1, one)).expected_gbps is None
    assert expectation.bound(Inputs("all_reduce", 3, 2, one)).why == "the nodes have unequal numbers of ranks"
    assert "no bound is defined for gather" in expectation.bound(Inputs("gather", 4, 1, one)).why
    # Whether NVLink joins the nodes of B200s is not known without NCCL's log.
    links = NodeLinks(8, nvlink([53.125] * 18, [18] * 56, 8)[0], "", (RdmaLink("mlx5_0", 1, 400),))
    assert "MNNVL" in expectation.bound(Inputs("all_reduce", 16, 2, links)).why
    assert (
        expectation.judge(Inputs("all_reduce", 16, 2, links, None, False), []).reason
        == "nothing was measured"
    )


def test_bonded_ports_bound_nothing():
    """Two ports of 200 Gb/s read as one, and 8 such bonds carry more than its 200 GB/s."""
    inside = nvlink([26.562] * 18, [18] * 56, 8)[0]
    ports = tuple(RdmaLink(f"mlx5_bond_{i}", 1, 200) for i in range(8))
    found = expectation.judge(
        Inputs("all_gather", 32, 4, NodeLinks(8, inside, "", ports), False, False), [(1 << 30, 350.0)]
    )
    assert found.verdict == "unknown" and "mlx5_bond_0" in found.reason
    # One beside faster ports is for storage, and changes nothing.
    links = NodeLinks(8, inside, "", (RdmaLink("mlx5_0", 1, 3200), RdmaLink("mlx5_bond_0", 1, 100)))
    assert expectation.bound(Inputs("all_gather", 32, 4, links, False, False)).expected_gbps is not None


@pytest.mark.parametrize(
    ("count", "said", "verdict"),
    [(32, 100, "fine"), (16, 200, "fine"), (16, 100, "unknown"), (8, 100, "unknown"), (8, 400, "fine")],
)
def test_rates_that_only_the_driver_of_efa_says(count, said, verdict):
    """P5, P5en with a driver that asks and one that does not, and the same of P6: all carry 400 GB/s."""
    ports = tuple(RdmaLink(f"rdmap{79 + i}s0", 1, said) for i in range(count))
    links = NodeLinks(8, nvlink([26.562] * 18, [18] * 56, 8)[0], "", ports)
    found = expectation.judge(Inputs("all_gather", 32, 4, links, False, False), [(1 << 30, 350.0)])
    assert found.verdict == verdict
    assert verdict == "fine" or "EFA" in found.reason


@pytest.mark.parametrize(
    ("rates", "pairs", "gpus", "generation", "why"),
    [
        ([26.562] * 18, [18] * 12, 4, 4, ""),
        ([25.781] * 12, [12] * 56, 8, 3, ""),
        ([25.781] * 6, [6] * 56, 8, 2, ""),
        ([25.781] * 6, [1, 2] * 28, 8, None, "no NVSwitch"),
        ([26.562] * 17, [18] * 12, 4, None, "no NVSwitch"),
        ([31.0] * 4, [4] * 2, 2, None, "no known NVLink generation"),
        ([], [], 4, None, "no NVLink"),
    ],
)
def test_nvlink_of_a_node(rates, pairs, gpus, generation, why):
    found, said = nvlink(rates, pairs, gpus)
    assert (found.generation if found else None) == generation
    assert why in said
