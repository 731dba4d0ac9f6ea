"""When a collective's neighbours look uneven enough to measure pairs again, and what the report makes of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from clusterctl.benchmarks.neighbours import Neighbourhood, Neighbours
from clusterctl.documents.bench import BenchStatus
from clusterctl.documents.evidence import SlowPart
from clusterctl.documents.proof import Proof, SlowRank
from clusterctl.launch import slow_parts
from clusterctl.report.text import trust
from clusterctl.results import proofs
from clusterctl.results.model import status_of


def neighbourhood(slow=(), pair=(), nodes=6):
    """Every rank with every other one; a slow rank is slow with all, a slow pair only with each other."""

    def rate(one, other):
        return (
            30.0 if {one, other} & set(slow) or {one, other} == set(pair) else 45.0 + (one + other) % 3 / 10
        )

    ranks = tuple(Neighbours(one, f"n{one}", {other: rate(one, other) for other in range(nodes) if other != one})
                  for one in range(nodes))  # fmt: skip
    return Neighbourhood(4 << 20, ranks)


@pytest.mark.parametrize(
    ("found", "uneven"),
    [
        (neighbourhood(), False),
        (neighbourhood(slow=(2,)), True),
        (neighbourhood(pair=(1, 4)), True),
        (neighbourhood(nodes=2), False),
    ],
)
def test_a_slow_rank_or_pair_is_measured_again(found, uneven):
    assert slow_parts._is_uneven(found) is uneven


RAIL = SlowPart(("n2",), 1, "eth1", 0.75, 0.0002)
LINK = SlowPart(("n1", "n4"), 0, None, 0.6, 0.0002)


def test_a_confirmed_part_makes_the_run_doubtful_and_is_named():
    proof = Proof(slow=(RAIL, LINK))
    assert status_of((), None, proof.slow) is BenchStatus.DOUBTFUL
    assert status_of((), None, None) is BenchStatus.OK
    assert trust.lines(proof) == [
        "DOUBTFUL: n2 rail 1 (eth1) is 25 % slower than pairs beside it (chance 0.0002), and all ranks wait for it",
        "DOUBTFUL: link n1 - n4 is 40 % slower than pairs beside it (chance 0.0002), and all ranks wait for it",
        "  hint: clusterctl locate measures why",
    ]


@pytest.mark.parametrize(("slow", "left"), [(None, ["n2"]), ((), []), ((RAIL,), ["n2"])])
def test_a_straggler_that_pairs_do_not_confirm_is_dropped(slow, left):
    measured = SimpleNamespace(slow=slow)
    found = (SlowRank(rank=0, host="n2", loss=0.3),)
    assert [one.host for one in proofs._unless_cleared(found, measured)] == left
