"""Targets: nodes that a command line names without an inventory file."""

from __future__ import annotations

import pytest

from clusterctl.errors import UsageError
from clusterctl.inventory import load
from clusterctl.inventory.targets import inventory_of, looks_like_targets


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("root@gpu01", [("gpu01", "gpu01", "root", None)]),
        ("gpu[1-2]:2222", [("gpu1", "gpu1", None, 2222), ("gpu2", "gpu2", None, 2222)]),
        ("a@x,b@y:23", [("x", "x", "a", None), ("y", "y", "b", 23)]),
        ("u@10.0.0.[1-2]", [("10.0.0.1", "10.0.0.1", "u", None), ("10.0.0.2", "10.0.0.2", "u", None)]),
        ("u@[fd00::1]:22", [("fd00-1", "fd00::1", "u", 22)]),
        ("fd00::1", [("fd00-1", "fd00::1", None, None)]),
        ("h:1,h:2", [("h-1", "h", None, 1), ("h-2", "h", None, 2)]),
        ("ann@corp.example@gpu01", [("gpu01", "gpu01", "ann@corp.example", None)]),
    ],
)
def test_targets_are_nodes(text: str, nodes: list[tuple[object, ...]]) -> None:
    assert looks_like_targets(text)
    inventory = inventory_of(text)
    assert [(node.name, node.address, node.user, node.port) for node in inventory.nodes] == nodes
    assert inventory.source == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("root@gpu[16-01]", "runs backwards"),
        ("root@", "is empty"),
        ("ro ot@gpu", "is not a user name"),
        ("-oProxyCommand=x@gpu", "is not a user name"),
        ("root@-gpu", "is not a host name or address"),
        ("root@gpu:99999", "the port must be a number from 1 to 65535"),
        ("root@gpu:ssh", "the port must be a number from 1 to 65535"),
        ("root@10.0.0.010", "remove the leading zeros"),
        ("root@10.0.0.1-4", "write a range as 10.0.0.[1-4]"),
        ("root@a,,root@b", "empty name"),
        ("root@a,admin@a", "the node a port 22 is given 2 times"),
        ("a@x[1-99999],b@y", "at most 65536"),
    ],
)
def test_a_malformed_target_is_a_usage_error(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        inventory_of(text)
    assert message in caught.value.message


@pytest.mark.parametrize("text", ["gpu01", "inventory.yaml", "conf/root@x", "me@work.yaml", "hosts.ini"])
def test_a_word_or_a_file_name_is_not_a_target(text: str) -> None:
    assert not looks_like_targets(text)


def test_a_file_with_the_name_of_a_target_is_read(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "root@gpu01"
    path.write_text("version: 1\nnodes: [{name: here, connection: local}]\n")
    assert [node.name for node in load.load(path.relative_to(tmp_path)).nodes] == ["here"]
