"""A fleet is gathered in the caller's order, parsed in the caller's thread, and a node without facts is a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from clusterctl.facts import gather
from clusterctl.facts.gather_fleet import gather_fleet
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Completed, Failure, FailureKind
from clusterctl.transport.local import LocalTransport


class Noise(LocalTransport):
    """A node whose shell talks and runs nothing."""

    def run(
        self, argv: tuple[str, ...], *, stdin: bytes = b"", timeout_s: float | None = None, as_root: bool = False,
        env: Mapping[str, str] | None = None, on_line: Callable[[str], None] | None = None,
    ) -> Completed:  # fmt: skip
        return Completed(argv, 0, b"welcome\n", b"", 0.0)


def test_a_fleet_of_this_machine_and_one_that_only_talks(monkeypatch) -> None:
    nodes = [Node(name=name, address="here", connection="local") for name in ("b", "noise", "a")]
    parsed_in, done = set(), []
    understand = gather.understand
    monkeypatch.setattr(
        gather, "understand", lambda *a, **k: (parsed_in.add(threading.get_ident()), understand(*a, **k))[1]
    )
    outcome = gather_fleet(
        nodes,
        lambda node: (Noise if node.name == "noise" else LocalTransport)(node),
        fanout=3,
        timeout_s=60,
        on_done=lambda node, found: done.append((node.name, isinstance(found, Failure))),
    )
    assert list(outcome) == ["b", "noise", "a"]
    assert (
        outcome.failures["noise"].kind is FailureKind.PROTOCOL
        and "welcome" in outcome.failures["noise"].message
    )
    assert {name: facts.name for name, facts in outcome.values_by_node.items()} == {"a": "a", "b": "b"}
    assert parsed_in == {threading.get_ident()}
    assert sorted(done) == [("a", False), ("b", False), ("noise", True)]
