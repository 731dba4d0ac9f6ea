"""The Reboot step on a real kernel: refused while a user is at work, then a new boot, and the next round goes on."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest
import yaml

from clusterctl.apply import bootstrap
from clusterctl.apply.engine import Engine
from clusterctl.apply.journal import Options
from clusterctl.apply.undo import Undo
from clusterctl.facts.gather import gather
from clusterctl.facts.model.services import ManagedFile
from clusterctl.inventory import load
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.steps import Reboot, WriteFile
from clusterctl.rundir import RunDir
from clusterctl.transport.connect import Connector
from clusterctl.transport.fanout import fan_out

pytestmark = pytest.mark.timeout(1800)

NODE = "node2"
# The lab's own: RDMA comes back by itself.
RXE_ACTIVE = (
    "for i in $(seq 60); do grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state && exit 0; sleep 1; done;"
    " exit 1"
)
BEFORE, AFTER = "/etc/clusterctl-toy/before-boot", "/etc/clusterctl-toy/after-boot"
STATE = "/var/lib/clusterctl-toy"


class NewBoot:
    """Wants a file, a boot that has seen it, and a file that only that boot may get."""

    NAME, TITLE, READS = "new-boot", "A boot has seen the file", frozenset()

    def __init__(self, first_boot: str) -> None:
        self.first_boot = first_boot

    def decide(self, facts, node, fleet):
        missing = [path for path in (BEFORE, AFTER) if facts.managed_file(path) is None]
        if missing:
            return Decision(
                self.NAME, Status.UNMET, f"missing: {', '.join(missing)}", steps=self._steps(facts, node)
            )
        return Decision(self.NAME, Status.MET, "both are there")

    def _steps(self, facts, node):
        if facts.system.boot_id.value == self.first_boot:
            return (
                WriteFile("Write what the boot must see", BEFORE, "before\n"),
                Reboot("Boot with it", 900.0),
            )
        return (WriteFile("Write what only then can be", AFTER, f"{facts.system.boot_id.value}\n"),)


class Controller:
    """An engine of that one requirement and that one node."""

    def __init__(self, session, folder: Path) -> None:
        document = yaml.safe_load(session.lab.inventory_path.read_text())
        document["nodes"] = [node for node in document["nodes"] if node["name"] == NODE]
        path = folder / "inventory.yaml"
        path.write_text(yaml.safe_dump(document))
        self.inventory = load.load(path)
        self.runs = folder / "runs"
        self.connector = Connector(connect_timeout_s=60)
        self.first_boot = session.output(NODE, "cat /proc/sys/kernel/random/boot_id")

    def _look(self, node, transport):
        facts = gather(transport, node, timeout_s=120)
        script = 'for f in "$@"; do [ ! -f "$f" ] || echo "$f $(cat "$f")"; done'
        lines = transport.run(("sh", "-c", script, "sh", BEFORE, AFTER)).text.splitlines()
        found = tuple(ManagedFile(*line.split(" ", 1)) for line in lines)
        return dataclasses.replace(facts, managed_files=found)

    def bootstrap(self, **allowed):
        """Return the node's outcome, its verdict, and how many rounds it took."""
        engine = Engine(
            connect=self.connector,
            gather=lambda inventory: fan_out(inventory.nodes, self.connector, self._look),
            fanout=1,
            timeout_s=300,
            requirements={NewBoot.NAME: NewBoot(self.first_boot)},
            state_dir=STATE,
            **allowed,
        )
        run = RunDir.create("bootstrap", self.runs)
        result = bootstrap.apply(engine, bootstrap.prepare(engine, self.inventory, Options(), run), run)
        return result.outcomes[NODE], result.verdicts.values_by_node[NODE][0], result.rounds

    def undo(self):
        """Take back the node's latest run."""
        undo = Undo(self.connector, 1, 300, "test", state_dir=STATE)
        listed = undo.list(self.inventory.nodes).values_by_node[NODE]
        if listed.run is None:
            return listed
        return undo.execute(self.inventory.nodes, {NODE: listed.run}).values_by_node[NODE]


def _steps(outcome):
    # What an earlier bootstrap has made is only found to be so.
    return [
        (step.description, step.status.value) for step in outcome.steps if step.status.value != "unchanged"
    ]


def test_a_reboot_waits_for_nobody_at_work_and_the_next_round_goes_on(qemu_lab, tmp_path):
    controller = Controller(qemu_lab, tmp_path)
    try:
        # Not allowed: the file is written, the boot is not made.
        outcome, verdict, _ = controller.bootstrap()
        assert _steps(outcome)[0] == ("Write what the boot must see", "changed")
        assert _steps(outcome)[1][1] in ("skipped", "failed")
        assert verdict.status is Status.UNMET
        assert qemu_lab.output(NODE, "cat /proc/sys/kernel/random/boot_id") == controller.first_boot

        # Allowed, but a user's process would be cut off.
        qemu_lab.run(NODE, "sudo -u lab setsid sleep 3600 >/dev/null 2>&1 </dev/null & sleep 1")
        outcome, verdict, _ = controller.bootstrap(reboot=True)
        refused = outcome.steps[-1]
        assert refused.status.value == "failed"
        assert "sleep (process " in refused.reason and "of uid 1000" in refused.reason
        assert qemu_lab.output(NODE, "cat /proc/sys/kernel/random/boot_id") == controller.first_boot
        qemu_lab.run(NODE, "killall -u lab sleep 2>/dev/null || pkill -u lab -x sleep")

        started = time.monotonic()
        outcome, verdict, rounds = controller.bootstrap(reboot=True)
        took_s = time.monotonic() - started
        assert _steps(outcome) == [("Boot with it", "changed"), ("Write what only then can be", "changed")]
        assert (verdict.status, rounds) == (Status.MET, 2)
        boot = qemu_lab.output(NODE, "cat /proc/sys/kernel/random/boot_id")
        assert boot != controller.first_boot
        assert qemu_lab.output(NODE, f"cat {BEFORE} {AFTER}").split() == ["before", boot]
        qemu_lab.run(NODE, RXE_ACTIVE)
        assert took_s < 900
    finally:
        # The latest first, until no run is left.
        undone = [controller.undo() for _ in range(4)]
    assert all(step.status.value == "changed" for outcome in undone for step in outcome.steps), undone
    assert qemu_lab.run(NODE, "ls -d /etc/clusterctl-toy", check=False).stdout == ""
    assert undone[-1].run is None
    qemu_lab.run(NODE, f"rm -rf {STATE}")
