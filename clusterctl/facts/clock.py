"""The node's clock: its offset to the controller's, and which service keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from clusterctl.facts.base import Fragment, Reading, Sections, Unparsable, absent
from clusterctl.facts.model_services import Clock

# Not timedatectl: it starts a D-Bus service on the node for a bit that these files and chronyc know as well.
FRAGMENTS = (
    Fragment(
        "clock",
        "date '+%s %N' && { read -r u x </proc/uptime && echo \"uptime $u\"; }",
        needs="command -v date >/dev/null 2>&1",
        missing="date is not there",
    ),
    Fragment(
        "time_sync",
        """\
if command -v chronyc >/dev/null 2>&1 && [ -d /run/chrony ]; then
  printf 'chrony '; t 5 chronyc -n -c tracking
elif [ -d /run/systemd/timesync ]; then
  if [ -e /run/systemd/timesync/synchronized ]; then echo 'timesyncd yes'; else echo 'timesyncd no'; fi
elif [ -e /run/ntpd.pid ] || [ -e /var/run/ntpd.pid ]; then
  printf 'ntpd '; t 5 ntpq -c 'rv 0 leap'
else
  echo 'no time service runs (chrony, systemd-timesyncd, ntpd)' >&2; return 127
fi""",
    ),
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """The controller's clock at the probe's start and end, and the node's uptime at its end (seconds)."""

    started_s: float
    ended_s: float
    node_uptime_end_s: float | None


def parse_clock(text: str) -> tuple[float, float | None]:
    """Return the node's time (seconds since the epoch) and its uptime at that moment."""
    lines = text.splitlines()
    seconds, _, rest = lines[0].partition(" ")
    # busybox prints the %N that it does not know as it stands.
    nanoseconds = int(rest) if rest.isdigit() and len(rest) == 9 else 500_000_000
    if not seconds.isdigit() or len(seconds) > 12:
        raise Unparsable(f"not a time: {lines[0][:80]!r}")
    uptime = lines[1].removeprefix("uptime ") if len(lines) > 1 else None
    return int(seconds) + nanoseconds / 1e9, None if uptime is None else float(uptime)


def parse_sync(text: str) -> bool:
    """Say whether the service that keeps the clock is in step with its source."""
    service, _, rest = text.strip().partition(" ")
    if service == "chrony":
        return rest.split(",")[-1].strip() in ("Normal", "Insert second", "Delete second")
    if service == "ntpd" and "leap=" in rest:
        return rest.partition("leap=")[2][:2] != "11"
    if service == "timesyncd" and rest in ("yes", "no"):
        return rest == "yes"
    raise Unparsable(f"not understood: {text[:160]!r}")


def parse(sections: Sections, exchange: Exchange | None) -> Clock:
    """Parse both sections; with the exchange the offset is bounded as NTP bounds it (RFC 5905, section 8)."""
    node = sections["clock"].read(parse_clock)
    offset = uncertainty = None
    if node.value is not None and exchange is not None:
        begun, uptime = node.value
        on_node = (
            max(0.0, exchange.node_uptime_end_s - uptime)
            if uptime is not None and exchange.node_uptime_end_s is not None
            else 0.0
        )
        first, last = begun - exchange.started_s, begun + on_node - exchange.ended_s
        offset, uncertainty = (first + last) / 2, abs(first - last) / 2
    sync = sections["time_sync"]
    synchronized: Reading[bool] = sync.read(parse_sync)
    source = sync.text.strip().partition(" ")[0] if sync.exit_status == 0 else ""
    return Clock(
        offset_s=None if offset is None else round(offset, 3),
        uncertainty_s=None if uncertainty is None else round(uncertainty, 3),
        source=source if source in ("chrony", "timesyncd", "ntpd") else "none",
        synchronized=synchronized if sync.exit_status != 127 else absent(sync.detail),
    )
