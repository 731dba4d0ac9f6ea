"""Watching nodes: signs of life, silence, and a connection that breaks once or for good."""

import contextlib
import threading
import time

import pytest

from clusterctl.inventory.model import Node
from clusterctl.launch import watch as module
from clusterctl.launch.watch import Watch
from clusterctl.transport.base import Failure, FailureKind, TransportError


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "BEAT_S", 0.01)
    monkeypatch.setattr(module, "PAUSES_S", (0.01, 0.02))


class Line:
    """A transport that follows the next step of a script from its login on."""

    def __init__(self, step):
        self.step = step
        self.beats = 0
        self.is_open = False

    def open(self):
        if self.step == "refused":
            raise TransportError(Failure(FailureKind.LOST, "connection reset"))
        self.is_open = True

    def answers(self, timeout_s):
        assert timeout_s == module.SILENCE_S
        self.beats += 1
        if not self.is_open or self.step == "lost" or (self.step == "beat-then-lost" and self.beats > 1):
            self.is_open = False
            raise TransportError(Failure(FailureKind.LOST, "connection reset"))
        return self.step != "silent"

    def close(self):
        self.is_open = False


def nodes(*names):
    return [Node(name=name, address=name) for name in names]


@contextlib.contextmanager
def watch(*steps, over=()):
    """Watch the node n1, whose every connection follows the next of these steps, and others; all else holds."""
    made, script = [], iter(steps)

    def connect(node):
        made.append(Line(next(script, "hold") if node.name == "n1" else "hold"))
        return made[-1]

    with contextlib.closing(Watch(connect)) as watching:
        watching.made = made
        watching.follow(nodes("n1", *over))
        yield watching


def until(holds, timeout_s=30):
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_node_that_speaks_is_there():
    with watch() as watching:
        until(lambda: watching.made[0].beats > 3)
        assert watching.lost() == {}


@pytest.mark.parametrize(
    "script",
    [
        ("beat-then-lost",),
        ("beat-then-lost", "refused"),
        ("beat-then-lost", "lost", "beat-then-lost", "refused"),
    ],
    ids=["once", "a refused login after it", "and all that again"],
)
def test_a_connection_that_breaks_is_made_again(script):
    with watch(*script) as watching:
        until(lambda: len(watching.made) > len(script) and watching.made[-1].beats > 3)
        assert watching.lost() == {}
        assert watching.held("n1") is watching.made[-1]


def test_a_connection_that_cannot_be_made_again_is_a_lost_node():
    with watch("beat-then-lost", "refused", "refused") as watching:
        until(lambda: watching.lost() == {"n1": "connection reset"})
        assert watching.held("n1") is None


def test_a_node_that_was_lost_is_watched_again_in_the_next_launch():
    with watch("refused", "refused", "refused", over=("n2",)) as watching:
        until(lambda: watching.lost() == {"n1": "connection reset"})
        watching.follow(nodes("n1", "n2"))
        assert watching.lost() == {}
        until(lambda: watching.held("n1") and watching.held("n2"))
        assert len(watching.made) == 5, "n2 needs no other connection"


def test_the_end_of_the_watch_waits_for_no_pause(monkeypatch):
    monkeypatch.setattr(module, "PAUSES_S", (600.0, 600.0))
    with watch("refused"):
        time.sleep(0.1)
    until(lambda: not any(thread.name == "watch-n1" for thread in threading.enumerate()))


def test_silence_is_a_lost_node():
    with watch("silent") as watching:
        until(lambda: watching.lost() == {"n1": "no heartbeat for 60 s"})
        assert len(watching.made) == 1


def test_this_machine_is_not_watched():
    with contextlib.closing(Watch(lambda _: 1 / 0)) as watching:
        watching.follow([Node(name="here", address="localhost", connection="local")])
        assert watching.lost() == {}


def test_a_connection_serves_commands_until_the_end():
    with watch(over=("n2",)) as watching:
        until(lambda: watching.held("n1") and watching.held("n2"))
        watching.follow(nodes("n1", "n2"))
        assert [watching.held(name) for name in ("n1", "n2", "n3")] == [*watching.made, None]
        watching.close()
        assert not any(line.is_open for line in watching.made)
        assert watching.held("n1") is None
