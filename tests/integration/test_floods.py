"""One node floods in every command: the controller's memory and processor stay bounded, and the others are served."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sshd_farm as farms
from listening import wait_until
from soak import SOAK

MOST_KIB = 300 * 1024
MOST_CPU_S = 10.0
"""Beyond the same command with honest nodes; of the processor, because other tests run beside this one."""
MARK = "a line of a flood 4714.3"

# Runs a command with its output on stderr. A process begins with the peak of the one that started it, and a worker of
# pytest is large, so that a small one stands between them.
MEASURE = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=sys.stderr).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_maxrss, used.ru_utime + used.ru_stime, code]))
"""

# What the login shell of the hostile node runs instead of each command.
FLOODS = {
    "stdout before the start": f"exec yes '{MARK}'",
    "stderr before the start": f"exec yes '{MARK}' >&2",
    "stdout of the command": f"sh -c \"$SSH_ORIGINAL_COMMAND\"; exec yes '{MARK}'",
    "stderr of the command": f"sh -c \"$SSH_ORIGINAL_COMMAND\"; exec yes '{MARK}' >&2",
    "one line without an end": "sh -c \"$SSH_ORIGINAL_COMMAND\"; exec tr '\\0' x </dev/zero",
    "every tool": 'PATH={tools}:$PATH exec sh -c "$SSH_ORIGINAL_COMMAND"',
}
TOOLS = (
    "df",
    "dmesg",
    "docker",
    "dpkg-query",
    "fio",
    "ibstat",
    "ip",
    "lsblk",
    "lspci",
    "mpirun",
    "nvidia-smi",
    "systemctl",
)
COMMANDS = {
    "check": ("check",),
    "run": ("run", "--timeout", "60", "{inventory}", "--", "id"),
    "run --stream": ("run", "--stream", "--timeout", "60", "{inventory}", "--", "id"),
    "bootstrap": ("bootstrap", "--dry-run"),
    "undo": ("undo", "--dry-run"),
    "accept": ("accept", "--only", "disk"),
    "bench": ("bench", "--library", "gloo", "--collective", "all_reduce", "-e", "8"),
    "locate": ("locate", "--library", "gloo"),
    "up": ("up", "--image", "train:1"),
}
# Each command has one flood. A node whose tools never end costs check its deadline.
POINTS = [
    ("check", "every tool"),
    ("run", "stdout of the command"),
    ("run --stream", "one line without an end"),
    ("bootstrap", "stderr of the command"),
    ("undo", "stderr before the start"),
    ("accept", "stdout before the start"),
    ("bench", "stdout before the start"),
    ("locate", "stdout before the start"),
    ("up", "stdout before the start"),
]
SAMPLE = POINTS[1:5]


def _flooding() -> list[str]:
    """Return the processes of a flood that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == b"\0".join((b"yes", MARK.encode(), b"")):
                found.append(path.parent.name)
    return found


def _measured(farm, inventory: Path, command: str, place: Path) -> tuple[int, float, int, str]:
    """Run a command; return the peak of its memory (KiB), its processor time (s), its exit code and output."""
    words = [word.format(inventory=inventory) for word in COMMANDS[command]]
    if str(inventory) not in words:
        words.append(str(inventory))
    with (place / "output").open("w+") as output:
        done = subprocess.run(
            (sys.executable, "-c", MEASURE, str(Path(sys.executable).with_name("clusterctl")), *words),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output, cwd=place,
            env={**os.environ, **farm.env}, check=True, text=True,
        )  # fmt: skip
        peak_kib, used_s, code = json.loads(done.stdout)
        output.seek(0)
        return peak_kib, used_s, code, output.read(1 << 20)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("command", "flood"), POINTS if SOAK else SAMPLE)
def test_a_flooding_node_costs_the_controller_little(sshd_farm, tmp_path, command, flood):
    farm = sshd_farm(3)
    inventory = farm.inventory(tmp_path, python=sys.executable, socket_ifname="lo")
    _, honest_s, _, honest = _measured(farm, inventory, command, tmp_path)
    tools = farm.directory / "tools"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).write_text(f"#!/bin/sh\nexec yes '{MARK}'\n")
        (tools / name).chmod(0o755)
    script = farm.directory / "flood.sh"
    script.write_text(FLOODS[flood].replace("{tools}", str(tools)) + "\n")
    hostile = farm.nodes[1]
    hostile.stop()
    hostile.command += ("-o", f"ForceCommand exec sh {script}")
    hostile.start()
    farms.wait_for_listeners([hostile])
    peak_kib, used_s, code, said = _measured(farm, inventory, command, tmp_path)
    assert peak_kib < MOST_KIB, (peak_kib, said[-2000:])
    assert used_s < honest_s + MOST_CPU_S, (used_s, honest_s, said[-2000:])
    assert "Traceback" not in said, said[-2000:]
    if flood != "every tool":
        assert code != 0 and hostile.name in said, (honest[-1000:], said[-1000:])
    wait_until(lambda: not _flooding(), "the flood goes on")
