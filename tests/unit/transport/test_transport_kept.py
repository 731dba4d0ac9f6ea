"""Connections that outlive a fan-out: when they are used again, and when they are closed."""

import time

import pytest

from clusterctl.inventory.model import Node
from clusterctl.transport import kept as kept_of
from clusterctl.transport.base import Failure, FailureKind, TransportError
from clusterctl.transport.fanout import fan_out
from clusterctl.transport.kept import Kept

NODES = tuple(Node(name=f"n{i}", address=f"10.0.0.{i + 1}") for i in range(3))


class Line:
    """A connection that only knows whether it is open."""

    def __init__(self, node):
        self.node, self.is_open = node.name, True

    def close(self):
        self.is_open = False


@pytest.fixture
def made():
    return []


@pytest.fixture
def connect(made):
    def connect(node):
        made.append(Line(node))
        return made[-1]

    return connect


def _visit(kept, connect, work=lambda node, line: line):
    return fan_out(NODES, kept.over(connect), work, release=kept.release)


def test_the_next_fan_out_uses_the_connections_of_the_last(made, connect):
    kept = Kept(8)
    first, second = _visit(kept, connect), _visit(kept, connect)
    assert dict(first) == dict(second)
    assert len(made) == 3 and all(line.is_open for line in made)
    kept.drop()
    assert not any(line.is_open for line in made)


def test_no_more_are_kept_than_were_asked_for(made, connect):
    _visit(Kept(2), connect)
    assert sum(line.is_open for line in made) == 2


def test_by_default_none_is_kept(made, connect):
    _visit(Kept(), connect)
    assert not any(line.is_open for line in made)


def test_a_connection_on_which_something_failed_is_closed(made, connect):
    def fail(node, line):
        raise TransportError(Failure(FailureKind.DEADLINE, node.name))

    kept = Kept(8)
    assert len(_visit(kept, connect, fail).failures) == 3
    assert not any(line.is_open for line in made)


def test_one_that_was_closed_by_its_work_or_died_while_idle_is_made_anew(made, connect):
    kept = Kept(8)
    _visit(kept, connect, lambda node, line: line.close())
    assert len(made) == 3
    _visit(kept, connect)
    made[-1].is_open = False
    _visit(kept, connect)
    assert len(made) == 7


@pytest.mark.parametrize("later_s", [61, -1])
def test_one_that_was_idle_too_long_by_the_time_of_day_is_made_anew(made, connect, monkeypatch, later_s):
    kept = Kept(8)
    _visit(kept, connect)
    now = time.time()
    monkeypatch.setattr(kept_of.time, "time", lambda: now + later_s)
    _visit(kept, connect)
    assert len(made) == 6
    assert [line.is_open for line in made] == [False] * 3 + [True] * 3


def test_what_is_kept_is_closed_when_what_it_was_kept_for_is_cut_off(connect, made):
    with pytest.raises(KeyboardInterrupt), Kept(3) as kept:
        _visit(kept, connect)
        assert [line.is_open for line in made] == [True] * 3
        raise KeyboardInterrupt
    assert [line.is_open for line in made] == [False] * 3
