"""Nodes with a network each: an sshd in namespaces of its own (network, host name), all on one bridge.

What a node sends and what it gets is shaped to its own rate, so that one of them can be the slow one. This machine is
on the bridge too. Needs root, ip and tc; everything is gone afterwards.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import shaped_networks
import slowed_cpu
import sshd_farm
from sshd_farm import Farm, SshdNode

_PORT = 22
_BURST_BYTES = 131072
_START_S = 60
# The host name and what the node may listen on are its own; the process id stays that of sshd. The cgroups are mounted
# again, because ``ip netns exec`` mounts a new /sys.
_INSIDE = f'{shlex.join(slowed_cpu.MOUNT)}; hostname "$1"; shift; exec "$@"'


def missing() -> str | None:
    """Return why there can be no such nodes here, or None."""
    return shaped_networks.missing() or sshd_farm.missing()


@contextlib.contextmanager
def bridged_nodes(rates_mbit: Sequence[float | Sequence[float]]) -> Iterator[Farm]:
    """Give a farm of one node per rate (Mbit/s, each way); its interface in the nodes is ``eth0``.

    A node with several rates has an interface for each, ``eth1`` and so on, on a bridge per interface.
    """
    token, third = f"cbr{os.getpid() % 100000}", os.getpid() % 200 + 20
    directory = Path(tempfile.mkdtemp(prefix="bridged-nodes-"))
    directory.chmod(0o755)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    farm = Farm(directory, "root")
    spaces: list[str] = []
    try:
        sshd_farm.make_key(farm.identity_file)
        farm.authorized_keys.write_text(sshd_farm.public_key(farm.identity_file) + "\n")
        (directory / "ssh_config").write_text("")
        host_key = sshd_farm.make_key(directory / "host_key")
        config = sshd_farm._config(directory, "")
        # The bridge too is in a namespace: what this machine's firewall does to bridged frames (docker's drops them)
        # is not done there.
        hub = f"{token}-hub"
        run("ip", "netns", "add", hub)
        spaces.append(hub)
        rails = [rate if isinstance(rate, Sequence) else (rate,) for rate in rates_mbit]
        for rail in range(len(rails[0])):
            run("ip", "-n", hub, "link", "add", f"br{rail}", "type", "bridge")
            run("ip", "-n", hub, "link", "set", f"br{rail}", "up")
        run("ip", "link", "add", token, "type", "veth", "peer", "name", "here", "netns", hub)
        run("ip", "-n", hub, "link", "set", "here", "master", "br0", "up")
        run("ip", "addr", "add", f"10.214.{third}.254/24", "dev", token)
        run("ip", "link", "set", token, "up")
        for index, rates in enumerate(rails, start=1):
            space, address = f"{token}-{index}", f"10.214.{third}.{index}"
            add_space(space, spaces)
            for rail, rate in enumerate(rates):
                join(space, hub, rail, index, f"10.{214 + rail}.{third}.{index}", rate)
            node = SshdNode(f"node{index:02d}", address, _PORT, directory / f"node{index:02d}.log", host_key)
            node.command = (
                "ip", "netns", "exec", space, "unshare", "--uts", "sh", "-c", _INSIDE, "sh", node.name,
                sshd_farm.SSHD, "-D", "-e", "-f", str(config), "-h", str(host_key),
                "-o", f"ListenAddress {address}:{_PORT}",
            )  # fmt: skip
            node.log.touch()
            farm.nodes.append(node)
            node.start()
        known = [f"{node.address} {sshd_farm.public_key(host_key)}\n" for node in farm.nodes]
        farm.known_hosts.write_text("".join(known))
        for node in farm.nodes:
            _wait(node)
        yield farm
    finally:
        farm.stop()
        for space in spaces:
            run("ip", "netns", "del", space)


def add_space(name: str, spaces: list[str]) -> None:
    """Make a network namespace whose loopback interface is up, and add it to ``spaces``, which the caller deletes."""
    run("ip", "netns", "add", name)
    spaces.append(name)
    run("ip", "-n", name, "link", "set", "lo", "up")


def join(space: str, hub: str, rail: int, index: int, address: str, rate_mbit: float) -> None:
    """Connect a node's namespace to a bridge of the hub, with an interface ``eth0`` (of the first rail), up."""
    port, interface = f"port{index}-{rail}", f"eth{rail}"
    run("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", interface, "netns", space)
    run("ip", "-n", hub, "link", "set", port, "master", f"br{rail}", "up")
    run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", interface)
    run("ip", "-n", space, "link", "set", interface, "up")
    shaper = ("root", "tbf", "rate", f"{rate_mbit:g}mbit", "burst", str(_BURST_BYTES), "latency", "50ms")
    run("tc", "-n", space, "qdisc", "add", "dev", interface, *shaper)
    run("tc", "-n", hub, "qdisc", "add", "dev", port, *shaper)


def _wait(node: SshdNode) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection((node.address, node.port), timeout=2).close()
        except OSError:
            assert node.process is not None and node.process.poll() is None, node.log_text()
            assert time.monotonic() < deadline, node.log_text()
            time.sleep(0.05)
        else:
            return


def run(*command: str) -> None:
    """Run a command; raise RuntimeError with what it wrote to stderr if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def reshape(node: SshdNode, rail: int, rate_mbit: float, incoming_mbit: float | None = None) -> None:
    """Give one interface of a node another rate, each way unless it gets another one for what arrives."""
    space = node.command[3]
    hub, _, index = space.rpartition("-")
    tc = ("tc", "-n", space), ("tc", "-n", f"{hub}-hub")
    rates = rate_mbit, rate_mbit if incoming_mbit is None else incoming_mbit
    for words, device, rate in zip(tc, (f"eth{rail}", f"port{index}-{rail}"), rates, strict=True):
        shaper = ("root", "tbf", "rate", f"{rate:g}mbit", "burst", str(_BURST_BYTES), "latency", "50ms")
        run(*words, "qdisc", "change", "dev", device, *shaper)


@contextlib.contextmanager
def mtu(node: SshdNode, rail: int, size: int) -> Iterator[None]:
    """Give one interface of a node another MTU."""
    words = ("ip", "-n", node.command[3], "link", "set", f"eth{rail}", "mtu")
    run(*words, str(size))
    try:
        yield
    finally:
        run(*words, "1500")


@contextlib.contextmanager
def slow_pair(
    one: SshdNode, other: SshdNode, rail: int, rate_mbit: float, others_mbit: float
) -> Iterator[None]:
    """Shape what two nodes send to each other over one interface, and no other pair."""
    for node, peer in ((one, other), (other, one)):
        tc, device = ("tc", "-n", node.command[3]), ("dev", f"eth{rail}")
        address = f"10.{214 + rail}.{peer.address.split('.', 2)[2]}"
        run(*tc, "qdisc", "replace", *device, "root", "handle", "1:", "htb", "default", "1")
        for band, rate in (("1:1", others_mbit), ("1:2", rate_mbit)):
            run(*tc, "class", "add", *device, "parent", "1:", "classid", band, "htb", "rate", f"{rate:g}mbit",
                 "burst", str(_BURST_BYTES))  # fmt: skip
        run(*tc, "filter", "add", *device, "parent", "1:", "protocol", "ip", "u32", "match", "ip", "dst",
             f"{address}/32", "flowid", "1:2")  # fmt: skip
    try:
        yield
    finally:
        shaper = (
            "root",
            "tbf",
            "rate",
            f"{others_mbit:g}mbit",
            "burst",
            str(_BURST_BYTES),
            "latency",
            "50ms",
        )
        for node in (one, other):
            run("tc", "-n", node.command[3], "qdisc", "del", "dev", f"eth{rail}", "root")
            run("tc", "-n", node.command[3], "qdisc", "add", "dev", f"eth{rail}", *shaper)


@contextlib.contextmanager
def dead_pair(one: SshdNode, other: SshdNode) -> Iterator[None]:
    """Let no packet reach one of two nodes from the other: each knows a wrong hardware address of the other."""
    ends = ((one, other), (other, one))
    for node, peer in ends:
        run("ip", "-n", node.command[3], "neigh", "replace", peer.address, "lladdr", "02:00:00:00:00:01",
             "nud", "permanent", "dev", "eth0")  # fmt: skip
    try:
        yield
    finally:
        for node, peer in ends:
            run("ip", "-n", node.command[3], "neigh", "del", peer.address, "dev", "eth0")
