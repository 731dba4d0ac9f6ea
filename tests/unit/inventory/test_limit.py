"""Which nodes ``--limit`` keeps: node sets, groups, wildcards and exclusions."""

from __future__ import annotations

import pytest

from clusterctl.errors import UsageError
from clusterctl.inventory import load
from clusterctl.inventory.limit import limited
from clusterctl.inventory.model import Inventory

FLEET = """
version: 1
groups:
  rack1: {nodes: "gpu[01-02]"}
  big: {nodes: "gpu[02-03]"}
nodes:
  - name: gpu[01-04]
  - name: spare
"""


@pytest.fixture(scope="module")
def inventory() -> Inventory:
    return load.from_text(FLEET)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu[02-03]", ["gpu02", "gpu03"]),
        ("spare,gpu01", ["gpu01", "spare"]),
        ("rack1", ["gpu01", "gpu02"]),
        ("big,spare", ["gpu02", "gpu03", "spare"]),
        ("gpu*", ["gpu01", "gpu02", "gpu03", "gpu04"]),
        ("gpu*,!gpu03", ["gpu01", "gpu02", "gpu04"]),
        ("!gpu03", ["gpu01", "gpu02", "gpu04", "spare"]),
        ("!gpu[01-03]", ["gpu04", "spare"]),
        ("*,!big", ["gpu01", "gpu04", "spare"]),
        ("gpu0?,!*[03-04]", ["gpu01", "gpu02"]),
        ("r*", ["gpu01", "gpu02"]),
        ("rack1,!big,spare", ["gpu01", "spare"]),
    ],
)
def test_limit_keeps_nodes_and_groups_in_file_order(
    inventory: Inventory, text: str, names: list[str]
) -> None:
    assert [node.name for node in limited(inventory, text).nodes] == names


def test_what_limit_leaves_out_is_kept_beyond_in_file_order(inventory: Inventory) -> None:
    kept = {node.name for node in limited(inventory, "rack1").nodes}
    assert limited(inventory, "rack1").beyond == tuple(n for n in inventory.nodes if n.name not in kept)
    assert kept and len(kept) < len(inventory.nodes)
    assert inventory.beyond == ()


def test_no_limit_keeps_all(inventory: Inventory) -> None:
    assert limited(inventory, None) is inventory


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu[04-06]", "gpu[05-06] is not a node or group"),
        ("rakc1", "rakc1 is not a node"),
        ("gpu[3-1]", "runs backwards"),
        ("", "is empty"),
        ("cpu*", "'cpu*' matches no node or group"),
        ("gpu*,!cpu*", "'cpu*' matches no node or group"),
        ("gpu*,!gpu05", "gpu05 is not a node or group"),
        ("gpu01,!gpu01", "'gpu01,!gpu01' selects no node"),
        ("!", "is not a node or group"),
    ],
)
def test_a_limit_that_fits_nothing_is_a_usage_error(inventory: Inventory, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        limited(inventory, text)
    assert message in caught.value.message
    assert caught.value.exit_code == 2


def test_limits_given_twice_add_up_and_an_exclusion_counts_for_all_of_them(inventory: Inventory) -> None:
    kept = limited(inventory, ["gpu[01-02]", "!gpu02", "spare"])
    assert [node.name for node in kept.nodes] == ["gpu01", "spare"]


def test_a_mistyped_limit_is_told_what_there_is(inventory: Inventory) -> None:
    with pytest.raises(UsageError) as caught:
        limited(inventory, "rakc1")
    assert caught.value.hint == "did you mean rack1? nodes: gpu[01-04],spare; groups: big, rack1"
