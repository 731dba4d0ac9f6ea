"""A launch whose ranks write nothing: when they are looked at, and what is said about them."""

import contextlib
import threading

import pytest

from clusterctl.launch.attribution import MarkedTags
from clusterctl.launch.base import LaunchPlan, Placement
from clusterctl.launch.launchers.local import LocalSpawn
from clusterctl.launch.processes import RankProcess
from clusterctl.launch.ranklog import RankLog
from clusterctl.launch.stall import Stall
from clusterctl.transport.base import HostMap

TWO_NODES = LaunchPlan(
    launcher=LocalSpawn(),
    token="0123456789abcdef",
    mark="f00d",
    directory="/tmp/clusterctl-0123456789abcdef",
    placements=tuple(Placement(name, name, "10.0.0.1", 22, None, 2) for name in ("gpu01", "gpu02")),
    program=("sh", "train.sh"),
    env=(),
    map_by="slot",
    interfaces=None,
    timeout_s=600,
)
ALIVE = {
    "gpu01": (RankProcess(5, 0, "running"), RankProcess(6, 1, "waiting")),
    "gpu02": (RankProcess(7, 2, "running"), RankProcess(8, 3, "running")),
}
STOPPED = {**ALIVE, "gpu02": (RankProcess(7, 2, "stopped"), RankProcess(8, 3, "running"))}


class Clock:
    """The seconds of the module that times the output of ranks."""

    now = 0.0

    def monotonic(self):
        return self.now


class Looks:
    """What each look at the ranks finds, in order; ``said`` is what the user reads."""

    def __init__(self, monkeypatch, folder, *found):
        self.clock, self.found, self.said, self.ended = Clock(), list(found), [], threading.Event()
        monkeypatch.setattr("clusterctl.launch.ranklog.time", self.clock)
        self.log = RankLog(folder, MarkedTags("f00d"), 4)
        self.stall = Stall(TWO_NODES, self.log, self.ended, self._inspect, self.said.append)

    def _inspect(self, plan):
        assert plan is TWO_NODES
        return HostMap(self.found.pop(0))

    def at(self, second):
        self.clock.now = second
        self.stall.look()
        for thread in threading.enumerate():
            if thread.name == "stall":
                thread.join(60)
        return len(self.found)


@pytest.fixture
def looks(monkeypatch, tmp_path):
    with contextlib.ExitStack() as logs:

        def start(*found):
            them = Looks(monkeypatch, tmp_path, *found)
            logs.enter_context(them.log)
            return them

        yield start


def test_a_stopped_rank_is_named_once_after_a_minute_of_silence(looks):
    them = looks(STOPPED, STOPPED, ALIVE, ALIVE)
    assert them.at(59) == 4 and them.said == []
    assert them.at(60) == 3
    assert them.said == ["no rank wrote anything for 60 s: rank 2 on gpu02 (pid 7) is stopped"]
    # The next looks are at two and four minutes.
    assert them.at(119) == 3
    assert them.at(120) == 2 and len(them.said) == 1
    assert them.at(240) == 1
    assert them.said[1:] == ["no rank wrote anything for 240 s: all ranks are alive"]
    assert them.at(480) == 0 and len(them.said) == 2


def test_the_silence_begins_again_after_a_line_of_any_rank(looks):
    them = looks(ALIVE)
    them.clock.now = 50
    them.log.line("[f00d,3]<stderr>:alive")
    assert (them.at(109), them.said) == (1, [])
    assert them.at(110) == 0
    assert them.said == ["no rank wrote anything for 60 s: all ranks are alive"]


def test_nothing_is_said_of_a_launch_that_has_ended_or_of_nodes_that_do_not_answer(looks):
    them = looks({}, STOPPED)
    assert (them.at(60), them.said) == (1, [])
    them.ended.set()
    assert (them.at(120), them.said) == (0, [])
