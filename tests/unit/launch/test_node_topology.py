"""A node's topology from its facts, and the lanes that NCCL's dump does not show."""

from case_facts import facts_of
from topology_documents import HGX

from clusterctl.documents.evidence import NvLinkBundle
from clusterctl.launch import node_topology
from clusterctl.launch.nccl_dumps import NcclDump

UP = "0000:20:01.1/0000:21:00.0"
FACTS = {
    "pci": [
        "0000:20:01.1 060400 1022:14ab",
        f"{UP} 060400 1000:c030 port=upstream-port",
        f"{UP}/0000:22:00.0 060400 1000:c030 port=downstream-port",
        f"{UP}/0000:22:00.0/0000:23:00.0 030200 10de:2330 link=2.5/8/32/16",
        f"{UP}/0000:22:01.0 060400 1000:c030 port=downstream-port",
        f"{UP}/0000:22:01.0/0000:24:00.0 020700 15b3:1021",
        f"{UP}/0000:22:01.0/0000:24:00.1 020700 15b3:1021 physfn=0000:24:00.0",
        "0000:40:01.1/0000:41:00.0 030200 10de:2330",
        "0000:42:00.0 030200 10de:2330",
    ],
    "gpus": ["0000:23:00.0 NVIDIA_H100", "0000:41:00.0 NVIDIA_H100", "0000:42:00.0 NVIDIA_H100"],
    "rdma": [
        "mlx5_0 pci=0000:24:00.0 1:ACTIVE:LinkUp:400:InfiniBand",
        "mlx5_1 pci=0000:24:00.1 1:DOWN:Disabled:10:InfiniBand",
    ],
    "topology": " ".join(f"GPU{a}-GPU{b}=NV18" for a in range(3) for b in range(3) if a != b),
}


def test_parts_are_below_their_switches():
    found = node_topology.of_facts(facts_of(FACTS))
    (domain,) = found.domains
    switch, direct, other = domain.below
    assert (domain.name, switch.address, direct.name, other.name) == (
        "NUMA node 0", "0000:21:00.0", "GPU 1", "GPU 2",
    )  # fmt: skip
    gpu, card = switch.below
    # An idle GPU lowers its rate, but not its lanes. A function of a guest is not shown.
    assert (gpu.name, gpu.link, gpu.degraded) == ("GPU 0", "Gen5 x16", "only x8")
    assert (card.name, card.link, card.rate, card.degraded) == ("mlx5_0", "Gen5 x16", "400 Gb/s", "")
    assert found.nvlinks == tuple(NvLinkBundle(f"GPU {number}", "NVSwitch", 18) for number in range(3))


def test_some_nvlinks_between_pairs_are_not_those_of_a_switch():
    pairs = "GPU0-GPU1=NV4 GPU1-GPU0=NV4 GPU0-GPU2=SYS GPU2-GPU0=SYS GPU1-GPU2=NV2 GPU2-GPU1=NV2"
    found = node_topology.of_facts(facts_of({**FACTS, "topology": pairs}))
    assert found.nvlinks == (NvLinkBundle("GPU 0", "GPU 1", 4), NvLinkBundle("GPU 1", "GPU 2", 2))


def test_without_gpus_or_without_the_bus_nothing_is_drawn():
    assert node_topology.of_facts(facts_of({**FACTS, "gpus": []})) is None
    assert node_topology.of_facts(facts_of({**FACTS, "pci": "failed"})) is None


def test_a_card_is_an_interface_where_no_rdma_device_exists():
    facts = facts_of({**FACTS, "rdma": []})
    assert [part.name for part in node_topology.of_facts(facts).domains[0].below[0].below] == ["GPU 0"]


def test_lanes_that_are_missing_are_marked_in_the_dump_of_nccl():
    facts = facts_of(
        {**FACTS, "pci": ["0000:16:00.0/0000:17:00.0/0000:18:00.0 030200 10de:2335 link=32/8/32/16"]}
    )
    found = node_topology.part(
        ["a", "b"], {"a": NcclDump(0, HGX, ""), "b": NcclDump(8, HGX, "")}, {"b": facts}
    )
    ((difference),) = found.differences
    assert difference.parts[0].value == ("Gen5 x16, only x8, on the switch of GPU 0, NUMA node 0")


def test_a_dump_that_cannot_be_read_gives_way_to_facts(caplog):
    facts = facts_of(FACTS)
    found = node_topology.part(["a"], {"a": NcclDump(0, "<system>", "")}, {"a": facts})
    assert found.groups[0].source == "facts"
    assert "a: the topology that NCCL wrote cannot be read" in caplog.text
    partly = node_topology.part(["a"], {"a": NcclDump(0, HGX, "<graphs")}, {})
    assert (partly.groups[0].source, partly.groups[0].graphs) == ("nccl", ())
    assert node_topology.part(["a"], {}, {}) is None
