"""The rows of RDMA between two nodes, measured by perftest on each rail."""

from __future__ import annotations

from clusterctl.acceptance.model import AcceptRow, PairProgram, RowCommand, RowPlace, RowTool, Tier
from clusterctl.acceptance.outputs import perftest
from clusterctl.acceptance.rows.pairs import AGAIN, TRIES
from clusterctl.facts.model.fabric import RdmaDevice, RdmaPort
from clusterctl.facts.model.node import NodeFacts

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
_CLIENT = (
    AGAIN
    + """\
program=$1; shift
peer=$1; shift
port=$1; shift
for rail in "$@"; do
  device=${rail%%=*}
  echo "clusterctl: rail $device ${rail#*=}"
  again timeout 40 "$program" -d "$device" -p "$port" -F $OPTIONS "$peer" || exit 1
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


def _row(name: str, title: str, program: str, options: str) -> AcceptRow:
    env = {"OPTIONS": options, **TRIES}

    def server(place: RowPlace) -> RowCommand:
        return RowCommand(("sh", "-c", _SERVER, "sh", program, str(_PORT), *rails(place.facts)), env=env)

    def client(place: RowPlace) -> RowCommand:
        return RowCommand(
            ("sh", "-c", _CLIENT, "sh", program, place.peer, str(_PORT), *rails(place.facts)), env=env
        )

    deadline_s = 60.0 + _MOST_RAILS * _RAIL_S
    tool = RowTool(program, "install the package perftest", ("--version",))
    work = PairProgram(server, client, perftest.parse, deadline_s, (tool,))
    return AcceptRow(name, title, Tier.PERFORMANCE, work, _without_rdma, _kinds)


ROWS = (
    _row("rdma-bandwidth", "RDMA writes between two nodes, by rail", "ib_write_bw", "--report_gbits -D 3"),
    _row("rdma-latency", "latency of RDMA writes between two nodes, by rail", "ib_write_lat", "-n 1000"),
)
