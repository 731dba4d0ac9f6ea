"""The hands of the journeys on guests: the installed command, the stand-in firmware, and both guests at once."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time

NODES = ("node1", "node2")
PORTS = ("00:10.0", "00:11.0")

# QEMU's root ports have their ACS capability at 0x148, and so the control word at 0x14e. Bare nodes have no setpci yet.
_CONTROL = 0x148 + 6
_CONFIG = "/sys/bus/pci/devices/0000:{}/config"

# A guest's ports come out of a reset with words of 0, those of real machines with what their firmware sets. This unit
# stands in for the firmware: without our own unit after it, the words would stay at 001d.
FIRMWARE = "stand-in-firmware.service"
_FIRMWARE_SCRIPT = "/usr/local/sbin/stand-in-firmware"
_FIRMWARE_WORDS = "/run/stand-in-firmware-words"
_FIRMWARE_UNIT = f"""\
[Unit]
Description=Turn ACS redirection on, as firmware would
Before=clusterctl-acs.service

[Service]
Type=oneshot
ExecStart={_FIRMWARE_SCRIPT}

[Install]
WantedBy=multi-user.target
"""
_READ = "; ".join(f"od -An -tx2 -j {_CONTROL} -N 2 {_CONFIG.format(port)}" for port in PORTS)
_TURN_ON = "; ".join(
    rf"printf '\035\000' | dd of={_CONFIG.format(port)} bs=1 seek={_CONTROL} conv=notrunc status=none"
    for port in PORTS
)


def words(session, node):
    """Return the control words of both ports."""
    return session.output(node, _READ).split()


def redirect(session, node):
    """Set what firmware with redirection on would leave."""
    session.run(node, _TURN_ON)
    assert words(session, node) == ["001d", "001d"]


def install_firmware(session, node):
    """Have the ports redirect at every boot from now on."""
    script = f"#!/bin/sh\n{_TURN_ON}\n({_READ}) >{_FIRMWARE_WORDS}\n"
    session.run(
        node,
        f"cat >{_FIRMWARE_SCRIPT} <<'EOF'\n{script}EOF\nchmod 755 {_FIRMWARE_SCRIPT}\n"
        f"cat >/etc/systemd/system/{FIRMWARE} <<'EOF'\n{_FIRMWARE_UNIT}EOF\n"
        f"systemctl daemon-reload && systemctl enable {FIRMWARE}",
    )


def words_of_firmware(session, node):
    """Return the words that the firmware left at this boot."""
    return session.run(node, f"cat {_FIRMWARE_WORDS}", check=False).stdout.split()


class Command:
    """The installed command, with the lab's known hosts and run folders of its own."""

    def __init__(self, path, session, folder):
        self.path = str(path)
        self.runs = folder / "runs"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CLUSTERCTL_")} | {
            "CLUSTERCTL_KNOWN_HOSTS": str(session.lab.known_hosts_path),
            "CLUSTERCTL_RUNS": str(self.runs),
        }
        self.took_s = {}

    def start(self, *arguments):
        return subprocess.Popen(
            (self.path, *arguments),
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments, timeout_s=2700):
        """Return (exit code, the JSON document, what was said)."""
        started = time.monotonic()
        with self.start(*arguments, "--json") as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        self.took_s[" ".join(arguments[:2])] = round(time.monotonic() - started)
        return process.returncode, json.loads(out), err

    def changes(self, node):
        """Return the run that is at work, and how many changes of a node its journal holds."""
        for path in self.runs.glob("*-bootstrap-*/apply.journal.jsonl"):
            entries = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
            changed = [e for e in entries if e["node"] == node and e["event"] == "changed"]
            if changed:
                return path.parent.name, len(changed)
        return "", 0

    def wait_for_changes(self, node, count, process, timeout_s=1800):
        """Wait until the run folder's journal holds ``count`` changes of a node; return the run's id."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            run, found = self.changes(node)
            if found >= count:
                return run
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        raise AssertionError(f"{node} made no {count} changes within {timeout_s} s")


def on_both(action):
    """Do something that takes a guest long on both at once; return what it gave for each."""
    errors, results = [], {}

    def guarded(node):
        try:
            results[node] = action(node)
        except BaseException as error:  # noqa: BLE001 - raised again below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(node,)) for node in NODES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def node_of(document, name):
    """Return a node's part of a command's document."""
    return next(node for node in document["nodes"] if node["name"] == name)


def statuses(document, name):
    """Return requirement -> status of a node."""
    return {v["requirement"]: v["status"] for v in node_of(document, name)["verdicts"]}
