"""Plans of CPU binding on recorded topologies, and a real binding in processes with a narrowed mask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from collective_core.affinity import (
    address_of_gpu,
    cpu_of_thread,
    describe_gpu,
    node_of_device,
    parse_list,
    plan,
    read_topology,
)

from collective_core import CollectiveCoreError

Program = Callable[..., Any]

# thread_siblings_list of each core and cpulist of each node, as these machines show them.
TWO_SOCKETS_SMT = {
    "cores": [f"{core},{core + 16}" for core in range(16)],
    "nodes": {0: "0-7,16-23", 1: "8-15,24-31"},
}
ADJACENT_THREADS = {"cores": ["0-1", "2-3", "4-5", "6-7"], "nodes": {0: "0-7"}}
ONE_CORE = {"cores": ["0"], "nodes": {0: "0"}}
ONE_SMT_CORE = {"cores": ["0-1"], "nodes": {0: "0-1"}}
NODE_WITHOUT_CPUS = {"cores": ["0", "1", "2", "3"], "nodes": {0: "0-3", 1: ""}}  # memory alone, as CXL has it


def write(machine: dict[str, Any], system: Path) -> Path:
    for siblings in machine["cores"]:
        for cpu in parse_list(siblings):
            topology = system / f"devices/system/cpu/cpu{cpu}/topology"
            topology.mkdir(parents=True)
            (topology / "thread_siblings_list").write_text(siblings + "\n")
    for node, cpus in machine["nodes"].items():
        folder = system / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus + "\n")
    return system


def shares(machine: dict[str, Any], system: Path, allowed: str, nodes: list[int | None]) -> list[list[int]]:
    topology = read_topology(frozenset(parse_list(allowed)), write(machine, system))
    found = [plan(topology, rank, nodes) for rank in range(len(nodes))]
    taken = [cpu for binding in found for cpu in binding.cpus]
    assert len(taken) == len(set(taken)), "two ranks have one CPU"
    assert set(taken) <= set(parse_list(allowed)), "wider than the mask"
    return [sorted(binding.cpus) for binding in found]


@pytest.mark.parametrize(
    ("machine", "allowed", "nodes", "expected"),
    [
        # Without GPUs: even shares, siblings together.
        (TWO_SOCKETS_SMT, "0-31", [None] * 2, ["0-7,16-23", "8-15,24-31"]),
        (TWO_SOCKETS_SMT, "0-31", [None] * 4, ["0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"]),
        (TWO_SOCKETS_SMT, "0-31", [None] * 3, ["0-4,16-20", "5-9,21-25", "10-15,26-31"]),
        # Ranks near their GPUs: 0 and 3 on the second socket.
        (TWO_SOCKETS_SMT, "0-31", [1, 0, 0, 1], ["8-11,24-27", "0-3,16-19", "4-7,20-23", "12-15,28-31"]),
        (TWO_SOCKETS_SMT, "0-31", [1, 1, 1, 0], ["8-9,24-25", "10-12,26-28", "13-15,29-31", "0-7,16-23"]),
        # One GPU of unknown place: no rank is placed by NUMA node.
        (TWO_SOCKETS_SMT, "0-31", [1, None], ["0-7,16-23", "8-15,24-31"]),
        # The cpuset of a container: half a core here and there, and nothing of the other socket.
        (TWO_SOCKETS_SMT, "2-5,18", [None] * 2, ["2-3,18", "4-5"]),
        (TWO_SOCKETS_SMT, "2-5,18", [0, 1], ["2-5,18", ""]),
        (ADJACENT_THREADS, "0-7", [None] * 2, ["0-3", "4-7"]),
        (ADJACENT_THREADS, "1-6", [None] * 2, ["1-3", "4-6"]),
        (ADJACENT_THREADS, "0-7", [None] * 4, ["0-1", "2-3", "4-5", "6-7"]),
        # Too few for all: no rank is bound.
        (ADJACENT_THREADS, "0-7", [None] * 5, [""] * 5),
        (ADJACENT_THREADS, "0,2,4,6", [None] * 3, [""] * 3),
        (ONE_CORE, "0", [None], [""]),
        (ONE_CORE, "0", [None] * 2, [""] * 2),
        (ONE_SMT_CORE, "0-1", [None], ["0-1"]),
        (NODE_WITHOUT_CPUS, "0-3", [0, 1], ["0-3", ""]),
    ],
)
def test_plan(
    tmp_path: Path, machine: dict[str, Any], allowed: str, nodes: list[int | None], expected: list[str]
) -> None:
    assert shares(machine, tmp_path, allowed, nodes) == [parse_list(text) for text in expected]


def test_a_system_that_says_nothing_has_cores_of_one_thread(tmp_path: Path) -> None:
    topology = read_topology({0, 1, 2, 3}, tmp_path)
    assert [core.threads for core in topology.cores] == [(0,), (1,), (2,), (3,)]
    assert plan(topology, 1, [None, None]).cpus == {2, 3}
    with pytest.raises(CollectiveCoreError, match="local rank 2 is not one of 2"):
        plan(topology, 2, [None, None])


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("-1\n", None), (None, None)])
def test_the_node_of_a_device(tmp_path: Path, text: str | None, node: int | None) -> None:
    device = tmp_path / "bus/pci/devices/0000:3b:00.0"
    device.mkdir(parents=True)
    if text is not None:
        (device / "numa_node").write_text(text)
    assert node_of_device("0000:3B:00.0", tmp_path) == node


@pytest.mark.parametrize(
    ("wanted", "returncode", "says"),
    [
        ("1", 0, "all allowed cores"),
        ("0", 0, '"reason": ""'),
        ("maybe", 1, "AIACC_CPU_BINDING_ENABLE=maybe: expected 0 or 1"),
    ],
)
def test_the_switch(program: Program, wanted: str, returncode: int, says: str) -> None:
    ended = program("affinity.py", size=1, per_rank=lambda _: {"AIACC_CPU_BINDING_ENABLE": wanted}).finish()
    assert ended[0].returncode == returncode, ended[0].output
    assert says in ended[0].output


@pytest.mark.parametrize(
    ("given", "place", "expected"),
    [("", (0, 2), None), ("{last}", (0, 1), "{last}"), ("{first}, {last},77", (1, 2), "{last}")],
)
def test_the_thread_of_the_horovod_api_has_the_cpu_of_its_rank(
    monkeypatch: pytest.MonkeyPatch, given: str, place: tuple[int, int], expected: str | None
) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    ends = {"first": allowed[0], "last": allowed[-1]}
    monkeypatch.setenv("HOROVOD_THREAD_AFFINITY", given.format(**ends))
    assert cpu_of_thread(*place) == (None if expected is None else int(expected.format(**ends)))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("0", "expected CPUs with commas, one for each of 2 local ranks"),
        ("0,one", "expected CPUs with commas, one for each of 2 local ranks"),
        ("0,9999", "local rank 1 may not use CPU 9999"),
    ],
)
def test_cpus_of_threads_that_cannot_be(monkeypatch: pytest.MonkeyPatch, given: str, says: str) -> None:
    monkeypatch.setenv("CCORE_THREAD_AFFINITY", given)
    with pytest.raises(CollectiveCoreError, match=says):
        cpu_of_thread(1, 2)


BOUND = """
import os, threading
from collective_core.affinity import bind
allowed, seen = os.sched_getaffinity(0), []
asked = threading.Event()
def look():
    asked.wait(60)
    seen.append(os.sched_getaffinity(threading.get_native_id()))
thread = threading.Thread(target=look)
thread.start()
bind(frozenset({max(allowed)}))
asked.set()
thread.join()
assert [*seen, os.sched_getaffinity(0)] == [{max(allowed)}] * 2, seen
"""


class Store:
    """As much of a torch Store as the ranks of a host need."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def set(self, key: str, value: str) -> None:
        self.values[key] = value.encode()

    def get(self, key: str) -> bytes:
        return self.values[key]


def test_ranks_without_a_communicator_are_bound_by_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from collective_core import affinity

    system = write(TWO_SOCKETS_SMT, tmp_path)
    allowed, bound, store = set(range(32)), [], Store()
    monkeypatch.setattr(affinity.os, "sched_getaffinity", lambda _: allowed)
    monkeypatch.setattr(affinity, "read_topology", lambda cpus: read_topology(cpus, system))
    monkeypatch.setattr(affinity, "node_of_gpu", lambda local_rank: local_rank)
    monkeypatch.setattr(affinity, "bind", bound.append)
    with pytest.raises(KeyError):  # the other rank has not come
        affinity.bind_by_store(store, 4, 0, 2)
    affinity.bind_by_store(store, 5, 1, 2)
    affinity.bind_by_store(store, 4, 0, 2)
    assert bound == [{*range(8, 16), *range(24, 32)}, {*range(8), *range(16, 24)}]
    # A rank with other CPUs was bound by its launcher, so all stay.
    allowed.discard(31)
    assert affinity.bind_by_store(store, 5, 1, 2).reason.startswith("not bound: the launcher has bound")
    assert len(bound) == 2


def test_binding_reaches_threads_that_run_already() -> None:
    subprocess.run((sys.executable, "-c", BOUND), timeout=60, check=True)


def test_what_a_launcher_has_bound_stays(program: Program) -> None:
    """Each rank has been given a mask of its own before it started."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.fail("this test needs two CPUs")
    first, second = sorted(os.sched_getaffinity(0))[:2]
    masks = {0: str(first), 1: f"{first},{second}"}
    ended = program(
        "affinity.py", size=2, per_rank=lambda rank: {"CCORE_CPU_BINDING": "1", "TEST_MASK": masks[rank]}
    ).finish()
    for rank, one in enumerate(ended):
        assert one.returncode == 0, one.output
        report = json.loads(one.output.splitlines()[-1])
        assert "the launcher has bound" in report["reason"]
        assert report["threads"] == [parse_list(masks[rank])] * 2


def test_the_place_of_a_device_is_described() -> None:
    properties = SimpleNamespace(pci_domain_id=0, pci_bus_id=0x3B, pci_device_id=0)
    assert address_of_gpu(properties) == "0000:3b:00.0"
    assert address_of_gpu(object()) is None
    with pytest.raises(CollectiveCoreError, match="no PCI device 'ffff"):
        describe_gpu("ffff:ff:1f.7")
    present = sorted(path.name for path in Path("/sys/bus/pci/devices").glob("*"))
    for address in present[:1]:
        assert describe_gpu(address).startswith(f"{address}: NUMA node ")


def test_importing_is_light() -> None:
    code = "import sys, collective_core.affinity; print('torch' in sys.modules)"
    done = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"
