"""Compare error counters of RDMA ports with an earlier check; their absolute values are not meaningful."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.subjects.rdma import HW_COUNTERS

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.requirements.rdma.ports import Port

ERRORS = (
    *("symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors"),
    *(name for name in HW_COUNTERS if name != "roce_slow_restart"),
)
"""Without port_xmit_wait, port_xmit_discards, roce_slow_restart: they count congestion, which benchmarks cause."""


def growth(
    facts: NodeFacts, earlier: NodeFacts | None, ports: tuple[Port, ...]
) -> tuple[dict[str, int], bool]:
    """Return the growth of each counter as ``device:port counter`` -> count, and whether a counter was reset.

    Only counters of the same device (by GUID) in the same boot are compared: after a reboot, a replaced card or a
    reset, counters start from zero.
    """
    boot = facts.system.boot_id.value
    if earlier is None or boot is None or earlier.system.boot_id.value != boot:
        return {}, False
    before = {
        (device.node_guid, port.number): dict(port.counters)
        for device in earlier.rdma.devices.or_else(())
        for port in device.ports
    }
    added: dict[str, int] = {}
    reset = False
    for device, port in ports:
        old = before.get((device.node_guid, port.number), {})
        for name, value in port.counters:
            if name not in ERRORS or name not in old:
                continue
            if value < old[name]:
                reset = True
            elif value > old[name]:
                added[f"{device.name}:{port.number} {name}"] = value - old[name]
    return added, reset


def warnings(facts: NodeFacts, earlier: NodeFacts | None, added: dict[str, int]) -> tuple[str, ...]:
    """Return the warning that lists the new errors by port and counter, and the time since the earlier check."""
    if not added or earlier is None:
        return ()
    minutes = max(0.0, facts.gathered_at - earlier.gathered_at) / 60
    since = f"{minutes:.0f} min" if minutes >= 1 else "less than a minute"
    said = ", ".join(f"{place} +{count}" for place, count in sorted(added.items()))
    return (f"errors since the previous check ({since} ago): {said}",)
