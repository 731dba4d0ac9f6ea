"""Waiting for a node to boot anew, and telling a node that did so by itself from a line that broke."""

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
# systemctl(1): with --wait it returns when the boot has ended; before systemd 240 it knows no --wait and fails.
_SETTLED = "! command -v systemctl >/dev/null 2>&1 || systemctl is-system-running --wait"
_SETTLE_LIMIT_S = 180.0
_HOP = re.compile(r"(?:[^@]*@)?(?:\[([^]]+)\]|([^:]+))")
# A node that boots may refuse logins (pam_nologin) or sudo for a while; another host key will not go away.
_FINAL = (FailureKind.HOST_KEY_CHANGED, FailureKind.HOST_KEY_UNKNOWN)


@dataclass(frozen=True, slots=True)
class Returned:
    """What a node answered: its boot id, or why it gave none until the deadline."""

    boot_id: str | None
    failure: Failure | None


def is_way_to(node: Node, other: Node) -> bool:
    """Say whether the inventory has another node reached by way of this one (``proxy_jump``)."""
    if other.proxy_jump is None:
        return False
    hops = [found for hop in other.proxy_jump.split(",") if (found := _HOP.match(hop))]
    names = {node.name.lower(), node.address.strip("[]").lower()}
    return any((found[1] or found[2]).lower() in names for found in hops)


def boot_id_of(transport: Transport) -> str:
    """Return the node's boot id; TransportError when it does not answer."""
    done = transport.run(("cat", BOOT_ID), timeout_s=_ASK_TIMEOUT_S)
    return done.text.strip()


def wait(
    connect: Callable[[Node], Transport], node: Node, until: Callable[[str], bool], deadline: float
) -> Returned:
    """Ask a node, over new connections, until its boot id satisfies ``until`` or the deadline (monotonic) is past."""
    last = Returned(None, Failure(FailureKind.DEADLINE, f"{node.name}: no time was left to wait for it"))
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
    """Wait, within limits, until a booted node has started its services: what is gathered next should see them."""
    left_s = min(_SETTLE_LIMIT_S, deadline - time.monotonic())
    if left_s > 0:
        with contextlib.suppress(TransportError):
            transport.run(("sh", "-c", _SETTLED), timeout_s=left_s)
