"""Time `clusterctl check` against `ansible -m setup` on the same real sshd nodes in the same run.

Starts the nodes on loopback addresses (root is needed), installs ansible-core into a temporary environment,
interleaves the rivals, and prints one table of medians and ratios. Both start cold every time: ansible's
persistent connections of the round before are ended first. Ansible is spared its search for an interpreter.

    python benchmarks/check_vs_ansible.py [--nodes 64] [--rounds 3] [--ansible /path/to/ansible]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import sshd_farm

GOAL = 5.0


@dataclass
class Rival:
    """One command line, and what its rounds took."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str]
    good_exits: tuple[int, ...]
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def run(self, log: Path) -> str:
        """Run once, note wall time and the client's own CPU time, and return standard output."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        with log.open("w+") as out, log.with_suffix(".err").open("w+") as err:
            # Files, not pipes: nothing that stays behind can keep us waiting.
            done = subprocess.run(
                self.argv, env={**os.environ, **self.env}, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                timeout=900, cwd=log.parent, check=False,
            )  # fmt: skip
            self.wall_s.append(time.perf_counter() - began)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.cpu_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            out.seek(0)
            err.seek(0)
            output = out.read()
            if done.returncode not in self.good_exits or not output:
                raise SystemExit(f"{self.name} ended with status {done.returncode}: {err.read()[-2000:]}")
            return output


def install_ansible(folder: Path) -> str:
    """Install ansible-core into an environment of its own and return the command's path."""
    venv.create(folder, with_pip=True)
    pip = (str(folder / "bin" / "pip"), "--disable-pip-version-check", "install", "--quiet", "ansible-core")
    subprocess.run(pip, check=True, timeout=600)
    return str(folder / "bin" / "ansible")


def rivals(farm: sshd_farm.Farm, folder: Path, ansible: str) -> list[Rival]:
    """Return clusterctl and both of ansible's ways."""
    hosts = folder / "hosts.ini"
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin") or sys.executable
    hosts.write_text(
        "".join(f"{node.name} ansible_host={node.address} ansible_port={node.port}\n" for node in farm.nodes)
        + f"[all:vars]\nansible_user={farm.user}\nansible_ssh_private_key_file={farm.identity_file}\n"
        + f"ansible_python_interpreter={python}\n"
        + f"ansible_ssh_common_args=-o UserKnownHostsFile={farm.known_hosts}\n"
    )
    (folder / "ansible.cfg").write_text("")
    setup = (ansible, "all", "-i", str(hosts), "-m", "setup", "-f", str(len(farm.nodes)), "-o")
    quiet = {
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"), "ANSIBLE_HOME": str(folder / "ansible"), "ANSIBLE_TIMEOUT": "60",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"),
    }  # fmt: skip
    check = (str(Path(sys.executable).parent / "clusterctl"), "check", str(farm.inventory(folder)), "--json")
    ours = {**farm.env, "CLUSTERCTL_RUNS": str(folder / "runs"), "CLUSTERCTL_CONNECT_TIMEOUT_S": "60"}
    return [
        Rival("clusterctl check --json", check, ours, (0, 1)),
        Rival("ansible -m setup", setup, quiet, (0,)),
        Rival("ansible -m setup, pipelining", setup, {**quiet, "ANSIBLE_PIPELINING": "1"}, (0,)),
    ]


def measure(farm: sshd_farm.Farm, folder: Path, ansible: str, rounds: int) -> list[Rival]:
    """Run all rivals ``rounds`` times in turns, after one round of ours that warms the page cache."""
    found = rivals(farm, folder, ansible)
    found[0].run(folder / "warm.json")
    found[0].wall_s.clear()
    found[0].cpu_s.clear()
    for number in range(rounds):
        for rival in found:
            output = rival.run(folder / f"out-{number}")
            answered = (
                sum(node["reachable"] for node in json.loads(output)["nodes"])
                if rival is found[0]
                else output.count("| SUCCESS =>")
            )
            if answered != len(farm.nodes):
                raise SystemExit(f"{rival.name}: {answered} of {len(farm.nodes)} nodes answered")
            # Ends ansible's persistent connections, so that its next round is a first one as well.
            for node in farm.nodes:
                node.drop_connections()
            time.sleep(1)
    return found


def main() -> int:
    """Measure, print the table, and return 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description="clusterctl check against ansible -m setup on sshd nodes")
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--ansible", help="an installed ansible; default: ansible-core in a temporary environment"
    )
    options = parser.parse_args()
    reason = sshd_farm.missing()
    if reason:
        raise SystemExit(f"cannot start nodes here: {reason}")
    with tempfile.TemporaryDirectory(prefix="check-vs-ansible-") as name:
        folder = Path(name)
        ansible = options.ansible or install_ansible(folder / "venv")
        version = subprocess.run(
            (ansible, "--version"), capture_output=True, text=True, timeout=60, check=True
        )
        farm = sshd_farm.start_farm(options.nodes)
        try:
            found = measure(farm, folder, ansible, options.rounds)
        finally:
            farm.stop()
    release = version.stdout.splitlines()[0]
    print(f"{options.nodes} sshd nodes, {os.cpu_count()} cores, medians of {options.rounds}; {release}")
    print(f"{'':30} {'wall s':>8} {'CPU s':>8} {'x wall':>8}")
    ours = statistics.median(found[0].wall_s)
    for rival in found:
        wall, cpu = statistics.median(rival.wall_s), statistics.median(rival.cpu_s)
        print(f"{rival.name:30} {wall:8.2f} {cpu:8.2f} {wall / ours:8.1f}")
    ratio = min(statistics.median(rival.wall_s) for rival in found[1:]) / ours
    print(f"goal: {GOAL:g} x less wall time than ansible; reached: {ratio:.1f} x against its faster way")
    return 0 if ratio >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
