"""A fleet of 8-GPU nodes with the usual faults, judged without contacting a node: for pages, screens and tests."""

from __future__ import annotations

from dataclasses import replace

from case_facts import facts_of

from clusterctl.cli.check.run import Judged, judge_fleet
from clusterctl.facts.base import Reading
from clusterctl.inventory.model import Inventory, Node
from clusterctl.transport.base import Failure, FailureKind, HostMap

_DRIVER, _OLD = "570.124.06", "550.90.07"
_BUSES = (0x10, 0x20, 0x30, 0x40, 0x90, 0xA0, 0xB0, 0xC0)
_BUFFERS = {
    "net.core.rmem_max": "212992",
    "net.core.wmem_max": "212992",
    "net.core.somaxconn": "4096",
}


def _words(**changes):
    """Return a node in the words of the requirements' cases: 8 H100 and 8 InfiniBand ports below 8 switches."""
    pci, gpus, rdma = [], [], []
    for index, bus in enumerate(_BUSES):
        root = f"0000:{bus:02x}:01.0"
        up = f"{root}/0000:{bus + 1:02x}:00.0"
        to_gpu, to_nic = f"{up}/0000:{bus + 2:02x}:00.0", f"{up}/0000:{bus + 2:02x}:01.0"
        gpu, nic = f"0000:{bus + 3:02x}:00.0", f"0000:{bus + 4:02x}:00.0"
        pci += [
            f"{root} 060400 8086:352a acs=0000",
            f"{up} 060400 1000:c030 port=upstream-port acs=absent",
            f"{to_gpu} 060400 1000:c030 port=downstream-port acs={changes.get('acs', '005d')}",
            f"{to_gpu}/{gpu} 030200 10de:2330 driver=nvidia",
            f"{to_nic} 060400 1000:c030 port=downstream-port acs=0000",
            f"{to_nic}/{nic} 020700 15b3:1021 driver=mlx5_core",
        ]
        if index < changes.get("gpus", 8):
            gpus.append(f"{gpu} NVIDIA_H100_80GB_HBM3 pm={changes.get('pm', 'on')}")
        rate = changes.get("rates", {}).get(index, "400")
        rdma.append(f"mlx5_{index} board=MT_0000000838 pci={nic} 1:ACTIVE:LinkUp:{rate}:InfiniBand")
    return {
        "os": "ubuntu",
        "kernel": "5.15.0-130-generic",
        "pci": pci,
        "gpus": gpus,
        "gpu_health": [gpu.partition(" ")[0] for gpu in gpus],
        "rdma": rdma,
        "driver": f"{changes.get('driver', _DRIVER)} open",
        "module_version": changes.get("driver", _DRIVER),
        "modules": "nvidia nvidia_uvm mlx5_core mlx5_ib ib_uverbs",
        "units": [
            *("ssh.service active enabled", "nvidia-persistenced.service active enabled"),
            *("chrony.service active enabled", "docker.service active enabled"),
        ],
        "mounts": ["/dev/nvme0n1p2 / ext4 rw"],
        "disk": ["/ / 900000 40000000"],
        "memlock": changes.get("memlock", 8192),
        "docker": changes.get(
            "docker",
            {
                "binary": "/usr/bin/docker",
                "engine": "27.5",
                "runtimes": "runc nvidia",
                "toolkit": "1.17.8",
                "cdi_specs": {"/etc/cdi/nvidia.yaml": changes.get("driver", _DRIVER)},
            },
        ),
        "packages": "docker.io=27.5.1 chrony=4.2",
        "sysctls": _BUFFERS,
        "numa": 2,
        "root": changes.get("root", "root"),
    }


def _odd(index, count):
    """Return how a node differs from the others: an older driver, a lost GPU, a slow port, no docker."""
    if count < 4:
        return {}
    if index % 64 == 2:
        return {"driver": _OLD}
    if index % 64 == 3:
        return {"gpus": 7}
    if index % 64 == 5:
        return {"rates": {6: "200"}}
    if index % 64 == 6:
        return {"docker": {"engine": "absent"}, "memlock": "unlimited"}
    return {}


def sample_fleet(count, *, healthy=False, only=None):
    """Return the judged fleet of ``count`` nodes; from 8 nodes on, the last one is unreachable."""
    width = max(2, len(str(count)))
    names = [f"gpu{number:0{width}d}" for number in range(1, count + 1)]
    nodes = tuple(Node.model_validate({"name": name, "address": name, "gpus": 8}) for name in names)
    found = {}
    built = {}
    for index, name in enumerate(names):
        changes = {"acs": "0000", "memlock": "unlimited"} if healthy else _odd(index, count)
        key = repr(changes)
        built.setdefault(key, facts_of(_words(**changes)))
        facts = replace(built[key], name=name, system=replace(built[key].system, hostname=Reading(name)))
        found[name] = facts
    if count >= 8:
        last = names[-1]
        found[last] = Failure(
            FailureKind.REFUSED,
            f"{last} (root@10.0.0.{count % 250}:22): connection refused",
            "is sshd running, and on this port?",
        )
    inventory = Inventory(nodes=nodes, source="inventory.yaml")
    return judge_fleet(HostMap(found), inventory, only, (), {})


__all__ = ["Judged", "sample_fleet"]
