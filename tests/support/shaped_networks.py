"""Network namespaces joined by shaped veth pairs: machines with a network of known speed between them.

Each pair is a rail: interface ``railN`` with address 10.213.N.1 in the first namespace and 10.213.N.2 in the second,
shaped with tbf in both directions. More than two namespaces are joined by a bridge in one more, with a shaped pair to
each. Needs root; the names carry the process id, and ``shaped_networks`` removes what it
made, whatever happens. Only the standard library is used.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_BURST_BYTES = 131072
"""More than one segment of the largest size, so that nothing has to be cut up by the shaper."""
_QUEUE_MS = 5
"""What the shaper holds at its rate before it drops."""


def missing() -> str | None:
    """Return why no namespaces can be made here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    probe = f"probe-{os.getpid()}"
    made = subprocess.run(
        ("ip", "netns", "add", probe), capture_output=True, text=True, timeout=30, check=False
    )
    if made.returncode != 0:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    try:
        for command in (
            ("ip", "-n", probe, "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"),
            ("tc", "-n", probe, "qdisc", "add", "dev", "probe0", "root", "tbf", "rate", "1mbit", "burst", "10kb",
             "limit", "10kb"),
        ):  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
            if done.returncode != 0:
                return f"{' '.join(command)}: {done.stderr.strip()}"
    finally:
        _run("ip", "netns", "del", probe)
    return None


@dataclass(frozen=True)
class Networks:
    """The namespaces of the machines and what joins them."""

    names: tuple[str, ...]
    rates_mbit: tuple[float, ...]

    @property
    def rails(self) -> tuple[str, ...]:
        """The interfaces, the same in all namespaces."""
        return tuple(f"rail{rail}" for rail in range(len(self.rates_mbit)))

    def address(self, side: int, rail: int = 0) -> str:
        """The address of one side on a rail."""
        return f"10.213.{rail}.{side + 1}"

    def inside(self, side: int) -> tuple[str, ...]:
        """Prefix a command with this to run it in the namespace; the process id stays that of the command."""
        return ("ip", "netns", "exec", self.names[side])

    def sent_bytes(self, side: int, rail: int) -> int:
        """Bytes of frames that left by the interface, by its own counter."""
        counter = f"/sys/class/net/rail{rail}/statistics/tx_bytes"
        return int(_run(*self.inside(side), "cat", counter))

    def cut(self, side: int, rail: int) -> None:
        """Take the interface down."""
        _run("ip", "-n", self.names[side], "link", "set", f"rail{rail}", "down")


@contextlib.contextmanager
def shaped_networks(rates_mbit: Sequence[float], mtu: int = 1500, nodes: int = 2) -> Iterator[Networks]:
    """Give namespaces with one rail for each rate (Mbit/s of whole frames, each way); they are gone afterwards."""
    names = tuple(f"ccore-{os.getpid()}-{chr(ord('a') + node)}" for node in range(nodes))
    bridges = (f"ccore-{os.getpid()}-bridges",) if nodes > 2 else ()
    networks = Networks(names, tuple(rates_mbit))
    made: list[str] = []
    try:
        for name in (*names, *bridges):
            _run("ip", "netns", "add", name)
            made.append(name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        for rail, rate in enumerate(rates_mbit):
            _join(networks, rail, rate, mtu, *bridges)
        yield networks
    finally:
        for name in made:
            _run("ip", "netns", "del", name)


def _join(networks: Networks, rail: int, rate_mbit: float, mtu: int, bridges: str = "") -> None:
    interface = f"rail{rail}"
    ends = [(name, interface) for name in networks.names]
    if bridges:
        bridge = f"bridge{rail}"
        _run("ip", "-n", bridges, "link", "add", bridge, "mtu", str(mtu), "type", "bridge")
        _run("ip", "-n", bridges, "link", "set", bridge, "up")
        for side, name in enumerate(networks.names):
            port = f"port{rail}-{side}"
            _pair((name, interface), (bridges, port), mtu)
            _run("ip", "-n", bridges, "link", "set", port, "master", bridge)
            ends.append((bridges, port))
    else:
        _pair(ends[0], ends[1], mtu)
    for side, name in enumerate(networks.names):
        _run("ip", "-n", name, "addr", "add", f"{networks.address(side, rail)}/24", "dev", interface)
    queue = max(2 * _BURST_BYTES, int(rate_mbit * 1e6 / 8 * _QUEUE_MS / 1000))
    for name, end in ends:
        _run("ip", "-n", name, "link", "set", end, "up")
        _run("tc", "-n", name, "qdisc", "add", "dev", end, "root", "tbf",
             "rate", f"{rate_mbit:g}mbit", "burst", str(_BURST_BYTES), "limit", str(queue))  # fmt: skip


def _pair(one: tuple[str, str], other: tuple[str, str], mtu: int) -> None:
    """Join two namespaces by interfaces of these names."""
    _run("ip", "link", "add", one[1], "netns", one[0], "mtu", str(mtu), "type", "veth",
         "peer", "name", other[1], "netns", other[0], "mtu", str(mtu))  # fmt: skip


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
