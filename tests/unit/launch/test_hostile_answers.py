"""A node whose answers are no answers is a failure of its own, before a launch, in it and while images are brought."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterctl.containers import session as containers
from clusterctl.errors import ClusterctlError
from clusterctl.images import relay
from clusterctl.images.archive import Archive
from clusterctl.images.on_node import EngineInfo, NodeEngine, open_engine
from clusterctl.inventory.model import Node
from clusterctl.launch.run import Runner
from clusterctl.transport.base import Completed, FailureKind, TransportError

MANY = "9" * 5000
READY = {
    "gpus": "0",
    "uid": "0",
    "cores": "2",
    "ports": "1F90",
    "ssh": "10.0.0.9 5000 10.0.0.1 22",
    "end": "ok",
}


class Answering:
    """A transport whose node says the same to whatever it is asked."""

    is_open = False

    def __init__(self, node: str, text: str) -> None:
        self.node = node
        self.text = text

    def run(self, argv: tuple[str, ...], **_: object) -> Completed:
        return Completed(argv, 0, self.text.encode(), b"", 0.0)

    def put(self, *_: object, **__: object) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    "changed",
    [
        {"gpus": "many"}, {"gpus": MANY}, {"uid": "root"}, {"cores": "-"}, {"ports": "xyz"}, {"ssh": "a b c d"},
        {"links": "asked", "rdma_port": "mlx5_0"}, {"links": "asked", "rdma_port": f"mlx5_0 {MANY} 400"},
        {"links": "asked", "nvlink_pairs": MANY}, {"links": "asked", "memlock": MANY},
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_node_that_answers_nonsense_before_a_launch_is_left_out_by_name(changed):
    texts = {
        name: "".join(f"{key}\t{value}\n" for key, value in {**READY, **wish}.items())
        for name, wish in (("good", {}), ("bad", changed))
    }
    nodes = tuple(Node(name=name, address=name) for name in texts)
    runner = Runner(nodes, lambda node: Answering(node.name, texts[node.name]), fanout=2)
    ready, faults = runner.prepare({})
    assert [one.node.name for one in ready] == ["good"]
    assert [fault.node for fault in faults] == ["bad"]
    assert faults[0].message.startswith("bad cannot be used: bad")


@pytest.mark.parametrize("text", ["", "all of it", MANY])
def test_a_relay_that_counts_in_words_is_its_own_failure(text):
    there = relay.parse(Node(name="n1", address="n1"), "t0ken", "base\t/var/tmp/x\nuser\tme\nend\tok\n")
    archive = Archive(Path("/dev/null"), "0" * 64, 9, "gzip")
    with pytest.raises(TransportError, match="n1: its answer to the query for ") as raised:
        relay.have(Answering("n1", text), there, archive)
    assert raised.value.failure.kind is FailureKind.PROTOCOL


@pytest.mark.parametrize(
    "said", ["interface_address\t*", "interface_address\t10.0.0.2,10.0.0.3", "ports\txyz"]
)
def test_a_container_is_at_one_address_and_at_no_pattern(said):
    with pytest.raises(ValueError):  # which is the node's failure, as above
        containers.parse(Node(name="n1", address="10.0.0.1"), f"{said}\nend\tok\n", None)


@pytest.mark.parametrize(
    "text", ["[]", "{}", "[5]", "", "[" * 100_000, '[{"Id": 1, "RootFS": {"Layers": 5}}]']
)
def test_an_engine_that_answers_nonsense_is_its_own_failure(text):
    engine = NodeEngine(Answering("n1", text), False, EngineInfo("28.2.2", "amd64", "/x", (), ()))
    with pytest.raises(TransportError, match="n1: its answer to the query for the image i:1"):
        engine.image("i:1")


@pytest.mark.parametrize(
    "text", ['{"ServerVersion": "28", "CDISpecDirs": 5}', '{"ServerErrors": {"a": 1}}', "[" * 100_000]
)
def test_an_engine_that_says_nonsense_of_itself_is_its_own_failure(text):
    with pytest.raises(ClusterctlError, match="n1: "):
        open_engine(Answering("n1", text))
