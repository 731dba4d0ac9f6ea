"""Nodes that pull an image by themselves: what counts as the same image on all of them."""

from __future__ import annotations

import json
import os

import pytest

from clusterctl.images.distribution.distribute import Distribution
from clusterctl.inventory.model import Node
from clusterctl.transport.local import LocalTransport

# An engine that says of itself and of its image what $HERE/NODE.json holds.
DOCKER = """#!/bin/sh
case "$1" in
  info) printf '{"ServerVersion": "28.2.2", "Architecture": "x86_64"}' ;;
  image) cat "$HERE/$NODE.json" ;;
esac
"""


class OfNode(LocalTransport):
    """This machine under the name of a node."""

    def run(self, argv, **more):
        return super().run(argv, **{**more, "env": {**(more.get("env") or {}), "NODE": self.node}})


@pytest.fixture
def pulled(monkeypatch, tmp_path):
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("HERE", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def distribute(**images):
        for name, (architecture, layer) in images.items():
            image = {"Id": f"sha256:{layer}", "Architecture": architecture, "RootFS": {"Layers": [layer]}}
            (tmp_path / f"{name}.json").write_text(json.dumps([image]))
        nodes = [Node(name=name, address="localhost", connection="local") for name in images]
        done = Distribution(nodes, OfNode, "r.example:5000/i:1", lambda _: None, lambda _: None).run(
            "registry"
        )
        return {outcome.node: outcome.status for outcome in done.outcomes}

    return distribute


def test_a_tag_that_moved_between_two_pulls_is_told(pulled):
    assert pulled(a=("amd64", "x"), b=("amd64", "x"), c=("amd64", "y")) == {
        "a": "present",
        "b": "present",
        "c": "failed",
    }


def test_one_name_may_stand_for_an_image_of_each_architecture(pulled):
    found = pulled(a=("amd64", "x"), g1=("arm64", "y"), g2=("arm64", "y"), g3=("arm64", "z"))
    assert found == {"a": "present", "g1": "present", "g2": "present", "g3": "failed"}
