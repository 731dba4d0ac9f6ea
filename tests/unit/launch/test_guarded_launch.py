"""A launch from this machine ends by itself when nobody is left who would end it."""

from clusterctl.inventory.model import Node
from clusterctl.launch.base import LaunchPlan, Placement
from clusterctl.launch.local import LocalSpawn
from clusterctl.launch.run import Runner
from clusterctl.transport.base import Completed


class Listening:
    """A transport that remembers its commands, and runs none."""

    node = "here"

    def __init__(self, commands):
        self._commands = commands

    def run(self, argv, **_):
        self._commands.append(argv)
        return Completed((), 0, b"", b"", 0.0)

    def put(self, *_, **__):
        pass

    def close(self):
        pass


def test_it_has_a_clock_of_its_own(tmp_path):
    """Ranks that hang would otherwise outlive a controller that was killed, for ever and with their GPUs."""
    commands = []
    here = Node(name="here", address="localhost", connection="local")
    plan = LaunchPlan(
        token="t0ken", directory="/nowhere", program=("true",), env=(), map_by="slot", interface=None,
        placements=(Placement("here", "here", "localhost", None, None, 1),), timeout_s=20.0,
    )  # fmt: skip
    outcome = Runner([here], lambda _: Listening(commands)).run(plan, LocalSpawn(), tmp_path)
    assert outcome.returncode == 0
    (command,) = commands
    # Behind the controller's own deadline and the grace after it.
    assert command[:2] == ("sh", "-c") and "exec timeout -k 2 82 " in command[2]
    assert "local_spawn.py" in command[2]
