"""Bind a rank to its share of the CPUs: those near its GPU, or an even part of what the process may use.

Off unless CCORE_CPU_BINDING (AIACC_CPU_BINDING_ENABLE) switches it on. The plan is a pure function of the topology. A
rank is never given a CPU that it was not allowed before, so the limits of containers hold; hardware threads of one core
stay together; ranks whose GPUs are of one NUMA node share its cores evenly; and what a launcher has bound stays bound.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import logging
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collective_core import _lib, environment
from collective_core.communicator import Communicator
from collective_core.errors import CollectiveCoreError, Result

_logger = logging.getLogger("collective_core")
_SYSTEM = Path("/sys")
_LEAST_CPUS = 2


@dataclass(frozen=True, slots=True)
class Core:
    """A core: its hardware threads, as Linux numbers them, and its NUMA node."""

    threads: tuple[int, ...]
    node: int


@dataclass(frozen=True, slots=True)
class Topology:
    """What a process may use: cores with at least one allowed thread, holding these alone, in order."""

    cores: tuple[Core, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """The CPUs of a rank, and why; none: it stays as it is."""

    cpus: frozenset[int]
    reason: str


def plan(topology: Topology, local_rank: int, nodes: Sequence[int | None]) -> Binding:
    """Return the CPUs of a rank. `nodes` has the NUMA node of the GPU of each local rank, None where there is none.

    Ranks of one node share the cores of that node; ranks without share all. When a share would be less than two CPUs,
    no rank that shares is bound: the threads of a rank that spin on one CPU stop each other.
    Raises CollectiveCoreError when the rank is not one of `nodes`.
    """
    if not 0 <= local_rank < len(nodes):
        raise CollectiveCoreError(
            Result.INVALID_ARGUMENT, f"local rank {local_rank} is not one of {len(nodes)}"
        )
    # One rank without a GPU, or with one whose place is unknown, would share cores with those that are bound to nodes.
    by_node = all(node is not None for node in nodes)
    mine = nodes[local_rank] if by_node else None
    cores = [core for core in topology.cores if mine is None or core.node == mine]
    sharing = [rank for rank, node in enumerate(nodes) if mine is None or node == mine]
    where = "all allowed cores" if mine is None else f"the allowed cores of NUMA node {mine}"
    bounds = [len(cores) * place // len(sharing) for place in range(len(sharing) + 1)]
    shares = [
        frozenset(thread for core in cores[begin:end] for thread in core.threads)
        for begin, end in itertools.pairwise(bounds)
    ]
    if min(map(len, shares)) < _LEAST_CPUS:
        return Binding(frozenset(), f"not bound: {where} are too few for {len(sharing)} ranks")
    place = sharing.index(local_rank)
    return Binding(shares[place], f"part {place + 1} of {len(sharing)} of {where}")


def read_topology(allowed: Sequence[int] | frozenset[int] | set[int], system: Path = _SYSTEM) -> Topology:
    """Read from sysfs what the allowed CPUs are. What it does not say: each CPU is a core, and of node 0."""
    node_of = {
        cpu: int(folder.name.removeprefix("node"))
        for folder in system.glob("devices/system/node/node[0-9]*")
        for cpu in parse_list(_text(folder / "cpulist"))
    }
    threads_of: dict[tuple[int, ...], list[int]] = {}
    for cpu in sorted(allowed):
        siblings = _text(system / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        threads_of.setdefault(tuple(parse_list(siblings)) or (cpu,), []).append(cpu)
    cores = [Core(tuple(threads), node_of.get(threads[0], 0)) for threads in threads_of.values()]
    return Topology(tuple(sorted(cores, key=lambda core: (core.node, core.threads))))


def parse_list(text: str) -> list[int]:
    """Return the numbers of a list as the kernel writes it, such as 0-3,8."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def node_of_gpu(local_rank: int, system: Path = _SYSTEM) -> int | None:
    """Return the NUMA node of the GPU of a local rank: its only one, else that of its number. None when not known.

    Does not import torch: a program that has not done so uses no GPU by it.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    index = 0 if torch.cuda.device_count() == 1 else local_rank
    if index >= torch.cuda.device_count():
        return None
    address = address_of_gpu(torch.cuda.get_device_properties(index))
    return None if address is None else node_of_device(address, system)


def address_of_gpu(properties: Any) -> str | None:
    """Return the PCI address in torch's properties of a device, such as 0000:3b:00.0; None with an older torch."""
    names = ("pci_domain_id", "pci_bus_id", "pci_device_id")
    if not all(hasattr(properties, name) for name in names):
        return None
    domain, bus, device = (getattr(properties, name) for name in names)
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


def describe_gpu(pci_address: str) -> str:
    """Return where a GPU of this host is: NUMA node, NVLinks, and the network devices, the nearest first.

    Raises CollectiveCoreError if there is no such PCI device.
    """
    return _lib.text_of(_lib.library().cc_describe_gpu, pci_address.encode())


def node_of_device(pci_address: str, system: Path = _SYSTEM) -> int | None:
    """Return the NUMA node of a PCI device such as 0000:3b:00.0; None when the kernel does not know it."""
    text = _text(system / "bus" / "pci" / "devices" / pci_address.lower() / "numa_node").strip()
    return int(text) if text and int(text) >= 0 else None


def bind(cpus: frozenset[int]) -> None:
    """Bind all threads of this process; those to come inherit it."""
    os.sched_setaffinity(0, cpus)
    for thread in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), cpus)
        except ProcessLookupError:
            pass  # it has ended meanwhile


def cpu_of_thread(local_rank: int, local_size: int) -> int | None:
    """Return the CPU that CCORE_THREAD_AFFINITY gives the Horovod API's thread of a rank; None when it is not set.

    Raises CollectiveCoreError unless it is a list of at least `local_size` CPUs, of which this rank may use its own.
    """
    given = environment.text("CCORE_THREAD_AFFINITY")
    if not given:
        return None
    listed = [int(one) if one.strip().isdigit() else -1 for one in given.split(",")]
    if len(listed) < local_size or min(listed) < 0:
        raise CollectiveCoreError(
            Result.INVALID_ARGUMENT,
            f"CCORE_THREAD_AFFINITY={given}: expected CPUs with commas, one for each of {local_size} local ranks",
        )
    cpu = listed[local_rank]
    if cpu not in os.sched_getaffinity(0):
        raise CollectiveCoreError(
            Result.INVALID_ARGUMENT,
            f"CCORE_THREAD_AFFINITY={given}: local rank {local_rank} may not use CPU {cpu}",
        )
    return cpu


def bind_ranks(communicator: Communicator) -> Binding | None:
    """Bind the ranks of a communicator if CCORE_CPU_BINDING says so; called on all of them. Returns what was done.

    Raises CollectiveCoreError when the variable is not understood, or the ranks lose each other.
    """
    if not environment.flag("CCORE_CPU_BINDING", fallback=False):
        return None
    me = communicator.peer(communicator.rank)
    allowed, node = frozenset(os.sched_getaffinity(0)), node_of_gpu(me.local_rank)
    mine = (ctypes.c_int64 * 2)(*_card(node, allowed))
    theirs = (ctypes.c_int64 * (2 * communicator.size))()
    communicator.all_gather(mine, theirs)
    peers = [communicator.peer(rank) for rank in range(communicator.size)]
    here = sorted((peer for peer in peers if peer.node == me.node), key=lambda peer: peer.local_rank)
    cards = [(theirs[2 * peer.rank], theirs[2 * peer.rank + 1]) for peer in here]
    return _bind_one(me.rank, me.local_rank, cards, allowed)


def bind_by_store(store: Any, rank: int, local_rank: int, local_size: int) -> Binding:
    """Bind a rank as `bind_ranks` does, without a communicator: all ranks of a host call it with one torch Store.

    Raises what the store raises if a rank does not come within its timeout, ValueError if one writes no numbers.
    """
    allowed = frozenset(os.sched_getaffinity(0))
    key = f"ccore_cpus/{socket.gethostname()}"
    node, fingerprint = _card(node_of_gpu(local_rank), allowed)
    store.set(f"{key}/{local_rank}", f"{node} {fingerprint}")
    cards = []
    for peer in range(local_size):
        its_node, its_fingerprint = bytes(store.get(f"{key}/{peer}")).split()
        cards.append((int(its_node), int(its_fingerprint)))
    return _bind_one(rank, local_rank, cards, allowed)


def _card(node: int | None, allowed: frozenset[int]) -> tuple[int, int]:
    """Return what the ranks of a host tell each other: the NUMA node of the GPU, or -1, and the CPUs as a number."""
    return -1 if node is None else node, _fingerprint(allowed)


def _bind_one(
    rank: int, local_rank: int, cards: Sequence[tuple[int, int]], allowed: frozenset[int]
) -> Binding:
    """Bind this rank by the cards of all ranks of its host, in the order of their local ranks."""
    if len({fingerprint for _, fingerprint in cards}) > 1:
        binding = Binding(frozenset(), "not bound: the launcher has bound the ranks of this node already")
    else:
        nodes = [None if node < 0 else node for node, _ in cards]
        binding = plan(read_topology(allowed), local_rank, nodes)
    if binding.cpus:
        bind(binding.cpus)
    _logger.info("rank %d: cpus %s: %s", rank, sorted(binding.cpus) or "as before", binding.reason)
    return binding


def _fingerprint(cpus: frozenset[int]) -> int:
    """Return a number that is equal for equal sets, and hardly ever for others."""
    text = ",".join(map(str, sorted(cpus)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little")


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
