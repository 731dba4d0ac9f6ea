"""The main job on two real kernels: check, bootstrap (one node loses power in the middle), resume, reboot, undo.

One journey through the installed command, told once (guests without KVM are slow), and one test per promise.
node1 also builds an out-of-tree module that stands in for nv_peer_mem.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
import yaml

# The whole journey is made in the first test's set-up: minutes with KVM or idle cores, much longer beside other guests.
pytestmark = pytest.mark.timeout(1500)

PORTS = ("00:10.0", "00:11.0")
REGISTER = "ECAP_ACS+6.w"
TOY = Path(__file__).parent / "toy_peer_mem"
NODES = ("node1", "node2")

# A guest's ports come out of a reset with words of 0, those of real machines with what their firmware sets. This unit
# stands in for the firmware: without our own unit after it, the words would stay at 001d.
FIRMWARE = "stand-in-firmware.service"
FIRMWARE_WORDS = "/run/stand-in-firmware-words"
FIRMWARE_UNIT = f"""\
[Unit]
Description=Turn ACS redirection on, as firmware would
Before=clusterctl-acs.service

[Service]
Type=oneshot
ExecStart=/bin/sh -c '{"; ".join(f"setpci -s {port} {REGISTER}=0x1d" for port in PORTS)}'
ExecStart=/bin/sh -c '({"; ".join(f"setpci -s {port} {REGISTER}" for port in PORTS)}) >{FIRMWARE_WORDS}'

[Install]
WantedBy=multi-user.target
"""

LISTING = r"""
cd / && find etc usr/local -printf '%y %m %U:%G %l %p\n' | sort
find etc usr/local -type f -exec sha256sum {} + | sort -k 2
ls /usr/src "/lib/modules/$(uname -r)"
cd "/lib/modules/$(uname -r)" && sha256sum modules.dep modules.alias modules.symbols
"""


def pytest_generate_tests(metafunc):
    if "node" in metafunc.fixturenames:
        metafunc.parametrize("node", NODES)


class Command:
    """The installed command, with the lab's known hosts and run folders of its own."""

    def __init__(self, path, session, folder):
        self.path = str(path)
        self.runs = folder / "runs"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CLUSTERCTL_")} | {
            "CLUSTERCTL_KNOWN_HOSTS": str(session.lab.known_hosts_path),
            "CLUSTERCTL_RUNS": str(self.runs),
        }

    def start(self, *arguments):
        return subprocess.Popen(
            (self.path, *arguments),
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments, timeout_s=900):
        """Return (exit code, the JSON document, what was said)."""
        with self.start(*arguments, "--json") as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return process.returncode, json.loads(out), err


def _words(session, node):
    script = "; ".join(f"setpci -s {port} {REGISTER}" for port in PORTS)
    return session.output(node, script).split()


def _redirect(session, node):
    """What firmware with redirection on would leave."""
    session.run(node, "; ".join(f"setpci -s {port} {REGISTER}=0x1d" for port in PORTS))
    assert _words(session, node) == ["001d", "001d"]


def _install_firmware(session, node):
    path = f"/etc/systemd/system/{FIRMWARE}"
    session.run(
        node,
        f"cat >{path} <<'EOF'\n{FIRMWARE_UNIT}EOF\nsystemctl daemon-reload && systemctl enable {FIRMWARE}",
    )


def _remove_firmware(session, node):
    path = f"/etc/systemd/system/{FIRMWARE}"
    session.run(
        node, f"systemctl disable {FIRMWARE} && rm -f {path} {FIRMWARE_WORDS} && systemctl daemon-reload"
    )


def _boot_order(session, node):
    """Return when our unit had done its work and when the SSH server was started, in microseconds since boot."""
    questions = (("clusterctl-acs", "ActiveEnter"), ("ssh", "InactiveExit"))
    return [
        int(session.output(node, f"systemctl show --value -p {change}TimestampMonotonic {unit}.service"))
        for unit, change in questions
    ]


def _on_both(action):
    """Do something that takes a guest long on both at once."""
    errors = []

    def guarded(node):
        try:
            action(node)
        except BaseException as error:  # noqa: BLE001 - raised again below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(node,)) for node in NODES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _wait_for_changes(runs, node, count, process, timeout_s=600):
    """Wait until the run folder's journal holds ``count`` changes of a node; return the run's id."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for path in runs.glob("*-bootstrap-*/apply.journal.jsonl"):
            entries = [json.loads(line) for line in path.read_text().splitlines()]
            changed = [e for e in entries if e["node"] == node and e["event"] == "changed"]
            if len(changed) >= count:
                return path.parent.name
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    pytest.fail(f"{node} made no {count} changes within {timeout_s} s")


@pytest.fixture(scope="module")
def journey(qemu_lab, clusterctl, tmp_path_factory):
    """Everything that was seen on the way."""
    folder = tmp_path_factory.mktemp("bootstrap")
    session, command = qemu_lab, Command(clusterctl, qemu_lab, folder)
    document = yaml.safe_load(session.lab.inventory_path.read_text())
    document["nodes"][0]["requirements"] = {
        "peermem": {"mechanism": "nv_peer_mem", "source": str(TOY), "module": "toy_peer_mem"}
    }
    path = folder / "inventory.yaml"
    path.write_text(yaml.safe_dump(document))
    inventory = str(path)
    seen = {"before": {}, "after": {}, "words": {}, "limits": {}, "modules": {}, "units": {}, "order": {}}

    for node in NODES:
        _redirect(session, node)
        seen["before"][node] = session.output(node, LISTING)
        seen["limits"][node, "before"] = session.output(node, "ulimit -l")
    seen["first check"] = command.run("check", inventory)
    seen["dry run"] = command.run("bootstrap", "--dry-run", inventory)
    for node in NODES:
        seen["after dry run", node] = session.output(node, LISTING + "ls -d /var/lib/clusterctl; true")

    try:
        with command.start("bootstrap", "--yes", "--json", inventory) as process:
            run = _wait_for_changes(command.runs, "node2", 2, process)
            session.kill("node2")
            out, err = process.communicate(timeout=900)
    finally:
        session.start("node2")
    seen["run"] = run
    seen["cut bootstrap"] = (process.returncode, json.loads(out), err)
    seen["words"]["node1", "bootstrapped"] = _words(session, "node1")
    _redirect(session, "node2")
    seen["resumed"] = command.run("bootstrap", "--yes", "--resume", run)
    for node in NODES:
        seen["words"][node, "resumed"] = _words(session, node)
        seen["limits"][node, "resumed"] = session.output(node, "ulimit -l")
    seen["second bootstrap"] = command.run("bootstrap", "--yes", inventory)
    seen["modules"]["bootstrapped"] = session.output("node1", "ls -d /sys/module/toy_peer_mem")

    for node in NODES:
        _install_firmware(session, node)
    _on_both(session.reboot)
    seen["check after reboot"] = command.run("check", inventory)
    for node in NODES:
        seen["words"][node, "rebooted"] = _words(session, node)
        seen["words"][node, "firmware"] = session.run(
            node, f"cat {FIRMWARE_WORDS}", check=False
        ).stdout.split()
        seen["units"][node] = session.run(
            node, "systemctl is-active clusterctl-acs", check=False
        ).stdout.strip()
        seen["order"][node] = _boot_order(session, node)
    seen["modules"]["rebooted"] = session.run(
        "node1", "cat /sys/module/toy_peer_mem/version", check=False
    ).stdout

    for node in NODES:
        _remove_firmware(session, node)
    seen["undo"] = command.run("undo", "--yes", inventory)
    for node in NODES:
        seen["words"][node, "undone"] = _words(session, node)
        seen["limits"][node, "undone"] = session.output(node, "ulimit -l")
        seen["after"][node] = session.output(node, LISTING)
    seen["modules"]["undone"] = session.run("node1", "ls -d /sys/module/toy_peer_mem", check=False).returncode
    seen["second undo"] = command.run("undo", "--yes", inventory)
    return seen


def _node(document, name):
    return next(node for node in document["nodes"] if node["name"] == name)


def _status(document, name, requirement):
    verdicts = {v["requirement"]: v for v in _node(document, name)["verdicts"]}
    return verdicts[requirement]["status"]


def test_check_finds_redirection_and_a_low_limit(journey, node):
    code, document, _ = journey["first check"]
    assert code == 1
    assert _status(document, node, "acs") == "unmet"
    assert _status(document, node, "memlock") == "unmet"
    reasons = {v["requirement"]: v["reason"] for v in _node(document, node)["verdicts"]}
    assert all(f"0000:{port} (001d)" in reasons["acs"] for port in PORTS)


def test_what_is_there_is_left_as_it_is(journey, node):
    document = journey["first check"][1]
    for requirement in ("rdma-userspace", "rdma-link", "docker"):
        assert _status(document, node, requirement) == "met"
    assert _status(document, node, "cpu-governor") == "not-applicable"


def test_a_dry_run_plans_and_touches_nothing(journey, node):
    code, document, _ = journey["dry run"]
    assert code == 1
    assert {step["status"] for step in _node(document, node)["steps"]} == {"planned"}
    assert journey["after dry run", node] == journey["before"][node]


def test_power_loss_in_the_middle_is_a_named_failure_and_the_other_node_is_finished(journey):
    code, document, said = journey["cut bootstrap"]
    assert code == 1
    assert "node2" in said
    lost = _node(document, "node2")
    assert lost["reachable"] is False
    assert lost["error"]["kind"] in ("lost", "timeout", "deadline")
    statuses = [step["status"] for step in lost["steps"]]
    assert statuses.count("changed") >= 2
    assert set(statuses) & {"failed", "skipped"}
    healthy = _node(document, "node1")
    assert healthy["reachable"] is True
    assert {step["status"] for step in healthy["steps"]} == {"changed"}
    assert journey["words"]["node1", "bootstrapped"] == ["0000", "0000"]
    assert {v["status"] for v in healthy["verdicts"]} <= {"met", "not-applicable"}


def test_resume_finishes_under_the_same_run(journey, node):
    code, document, said = journey["resumed"]
    assert code == 0, (document, said)
    assert document["run"] == journey["run"]
    assert document["summary"]["failed"] == 0
    assert document["summary"]["unreachable"] == 0
    assert {v["status"] for v in _node(document, node)["verdicts"]} <= {"met", "not-applicable"}
    assert journey["words"][node, "resumed"] == ["0000", "0000"]
    assert journey["limits"][node, "before"] != "unlimited"
    assert journey["limits"][node, "resumed"] == "unlimited"


def test_a_second_bootstrap_changes_nothing(journey):
    code, document, _ = journey["second bootstrap"]
    assert code == 0
    assert document["summary"] == {"changed": 0, "failed": 0, "planned": 0, "unreachable": 0}
    assert all(node["steps"] == [] for node in document["nodes"])


def test_after_a_reboot_everything_is_still_met(journey, node):
    code, document, _ = journey["check after reboot"]
    assert code == 0, document
    assert _status(document, node, "acs") == "met"
    assert _status(document, node, "memlock") == "met"


def test_what_firmware_sets_at_boot_is_cleared_before_anyone_can_log_in(journey, node):
    assert journey["words"][node, "firmware"] == ["001d", "001d"]
    assert journey["words"][node, "rebooted"] == ["0000", "0000"]
    assert journey["units"][node] == "active"
    cleared, ssh_started = journey["order"][node]
    assert 0 < cleared <= ssh_started


def test_the_stand_in_for_nv_peer_mem_is_built_loaded_and_loaded_again_by_boot(journey):
    built = [s for s in _node(journey["cut bootstrap"][1], "node1")["steps"] if s["requirement"] == "peermem"]
    assert [step["status"] for step in built] == ["changed"] * 5
    assert "toy_peer_mem" in journey["modules"]["bootstrapped"]
    assert journey["modules"]["rebooted"].strip() == "1.3"
    assert _status(journey["check after reboot"][1], "node1", "peermem") == "met"
    assert _status(journey["check after reboot"][1], "node2", "peermem") == "not-applicable"


def test_undo_restores_words_and_files_byte_for_byte(journey, node):
    code, document, _ = journey["undo"]
    assert code == 0, document
    assert _node(document, node)["run"] == journey["run"]
    assert journey["words"][node, "undone"] == ["001d", "001d"]
    assert journey["limits"][node, "undone"] == journey["limits"][node, "before"]
    assert journey["after"][node].splitlines() == journey["before"][node].splitlines()
    assert journey["modules"]["undone"] != 0


def test_there_is_nothing_left_to_undo(journey, node):
    code, document, _ = journey["second undo"]
    assert code == 0
    assert "no run" in _node(document, node)["nothing"]
