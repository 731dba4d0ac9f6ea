"""``image distribute``: the reasons of nodes that failed, folded."""

from __future__ import annotations

from clusterctl.cli.image.distribute import _reasons
from clusterctl.images.distribution.distribute import DistributionOutcome


def failed(node: str, reason: str) -> DistributionOutcome:
    return DistributionOutcome(node, "failed", reason=reason)


def test_nodes_with_one_reason_share_a_line() -> None:
    outcomes = [
        failed("gpu01", "gpu01: the docker engine does not answer"),
        failed("gpu02", "gpu02: the docker engine does not answer"),
        failed("gpu03", "no space left"),
    ]
    assert list(_reasons(outcomes)) == [
        ("gpu[01-02] (2)", "the docker engine does not answer"),
        ("gpu03", "no space left"),
    ]
