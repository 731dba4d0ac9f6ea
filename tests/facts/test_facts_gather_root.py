"""Asking for root a second time: a refused sudo is a finding, a lost node is not."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field

import pytest

from clusterctl.facts.gather import gather
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Completed, Failure, FailureKind, TransportError


@dataclass
class NoRoot:
    """Runs the probe here as the user ``nobody``, and refuses root with an injected failure."""

    kind: FailureKind
    node: str = "n1"
    asked: list[bool] = field(default_factory=list)

    def run(self, argv, *, stdin=b"", timeout_s=None, as_root=False, **_):
        self.asked.append(as_root)
        if as_root:
            raise TransportError(Failure(self.kind, "refused by sudo"))
        done = subprocess.run(
            ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv),
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        return Completed(argv, done.returncode, done.stdout, done.stderr, 0.0)


def test_a_refused_sudo_leaves_what_needs_root_denied():
    transport = NoRoot(FailureKind.SUDO)
    facts = gather(transport, Node(name="n1", address="n1"), escalate=True)
    assert transport.asked == [False, True]
    assert (facts.root.way, facts.root.detail) == ("none", "refused by sudo")


def test_a_node_lost_while_asking_for_root_is_a_failure():
    with pytest.raises(TransportError) as raised:
        gather(NoRoot(FailureKind.LOST), Node(name="n1", address="n1"), escalate=True)
    assert raised.value.failure.kind is FailureKind.LOST
