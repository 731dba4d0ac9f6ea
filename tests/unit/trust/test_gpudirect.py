"""The proof of GPUDirect RDMA: verdicts on logs, both directions, every node, with the cause named."""

from pathlib import Path

import pytest
from nccl_log_files import log_of

from clusterctl.benchmarks.base import FaultKind
from clusterctl.trust import gpudirect
from clusterctl.trust.gpudirect import Evidence
from clusterctl.trust.nccl_log import LogReader

LOGS = Path(__file__).parent / "nccl_logs"


def host(process):
    return process.host


def written(lines_by_host, versions="2.28.3+cuda13.0"):
    """Parse a log of one process per host, with these lines each."""
    reader = LogReader()
    for number, (name, lines) in enumerate(lines_by_host.items()):
        head = (
            f"NCCL version {versions}",
            f"comm 0x1 rank {number} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
        )
        text = "".join(f"{name}:1:1 [0] NCCL INFO {line}\n" for line in (*head, *lines))
        reader.read_text(text.replace("NCCL INFO WARN ", "x.cc:1 NCCL WARN "))
    return reader.result()


def channels(way, back=None):
    return (
        f"Channel 00/0 : 0[0] -> 1[0] [send] via {way}",
        f"Channel 00/0 : 1[0] -> 0[0] [receive] via {back or way}",
    )


GDR = ("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", *channels("NET/IB/0/GDRDMA"))


def verdicts(log, nodes=("a", "b"), evidence=None):
    proof = gpudirect.judge(log, nodes, host, evidence)
    return proof, {node.name: (node.status, node.cause or "") for node in proof.nodes}


def test_proven_on_every_node_and_in_both_directions():
    proof, found = verdicts(log_of(LOGS / "ib-gdr-2.18.6-two-nodes-pxn.log"), ("n1", "n2"))
    assert found == {"n1": ("proven", ""), "n2": ("proven", "")}
    assert proof.status == "proven"
    assert gpudirect.faults(proof) == ()
    node = proof.nodes[0]
    assert (node.send, node.receive) == ({"NET/IB/GDRDMA": 2}, {"NET/IB/GDRDMA": 2})


def test_a_module_missing_on_one_node_names_that_node():
    proof, found = verdicts(log_of(LOGS / "ib-one-node-without-gdr-2.20.3.log"))
    assert found["a"] == ("proven", "")
    assert found["b"][0] == "no-gpudirect"
    assert "on this node (mlx5_0), but on other nodes they can" in found["b"][1]
    fault = gpudirect.faults(proof)[0]
    assert (fault.kind, fault.node) == (FaultKind.SLOW_PATH, "b")
    assert "peermem" in fault.hint


@pytest.mark.parametrize(
    ("gpu", "status"),
    [
        ("NVIDIA GB10", "unsupported"),
        ("NVIDIA GeForce RTX 4090", "unsupported"),
        ("NVIDIA GB100", "no-gpudirect"),
        (None, "no-gpudirect"),
    ],
)
def test_a_gpu_that_no_nic_can_reach_is_said_and_not_held_against_the_node(gpu, status):
    lines = ("NET/IB : GPU Direct RDMA Disabled for HCA 0 'rocep1s0f0'", *channels("NET/IB/0"))
    there = Evidence(rdma_ports=("rocep1s0f0:1",), peer_memory=(), gpu=gpu)
    proof, found = verdicts(written({"a": lines, "b": lines}), evidence={"a": there, "b": there})
    assert {node[0] for node in found.values()} == {status}
    assert bool(gpudirect.faults(proof)) == (status == "no-gpudirect")
    assert proof.status == ("not-used" if status == "unsupported" else "fallen-back")


@pytest.mark.parametrize(
    ("machine", "status"),
    [("g6e.48xlarge", "unsupported"), ("g7e.48xlarge", "no-gpudirect"), (None, "no-gpudirect")],
)
def test_efas_that_reach_no_gpu_are_not_held_against_the_node(machine, status):
    lines = ("NET/Libfabric : GPU Direct RDMA Disabled for HCA 0 'rdmap49s0'", *channels("NET/Libfabric/0"))
    there = Evidence(rdma_ports=("rdmap49s0:1",), peer_memory=(), gpu="NVIDIA L40S", ec2_machine=machine)
    proof, found = verdicts(written({"a": lines, "b": lines}), evidence={"a": there, "b": there})
    assert {node[0] for node in found.values()} == {status}
    assert bool(gpudirect.faults(proof)) == (status == "no-gpudirect")


def test_recorded_sockets_are_no_failure_where_no_node_has_rdma():
    log = log_of(LOGS / "socket-2.28.9-h200x4-as-two-nodes.log")

    def node_of(process):
        return process.settings["NCCL_HOSTID"]

    without = {"node0": Evidence(rdma_ports=()), "node1": Evidence(rdma_ports=())}
    proof = gpudirect.judge(log, ("node0", "node1"), node_of, without)
    assert proof.status == "not-used"
    assert gpudirect.faults(proof) == ()
    with_ports = {**without, "node1": Evidence(rdma_ports=("mlx5_0:1",))}
    proof = gpudirect.judge(log, ("node0", "node1"), node_of, with_ports)
    assert [node.status for node in proof.nodes] == ["sockets", "sockets"]
    assert "no RDMA port is active on this node" in proof.nodes[0].cause
    assert "mlx5_0:1: its userspace is not installed" in proof.nodes[1].cause
    assert "node1 fell back to sockets (NET/Socket)" in gpudirect.faults(proof)[1].message
    unseen = gpudirect.judge(log, ("node0", "node1"), node_of)
    assert unseen.status == "fallen-back"


def test_a_gpu_far_from_its_nic_is_said_and_not_held_against_the_node():
    proof, found = verdicts(log_of(LOGS / "far-nics-2.28.3-timestamps.log"), ("vm1",))
    assert found["vm1"][0] == "too-far"
    assert "(PHB, beyond PXB)" in found["vm1"][1]
    assert proof.status == "not-used"
    assert gpudirect.faults(proof) == ()


def test_a_gpu_that_is_near_one_nic_is_not_excused_by_those_it_is_far_from():
    """On a node of several NICs NCCL tells of every pair; here NCCL_NET_GDR_READ=0 is why sending takes host memory."""
    lines = (
        *(f"NET/IB : GPU Direct RDMA Enabled for HCA {n} 'mlx5_{n}'" for n in (0, 1)),
        "GPU Direct RDMA Enabled for GPU 0 / HCA 0 (distance 4 <= 5), read 0 mode Default",
        "GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 9 > 5)",
        *channels("NET/IB/0", "NET/IB/0/GDRDMA"),
    )
    proof, found = verdicts(written({"a": lines, "b": lines}))
    assert {status for status, _ in found.values()} == {"no-gpudirect"}
    assert "NCCL_NET_GDR_READ=0" in found["a"][1]
    assert [fault.node for fault in gpudirect.faults(proof)] == ["a", "b"]


SOCKETS = ("NET/IB : No device found.", "NET/Socket : Using [0]eth0:10.0.0.1<0>", *channels("NET/Socket/0"))


@pytest.mark.parametrize(
    ("lines", "evidence", "cause"),
    [
        (("NCCL_IB_DISABLE set by environment to 1.", *SOCKETS), None, "NCCL_IB_DISABLE is set"),
        (("NCCL_NET set by environment to Socket.", *SOCKETS), None, "NCCL_NET=Socket is set"),
        (("Failed to open libibverbs.so[.1]", *SOCKETS), None, "no RDMA userspace"),
        (SOCKETS, None, "NCCL found no RDMA device where the ranks run"),
        (
            ("NCCL_IB_HCA set by environment to =mlx5_9.", *SOCKETS),
            Evidence(rdma_ports=("mlx5_0:1",)),
            "no RDMA device for NCCL_IB_HCA==mlx5_9, but the node has mlx5_0:1",
        ),
        (
            ("WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", *SOCKETS[1:]),
            None,
            "(memlock)",
        ),
        (SOCKETS, Evidence(rdma_ports=("rdmap16s27:1", "rdmap32s27:1")), "needs plugin aws-ofi-nccl"),
        (SOCKETS[1:], Evidence(rdma_ports=("mlx5_0:1",), memlock_kib=8192), "memlock is 8192 KiB"),
        (SOCKETS[1:], None, "its log does not show why"),
        (
            ("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", *channels("NET/IB/0", "NET/IB/0/GDRDMA")),
            None,
            "only sending uses host memory",
        ),
        (
            ("NCCL_NET_GDR_LEVEL set by environment to LOC.",
             "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 5 > 0)", *channels("NET/IB/0")),
            None,
            "NCCL_NET_GDR_LEVEL=LOC is set",
        ),
        (
            ("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", *channels("NET/IB/0")),
            Evidence(peer_memory=()),
            "neither a peer-memory module nor DMA-BUF serves mlx5_0",
        ),
    ],
)  # fmt: skip
def test_causes(lines, evidence, cause):
    log = written({"a": GDR, "b": lines})
    proof, found = verdicts(log, evidence={"b": evidence} if evidence else None)
    assert found["a"] == ("proven", "")
    assert cause in found["b"][1]
    assert [fault.node for fault in gpudirect.faults(proof)] == ["b"]
    assert gpudirect.faults(proof)[0].hint


def test_ports_that_are_down_everywhere_are_missed_where_the_inventory_names_them():
    """Without a subnet manager no port of a fabric is active, and sockets carry what it was bought for."""
    log = written({"a": SOCKETS, "b": SOCKETS})
    down = Evidence(rdma_ports=(), rdma_named="=mlx5_0")
    proof, found = verdicts(log, evidence={"a": down, "b": down})
    assert found["a"] == (
        "sockets",
        "no port of the inventory's RDMA devices (=mlx5_0) is active",
    )
    assert gpudirect.faults(proof)[0].hint == "run clusterctl check INVENTORY --only rdma-link"
    none = Evidence(rdma_ports=())
    assert verdicts(log, evidence={"a": none, "b": none})[0].status == "not-used"


def test_an_old_nccl_that_does_not_see_the_new_module():
    lines = ("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", *channels("NET/IB/0"))
    evidence = {name: Evidence(peer_memory=("nvidia_peermem",)) for name in ("a", "b")}
    log = written({"a": lines, "b": lines}, versions="2.22.3+cuda12.5")
    assert "issue 1676" in verdicts(log, evidence=evidence)[1]["b"][1]
    log = written({"a": lines, "b": lines}, versions="2.28.3+cuda13.0")
    assert "issue 1676" not in verdicts(log, evidence=evidence)[1]["b"][1]


def test_what_is_not_known_is_not_proven():
    log = written({"a": GDR, "b": GDR[:-1]})
    proof, found = verdicts(log, ("a", "b", "c"))
    assert found["a"][0] == "proven"
    assert found["b"] == ("unknown", "according to its log it receives nothing from other nodes")
    assert found["c"] == ("unknown", "its ranks wrote no NCCL log")
    assert proof.status == "unknown"
    assert gpudirect.faults(proof) == ()


def test_nvlink_between_nodes_needs_no_nic():
    lines = (
        "comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 1",
        "Channel 00/0 : 0[0] -> 1[0] via P2P/MNNVL",
    )
    proof, found = verdicts(written({"a": lines, "b": lines}))
    assert found["a"][0] == "nvlink"
    assert proof.status == "not-used"
