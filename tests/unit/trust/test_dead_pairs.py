"""Pairs that fail alone lead to a node or a link, and never to a guess."""

from __future__ import annotations

import pytest

from clusterctl.documents.evidence import PairAlone
from clusterctl.trust.dead_pairs import judge


def ends(failed, nodes=4, rounds=None):
    """Every pair of a fleet (or these pairs), of which some failed; a node that fails fails with each partner."""
    names = "abcdefgh"[:nodes]
    pairs = rounds or [(one, other) for one in names for other in names if one < other]
    return [
        PairAlone(pair, "hangs" if "".join(pair) in failed or set(pair) & set(failed) else None)
        for pair in pairs
    ]


@pytest.mark.parametrize(
    ("failed", "nodes", "links", "left"),
    [
        ([], (), (), 0),
        (["d"], ("d",), (), 0),
        (["bd"], (), (("b", "d"),), 0),
        (["d", "ab"], ("d",), (("a", "b"),), 0),
        (["a", "b", "c"], (), (), 6),  # the one node that may be well has no partner to show it
    ],
)
def test_a_node_fails_with_everyone_and_a_link_with_one(failed, nodes, links, left):
    found = judge(ends(failed))
    assert (found.nodes, found.links, len(found.open)) == (nodes, links, left)


def test_two_nodes_that_fail_name_neither():
    found = judge([PairAlone(("a", "b"), "hangs")])
    assert (found.nodes, found.links, found.open) == ((), (), (("a", "b"),)) and not found.is_explained


def test_one_failed_partner_is_too_few_for_a_name():
    found = judge([PairAlone(("a", "b"), "hangs"), PairAlone(("c", "d"))])
    assert not found.is_explained and found.open == (("a", "b"),)


def test_two_rounds_name_a_node_whose_partners_work_with_each_other():
    rounds = [("a", "d"), ("b", "c"), ("a", "c"), ("b", "d"), ("a", "b"), ("c", "d")]
    assert judge(ends(["d"], rounds=rounds[:4])).nodes == ("d",)
