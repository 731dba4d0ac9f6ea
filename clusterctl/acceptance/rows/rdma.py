"""The rows of RDMA between two nodes, measured by perftest on each rail."""

from __future__ import annotations

from collections import Counter

from clusterctl.acceptance.model import (
    AcceptRow,
    FleetAnswer,
    FleetPlace,
    FleetProgram,
    PairProgram,
    Parsed,
    RowCommand,
    RowFinding,
    RowPlace,
    RowStatus,
    RowTool,
    Tier,
)
from clusterctl.acceptance.outputs import perftest
from clusterctl.acceptance.rows.pairs import AGAIN, TRIES
from clusterctl.facts.model.fabric import RdmaDevice, RdmaPort
from clusterctl.facts.model.health import Health
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Node
from clusterctl.text.wording import some
from clusterctl.transport.base import Failure

_PORT = 18600
_RAIL_S = 40
_MOST_RAILS = 16
# Of each rail its own port, so that a client never reaches the server of another rail.
_SERVER = (
    AGAIN
    + """\
program=$1; shift
port=$1; shift
for rail in "$@"; do
  device=${rail%%=*}
  again timeout 40 "$program" -d "$device" -p "$port" -F $OPTIONS || exit 1
  port=$((port + 1))
done
"""
)
# perftest prints on standard error that it could not read the clock; the parser needs that beside the value.
_CLIENT = (
    AGAIN
    + """\
program=$1; shift
peer=$1; shift
port=$1; shift
for rail in "$@"; do
  device=${rail%%=*}
  echo "clusterctl: rail $device ${rail#*=}"
  again timeout 40 "$program" -d "$device" -p "$port" -F $OPTIONS "$peer" 2>&1 || exit 1
  port=$((port + 1))
done
"""
)


def _active(facts: NodeFacts) -> list[tuple[RdmaDevice, RdmaPort]]:
    found = [
        (device, port)
        for device in facts.rdma.devices.or_else(())
        for port in device.ports[:1]
        if port.state == "ACTIVE" and not device.manages_nvlink
    ]
    # Slower ports serve storage and management.
    top = max((port.rate_gbps or 0.0 for _, port in found), default=0.0)
    return sorted(
        (pair for pair in found if (pair[1].rate_gbps or 0.0) == top), key=lambda pair: pair[0].name
    )[:_MOST_RAILS]


def rails(facts: NodeFacts) -> tuple[str, ...]:
    """Return the rails of a node as the scripts take them: ``mlx5_0=RDMA 400 Gb/s``."""
    return tuple(f"{device.name}={_kind(device, port)}" for device, port in _active(facts))


def _kind(device: RdmaDevice, port: RdmaPort) -> str:
    if device.is_virtual:
        return "Soft-RoCE"
    return "RDMA" if port.rate_gbps is None else f"RDMA {port.rate_gbps:g} Gb/s"


def _without_rdma(facts: NodeFacts) -> str:
    return "" if _active(facts) else "the node has no active RDMA port"


def _kinds(facts: NodeFacts) -> str:
    return next((_kind(device, port) for device, port in _active(facts)), "")


def _class(node: Node) -> str:
    """Return perftest's options for the traffic class and service level that NCCL is given for training."""
    options = (("NCCL_IB_TC", "--tclass"), ("NCCL_IB_SL", "--sl"))
    given = ((option, node.env.get(name, "")) for name, option in options)
    return "".join(f" {option}={value}" for option, value in given if value.isdecimal())


def _row(name: str, title: str, program: str, options: str) -> AcceptRow:
    def env(place: RowPlace) -> dict[str, str]:
        return {"OPTIONS": options + _class(place.node), **TRIES}

    def server(place: RowPlace) -> RowCommand:
        words = ("sh", "-c", _SERVER, "sh", program, str(_PORT), *rails(place.facts))
        return RowCommand(words, env=env(place))

    def client(place: RowPlace) -> RowCommand:
        words = ("sh", "-c", _CLIENT, "sh", program, place.peer, str(_PORT), *rails(place.facts))
        return RowCommand(words, env=env(place))

    deadline_s = 60.0 + _MOST_RAILS * _RAIL_S
    tool = RowTool(program, "install the package perftest", ("--version",))
    work = PairProgram(server, client, perftest.parse, deadline_s, (tool,))
    return AcceptRow(name, title, Tier.PERFORMANCE, work, _without_rdma, _kinds)


ROWS = (
    _row("rdma-bandwidth", "RDMA writes between two nodes, by rail", "ib_write_bw", "-D 3"),
    _row("rdma-latency", "latency of RDMA writes between two nodes, by rail", "ib_write_lat", "-n 1000"),
)


_LITTLE_BYTES = 1 << 30
"""Ports that sent less are not judged: other programs send a little in any priority."""
_LITTLE_SHARE = 0.01


def _without_roce(facts: NodeFacts) -> str:
    ethernet = [device for device, port in _active(facts) if port.link_layer == "Ethernet"]
    return "" if any(not device.is_virtual for device in ethernet) else "the node has no active RoCE card"


def _by_priority(health: Health, name: str) -> dict[tuple[str, int], int]:
    """Return the counters of a name by port and priority."""
    prefix = f"{name}: priority "
    return {
        (count.place, int(count.name.removeprefix(prefix))): count.value
        for count in health.counts.or_else(())
        if count.kind == "roce" and count.name.startswith(prefix)
    }


def _protected(health: Health) -> dict[str, frozenset[int]]:
    """Return by port the priorities for which PFC is on, of ports that report them."""
    found: dict[str, frozenset[int]] = {}
    for (port, priority), on in _by_priority(health, "pfc").items():
        found[port] = found.get(port, frozenset()) | ({priority} if on else frozenset())
    return found


def _listed(priorities: frozenset[int]) -> str:
    return some([str(priority) for priority in sorted(priorities)]) if priorities else "none"


def _unprotected(before: Health, after: Health) -> list[str]:
    """Name the ports that sent nearly everything with priorities that PFC does not protect, although it does others."""
    was, now = _by_priority(before, "tx_bytes"), _by_priority(after, "tx_bytes")
    wrong = []
    for port, priorities in _protected(after).items():
        sent = {key[1]: now[key] - was.get(key, 0) for key in now if key[0] == port}
        total = sum(grown for grown in sent.values() if grown > 0)
        safe = sum(sent.get(priority, 0) for priority in priorities)
        if priorities and total >= _LITTLE_BYTES and safe < total * _LITTLE_SHARE:
            most = max(sent, key=lambda priority: sent[priority])
            wrong.append(
                f"{port} sent {total / 1e9:.0f} GB, TCP included, nearly all with priority {most}, but PFC protects "
                f"priority {_listed(priorities)}: if RDMA ran, set NCCL_IB_TC (CCORE_RDMA_TRAFFIC_CLASS) to the class "
                "of that priority"
            )
    return wrong


def _roce(place: FleetPlace) -> FleetAnswer:
    """Compare the priorities that PFC protects over the nodes, and with those in which this run sent."""
    after = place.gather(frozenset({"health", "counters"}))
    answered = {name: facts.health for name, facts in after.items() if not isinstance(facts, Failure)}
    protected = {name: _protected(health) for name, health in answered.items()}
    usual = Counter(frozenset(found.values()) for found in protected.values() if found).most_common(1)

    def judge(name: str) -> Parsed:
        found = protected.get(name)
        if not found:
            return Parsed(not_run="dcb (iproute2) reports no PFC for the RoCE ports of this node")
        earlier = place.before.get(name)
        wrong = [] if earlier is None else _unprotected(earlier.health, answered[name])
        (kind, count), own = usual[0], frozenset(found.values())
        if own != kind and count * 2 > sum(map(bool, protected.values())):
            theirs, mine = (" and ".join(sorted(_listed(one) for one in those)) for those in (kind, own))
            wrong.append(f"PFC protects priority {mine} on this node, and {theirs} on {count} others")
        return Parsed(findings=tuple(RowFinding(RowStatus.WARN, text) for text in wrong))

    return place.judge_each(after, judge)


AT_THE_END = (
    AcceptRow(
        "roce-priorities",
        "RoCE ran in a priority that PFC protects, the same on all nodes",
        Tier.PERFORMANCE,
        FleetProgram(_roce),
        _without_roce,
        at_the_end=True,
    ),
)
