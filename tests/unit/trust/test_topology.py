"""NCCL's dumps of a topology and of rings and trees, and which nodes are equal."""

from dataclasses import replace

import pytest
from topology_documents import CASES, GRAPHS, HGX, SLOW_CARD

from clusterctl.documents.evidence import NvLinkBundle
from clusterctl.report.text.topology import difference_lines
from clusterctl.text.foreign import NotUnderstood
from clusterctl.trust.topology import groups, nccl_dump
from clusterctl.trust.topology.model import pcie

FEWER = "NVLinks of GPU 0 to NVSwitch: 16 (others: 18)"
WHOLE = "Gen5 x16, 400 Gb/s, on the switch of GPU 7, NUMA node 1"


def case(name):
    return (CASES / f"{name}.xml").read_text().strip()


def test_a_board_with_a_switch_and_a_card_for_each_gpu():
    found = nccl_dump.parse_topology(HGX)
    assert [(domain.name, len(domain.below)) for domain in found.domains] == [
        ("NUMA node 0", 4),
        ("NUMA node 1", 4),
    ]
    switch = found.domains[0].below[1]
    assert (switch.kind, switch.address, switch.link) == ("switch", "0000:27:00.0", "Gen5 x16")
    gpu, card = switch.below
    assert (gpu.kind, gpu.name, gpu.address, gpu.link) == ("gpu", "GPU 1", "0000:2a:00.0", "Gen5 x16")
    assert (card.kind, card.name, card.address, card.rate) == ("nic", "mlx5_1", "0000:29:00.0", "400 Gb/s")
    assert found.nvlinks == tuple(NvLinkBundle(f"GPU {number}", "NVSwitch", 18) for number in range(8))
    assert found.labels()["mlx5_5"] == "Gen5 x16, 400 Gb/s, on the switch of GPU 5, NUMA node 1"


def test_a_guest_shows_neither_switches_nor_numa_nodes():
    found = nccl_dump.parse_topology(case("h200-vm-topo"))
    (domain,) = found.domains
    assert domain.name == "CPU"
    assert [(part.name, part.link) for part in domain.below] == [
        ("GPU 0", "Gen4 x16"),
        ("GPU 1", ""),
        ("eth0", ""),
    ]


def test_nvlinks_between_two_gpus_are_one_bundle():
    assert nccl_dump.parse_topology(case("a100-pairs-topo")).nvlinks == (NvLinkBundle("GPU 0", "GPU 1", 12),)


def test_of_hosts_that_nvlink_connects_the_one_with_the_rank_is_shown():
    text = case("gb300-two-trays-topo")
    first, second = nccl_dump.parse_topology(text, 0), nccl_dump.parse_topology(text, 1)
    assert [part.link for part in first.domains[0].below] == ["NVLink-C2C x5"]
    assert (len(first.nvlinks), len(second.nvlinks)) == (1, 0)


def test_channels_of_one_order_are_counted_and_cards_have_names():
    ring, tree, nvls = nccl_dump.parse_graphs(GRAPHS, HGX)
    assert (ring.name, ring.channels, ring.intra_gbps, ring.inter_path) == ("ring", 16, 20.0, "PIX")
    assert len(ring.orders) == 8
    assert ring.orders[1].gpus[:3] == ("GPU 1", "GPU 0", "GPU 7")
    assert (ring.orders[1].enters, ring.orders[1].leaves, ring.orders[1].channels) == ("mlx5_1", "mlx5_1", 2)
    assert (tree.name, tree.channels) == ("tree", 8)
    assert {len(order.gpus) for order in nvls.orders} == {1}
    # Between hosts that NVLink connects, a number also holds the host.
    assert nccl_dump.parse_graphs(GRAPHS.replace('<gpu dev="0"', f'<gpu dev="{1 << 56}"'), HGX)[0] == ring


def test_devices_of_a_graph_in_base_16():
    assert nccl_dump.parse_graphs(GRAPHS.replace(' dev="', ' dev="0x'), HGX) == nccl_dump.parse_graphs(
        GRAPHS, HGX
    )


def test_equal_nodes_are_one_group_and_a_difference_is_named():
    good = replace(nccl_dump.parse_topology(HGX), graphs=nccl_dump.parse_graphs(GRAPHS, HGX))
    # Serial numbers and bus numbers differ between equal nodes.
    same = nccl_dump.parse_topology(HGX.replace("0xa87cb1", "0xb87cb1").replace("0000:c8:", "0000:c9:"))
    slow = nccl_dump.parse_topology(SLOW_CARD.replace('count="5"', 'count="3"', 1))
    lost = nccl_dump.parse_topology(HGX.replace('<net name="mlx5_7"', '<gone name="mlx5_7"'))
    found = groups.part({"gpu01": good, "gpu02": slow, "gpu03": same, "gpu04": lost})
    assert [group.nodes for group in found.groups] == [("gpu01", "gpu03"), ("gpu02",), ("gpu04",)]
    assert found.groups[0].other_graphs == ("gpu03",)
    assert difference_lines(found) == [
        f"gpu02 differs from gpu[01,03]: mlx5_5: 200 Gb/s (others: 400 Gb/s); {FEWER}",
        f"gpu04 differs from gpu[01,03]: mlx5_7: absent (others: {WHOLE})",
    ]


def test_a_fleet_of_unequal_nodes_stays_small():
    kinds = {
        f"gpu{number:02}": nccl_dump.parse_topology(HGX.replace("400000", str(number)))
        for number in range(1, 13)
    }
    found = groups.part(kinds)
    assert sum(group.domains is not None for group in found.groups) == groups.MOST_PICTURES
    assert len(found.differences) == 11
    assert {len(one.parts) for one in found.differences} == {8}


@pytest.mark.parametrize(
    "text",
    [
        "", "<system", "<graphs/>", HGX[:900], f"<?xml version='1.0'?>{HGX}",
        '<!DOCTYPE s [<!ENTITY a "b">]><system>&a;</system>', "<system>" + "<pci>" * 40 + "</pci>" * 40 + "</system>",
        HGX.replace('dev="3"', 'dev="x"'), HGX.replace('count="5"', f'count="{"9" * 5000}"'),
        "<system><cpu>" + "<pci/>" * 2000 + "</cpu></system>",
    ],
)  # fmt: skip
def test_what_is_not_a_dump_is_refused(text):
    with pytest.raises(NotUnderstood):
        nccl_dump.parse_topology(text)


def test_a_link_is_named_by_its_generation():
    assert (pcie(32.0, 16), pcie(2.5, 8), pcie(None, 4), pcie(7.0, None)) == ("Gen5 x16", "Gen1 x8", "x4", "")
