"""The row of TCP between two nodes: what one stream reaches, and what many reach together, measured by iperf3."""

from __future__ import annotations

from clusterctl.acceptance.model import AcceptRow, PairProgram, RowCommand, RowPlace, RowTool, Tier
from clusterctl.acceptance.outputs import iperf3
from clusterctl.acceptance.rows.pairs import AGAIN, TRIES

_PORT = 18650
_COUNTS = ("1", str(iperf3.MANY))
# iperf3 with -J ends with 0 also if its document reports an error.
_ONCE = """\
once() { out=$(timeout 40 iperf3 -J "$@") && case $out in *'"error"'*) false ;; esac; }
port=$1; shift
"""
# Of each measurement its own port, so that a client never reaches the server of another one.
_SERVER = """\
for streams in "$@"; do
  again once -s -1 -p "$port" || exit 1
  port=$((port + 1))
done
"""
_CLIENT = """\
peer=$1 link=$2; shift 2
for streams in "$@"; do
  if ! again once -c "$peer" -p "$port" -P "$streams" -t 3 -O 1 -i 0 --connect-timeout 3000; then
    printf '%s\\n' "$out" | grep '"error"' >&2
    exit 1
  fi
  printf 'clusterctl: %s stream(s) over %s\\n%s\\n' "$streams" "$link" "$out"
  port=$((port + 1))
done
"""


def link(place: RowPlace) -> str:
    """Return what carries the streams: ``TCP 25 Gb/s``, or ``TCP`` for an interface without a known speed."""
    network, selector, session = place.facts.network, place.node.interfaces, place.facts.session
    accepted = session.accepted.value if session else None
    for one in network.interfaces.or_else(()):
        has = accepted is not None and network.ipv4(one.name) == accepted.address
        if one.speed_mbps and (one.name == selector.first if selector else has):
            return f"TCP {one.speed_mbps / 1000:g} Gb/s"
    return "TCP"


def _server(_: RowPlace) -> RowCommand:
    return RowCommand(("sh", "-c", AGAIN + _ONCE + _SERVER, "sh", str(_PORT), *_COUNTS), env=TRIES)


def _client(place: RowPlace) -> RowCommand:
    words = (str(_PORT), place.peer, link(place), *_COUNTS)
    return RowCommand(("sh", "-c", AGAIN + _ONCE + _CLIENT, "sh", *words), env=TRIES)


ROWS = (
    AcceptRow(
        "tcp-streams",
        f"TCP between two nodes: one stream, and {iperf3.MANY} streams together",
        Tier.PERFORMANCE,
        PairProgram(
            _server, _client, iperf3.parse, 180.0, (RowTool("iperf3", "install the package iperf3"),)
        ),
        hardware=lambda _: "TCP",
        least_nodes=2,
        also_measured_by="collective",
    ),
)
