"""Time ``clusterctl check`` against ansible's and pyinfra's ways to the same facts, on the same sshd nodes in one run.

The rivals gather the fifteen subjects below, of which ``check`` gathers more: ansible by its setup module, by fifteen
module tasks and by fifteen raw tasks (pipelining, as many forks as nodes, no search for an interpreter, no
implicit facts), pyinfra by fifteen facts. Every round starts cold: ansible's persistent connections are ended first.

    python benchmarks/check_vs_ansible.py [--nodes 64] [--rounds 3] [--quick] [--venv DIR] [--against pyinfra]
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from side_by_side import (
    CLUSTERCTL,
    Farm,
    Goal,
    Rival,
    drop_connections,
    nodes_and_folder,
    options,
    ours,
    report,
    rivals_in,
    take_turns,
    versions,
)

# One plain command for each subject, the same for all rivals; all of it is in clusterctl's probe.
FACTS = {
    "kernel": "uname -a",
    "distribution": "cat /etc/os-release",
    "processors": "head -n 32 /proc/cpuinfo",
    "memory": "cat /proc/meminfo",
    "boot parameters": "cat /proc/cmdline",
    "mounts": "cat /proc/mounts",
    "space": "df -kP / /dev/shm /tmp",
    "interfaces": "ip -o addr show",
    "routes": "cat /proc/net/route",
    "limits": "cat /proc/self/limits",
    "PAM": "cat /etc/pam.d/sshd",
    "sshd": "cat /etc/ssh/sshd_config",
    "kernel parameters": "cat /proc/sys/net/core/rmem_max /proc/sys/net/core/wmem_max /proc/sys/net/ipv4/tcp_rmem",
    "PCI devices": "ls -l /sys/bus/pci/devices",
    "clock": "date +%s.%N",
}

GOALS = {
    "pyinfra, 15 facts": 2,
    "ansible, 15 raw tasks": 10,
    "ansible -m setup, pipelining": 5,
    "ansible, 15 module tasks, pipelining": 40,
}
"""How many times as long as ``check`` each rival has to take."""


def playbook(folder: Path, module: str) -> str:
    """Write a playbook with one task for each fact and return its path."""
    tasks = [
        {"name": name, f"ansible.builtin.{module}": line, "changed_when": False}
        for name, line in FACTS.items()
    ]
    path = folder / f"{module}.json"
    path.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    return str(path)


def ansible_inventory(farm: Farm, folder: Path) -> Path:
    """Write the farm as an ansible inventory and return its path."""
    hosts = folder / "hosts.ini"
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin") or sys.executable
    hosts.write_text(
        "".join(f"{node.name} ansible_host={node.address} ansible_port={node.port}\n" for node in farm.nodes)
        + f"[all:vars]\nansible_user={farm.user}\nansible_ssh_private_key_file={farm.identity_file}\n"
        + f"ansible_python_interpreter={python}\n"
        + f"ansible_ssh_common_args=-o UserKnownHostsFile={farm.known_hosts}\n"
    )
    (folder / "ansible.cfg").write_text("")
    return hosts


def ansible_env(folder: Path) -> dict[str, str]:
    """Return the environment that lets ansible be as fast as it can."""
    return {
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"), "ANSIBLE_HOME": str(folder / "ansible"), "ANSIBLE_TIMEOUT": "60",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"), "ANSIBLE_PIPELINING": "1",
    }  # fmt: skip


def pyinfra_inventory(farm: Farm, folder: Path) -> Path:
    """Write the farm as a pyinfra inventory and return its path."""
    path = folder / "pyinfra_hosts.py"
    hosts = [
        (node.address, {"ssh_port": node.port, "ssh_user": farm.user, "ssh_key": str(farm.identity_file),
                        "ssh_known_hosts_file": str(farm.known_hosts), "name": node.name})
        for node in farm.nodes
    ]  # fmt: skip
    path.write_text(f"hosts = {hosts!r}\n")
    return path


def rivals(farm: Farm, folder: Path, programs: Path) -> list[Rival]:
    """Return clusterctl and those it is measured against."""
    count = len(farm.nodes)
    hosts, quiet = str(ansible_inventory(farm, folder)), ansible_env(folder)
    deploy = folder / "facts.py"
    lines = "".join(f"host.get_fact(Command, command={line!r})\n" for line in FACTS.values())
    deploy.write_text(f"from pyinfra import host\nfrom pyinfra.facts.server import Command\n{lines}")

    def all_checked(output: str) -> None:
        if json.loads(output)["summary"]["unreachable"]:
            raise SystemExit("clusterctl: not every node answered")

    def recap(output: str) -> None:
        if output.count(f"ok={len(FACTS)} ") != count:
            raise SystemExit(f"ansible: not every node did every task: {output[-1500:]}")

    def setup(output: str) -> None:
        if output.count("| SUCCESS =>") != count:
            raise SystemExit("ansible setup: not every node answered")

    def play(module: str) -> tuple[str, ...]:
        return (str(programs / "ansible-playbook"), "-i", hosts, "-f", str(count), playbook(folder, module))

    return [
        Rival("clusterctl check --json", (CLUSTERCTL, "check", str(farm.inventory(folder)), "--json"),
              ours(farm, folder), (0, 1), all_checked),
        Rival("pyinfra, 15 facts", (str(programs / "pyinfra"), "-y", "--parallel", str(count),
              str(pyinfra_inventory(farm, folder)), str(deploy))),
        Rival("ansible, 15 raw tasks", play("raw"), quiet, proof=recap),
        Rival("ansible -m setup, pipelining",
              (str(programs / "ansible"), "all", "-i", hosts, "-m", "setup", "-f", str(count), "-o"),
              quiet, proof=setup),
        Rival("ansible, 15 module tasks, pipelining", play("command"), quiet, proof=recap),
    ]  # fmt: skip


def main() -> int:
    """Measure, print the table, and return 1 when a goal is missed."""
    chosen = options("clusterctl check against ansible and pyinfra", 64, 8, selectable=True)
    with nodes_and_folder(chosen.nodes) as (farm, folder):
        programs = rivals_in(chosen.venv or folder / "venv", "ansible-core", "pyinfra")
        check, *others = rivals(farm, folder, programs)
        found = [check, *(rival for rival in others if chosen.against in rival.name)]
        take_turns(found, chosen.rounds, folder, drop_connections(farm))
        names = versions(programs, "ansible-core", "pyinfra")
    print("facts: " + "; ".join(f"{name} ({line})" for name, line in FACTS.items()))
    return report(
        f"{chosen.nodes} sshd nodes, medians of {chosen.rounds}; {names}",
        found,
        [
            Goal(f"{rival.name}, x check", rival.wall / check.wall, GOALS[rival.name], True)
            for rival in found[1:]
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
