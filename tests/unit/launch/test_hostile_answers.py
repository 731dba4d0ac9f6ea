"""A node whose answers cannot be parsed fails by itself: before a launch, in it and while images are brought."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch_facts import Answering, facts_of

from clusterctl.containers import found
from clusterctl.errors import ClusterctlError
from clusterctl.images.distribution import relay
from clusterctl.images.distribution.archive import Archive
from clusterctl.images.on_node import EngineInfo, NodeEngine, open_engine
from clusterctl.inventory.model import Node
from clusterctl.launch.run import Runner
from clusterctl.transport.base import Failure, FailureKind, TransportError

MANY = "9" * 5000


@pytest.mark.parametrize(
    "changed",
    [
        {"session": "cpus many"}, {"session": f"cpus 0-{MANY}"}, {"session": "connection a b c d"},
        {"session": f"connection 10.0.0.9 5000 10.0.0.1 {MANY}"}, {"listening": "xyz"}, {"gpu_query": "many"},
        {"gpu_query": f"index, name, uuid, pci.bus_id, driver_version\n{MANY}, H200, GPU-0, 0:0, 580"},
        {"rdma": "mlx5_0/rate:400 Gb/sec"}, {"limits": f"Max locked memory         {MANY}        {MANY}"},
        {"uid": "root"}, {"uid": MANY},
    ],
    ids=lambda changed: " ".join(changed)[:20],
)  # fmt: skip
def test_a_node_that_answers_nonsense_before_a_launch_is_left_out_by_name(changed):
    uid = changed.pop("uid", "0")
    of_node = {"good": Answering("good", {}), "bad": Answering("bad", changed, uid)}
    nodes = tuple(Node(name=name, address=name) for name in of_node)
    gathered = []
    runner = Runner(nodes, lambda node: of_node[node.name], fanout=2, on_facts=gathered.append)
    ready, faults = runner.prepare({})
    assert [one.node.name for one in ready] == ["good"]
    assert [fault.node for fault in faults] == ["bad"]
    assert faults[0].message.startswith(
        ("bad gave the launch probe ", "bad did not answer the launch probe ")
    )
    assert [list(found) for found in gathered] == [["good", "bad"]]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "n1 (root@10.0.0.1:22): connection refused",
            "n1 (root@10.0.0.1:22) cannot be used: connection refused",
        ),
        ("n1: sudo: no such file", "n1 cannot be used: sudo: no such file"),
        ("n1 gave a malformed answer", "n1 gave a malformed answer"),
        ("sudo: no such file", "n1 cannot be used: sudo: no such file"),
    ],
)
def test_the_failure_of_a_node_names_it_once(said, expected):
    def refuse(_):
        raise TransportError(Failure(FailureKind.REFUSED, said))

    _, (fault,) = Runner((Node(name="n1", address="10.0.0.1"),), refuse, fanout=1).prepare({})
    assert fault.message == expected


@pytest.mark.parametrize("text", ["", "all of it", MANY])
def test_a_relay_that_counts_in_words_is_its_own_failure(text):
    facts = facts_of({"image_distribution": "user me\n"}, subjects=relay.READS)
    there = relay.of_facts(Node(name="n1", address="n1"), facts, "t0ken", "/", "")
    archive = Archive(Path("/dev/null"), "0" * 64, 9, "gzip")
    with pytest.raises(TransportError, match="n1: its answer to the query for ") as raised:
        relay.have(Answering("n1", {}, text=text), there, archive)
    assert raised.value.failure.kind is FailureKind.PROTOCOL


@pytest.mark.parametrize("address", ["*", "10.0.0.2,10.0.0.3"])
def test_a_container_is_at_one_address_and_at_no_pattern(address):
    node = Node(name="n1", address="10.0.0.1", socket_ifname="ib0")
    texts = {"network": "ib0/operstate:up\n", "addresses": f"2: ib0    inet {address} scope global\n"}
    # Facts leave out a word that is not an IP address, as on a node without the program ip.
    assert found.of_facts(node, facts_of(texts, subjects=found.READS), None).address == node.address


@pytest.mark.parametrize("said", [{"listening": "xyz"}, {"session": "connection a b c d\n"}])
def test_a_container_on_a_node_that_answers_nonsense_is_not_started(said):
    with pytest.raises(ClusterctlError, match="n1 gave the container probe a malformed answer"):
        found.of_facts(Node(name="n1", address="a"), facts_of(said, subjects=found.READS), None)


@pytest.mark.parametrize(
    "text", ["[]", "{}", "[5]", "", "[" * 100_000, '[{"Id": 1, "RootFS": {"Layers": 5}}]']
)
def test_an_engine_that_answers_nonsense_is_its_own_failure(text):
    engine = NodeEngine(Answering("n1", {}, text=text), False, EngineInfo("28.2.2", "amd64", "/x", (), ()))
    with pytest.raises(TransportError, match="n1: its answer to the query for the image i:1"):
        engine.image("i:1")


@pytest.mark.parametrize(
    "text", ['{"ServerVersion": "28", "CDISpecDirs": 5}', '{"ServerErrors": {"a": 1}}', "[" * 100_000]
)
def test_an_engine_that_says_nonsense_of_itself_is_its_own_failure(text):
    with pytest.raises(ClusterctlError, match="n1: "):
        open_engine(Answering("n1", {}, text=text))
