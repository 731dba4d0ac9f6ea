"""Wait for a node to reboot, and distinguish an unexpected reboot from a broken connection."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from clusterctl.inventory.model import Node
from clusterctl.transport.base import Failure, FailureKind, Transport, TransportError

BOOT_ID = "/proc/sys/kernel/random/boot_id"
_POLL_S = 2.0
_ASK_TIMEOUT_S = 15.0
# systemctl(1): with --wait it returns when the boot has finished; before systemd 240 it rejects --wait and fails.
_SETTLED = "! command -v systemctl >/dev/null 2>&1 || systemctl is-system-running --wait"
_SETTLE_LIMIT_S = 180.0
_HOP = re.compile(r"(?:[^@]*@)?(?:\[([^]]+)\]|([^:]+))")
# A booting node may refuse logins (pam_nologin) or sudo for a while, but a wrong host key is permanent.
_FINAL = (FailureKind.HOST_KEY_CHANGED, FailureKind.HOST_KEY_UNKNOWN)


@dataclass(frozen=True, slots=True)
class Returned:
    """A node's boot ID, or the failure that prevented reading it until the deadline."""

    boot_id: str | None
    failure: Failure | None


def is_way_to(node: Node, other: Node) -> bool:
    """Return whether ``node`` is a jump host of ``other`` (``proxy_jump`` in the inventory)."""
    if other.proxy_jump is None:
        return False
    hops = [found for hop in other.proxy_jump.split(",") if (found := _HOP.match(hop))]
    names = {node.name.lower(), node.address.strip("[]").lower()}
    return any((found[1] or found[2]).lower() in names for found in hops)


def boot_id_of(transport: Transport) -> str:
    """Return the node's boot ID; raise TransportError if the node does not answer."""
    done = transport.run(("cat", BOOT_ID), timeout_s=_ASK_TIMEOUT_S)
    return done.text.strip()


def wait(
    connect: Callable[[Node], Transport], node: Node, until: Callable[[str], bool], deadline: float
) -> Returned:
    """Poll a node over new connections until its boot ID satisfies ``until`` or the deadline (monotonic) has passed."""
    last = Returned(None, Failure(FailureKind.DEADLINE, f"{node.name}: no time left to wait for the node"))
    while True:
        try:
            with contextlib.closing(connect(node)) as transport:
                last = Returned(boot_id_of(transport), None)
        except TransportError as error:
            last = Returned(None, error.failure)
            if error.failure.kind in _FINAL:
                return last
        if last.boot_id and until(last.boot_id):
            return last
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return last
        time.sleep(min(_POLL_S, left_s))


def settle(transport: Transport, deadline: float) -> None:
    """Wait, up to 180 s or the deadline, until a booted node has started its services, so that facts include them."""
    left_s = min(_SETTLE_LIMIT_S, deadline - time.monotonic())
    if left_s > 0:
        with contextlib.suppress(TransportError):
            transport.run(("sh", "-c", _SETTLED), timeout_s=left_s)
