"""The node's clock: its offset from the controller's clock, and the service that synchronizes it."""

from __future__ import annotations

from dataclasses import dataclass

from clusterctl.facts.base import Fragment, Reading, Sections, Unparsable, absent
from clusterctl.facts.model.services import Clock
from clusterctl.text.foreign import decimal, is_whole, whole

# timedatectl is not used: it starts a D-Bus service on the node for one bit that these files and chronyc give too.
FRAGMENTS = (
    Fragment(
        "clock",
        "date '+%s %N' && { read -r u x </proc/uptime && echo \"uptime $u\"; }",
        needs="command -v date >/dev/null 2>&1",
        missing="date is not installed",
    ),
    Fragment(
        "time_sync",
        # A hardened chrony (cmdport 0, as STIG requires) answers only root, on its socket.
        # linuxptp has sockets and directories in /run, also for instances (ptp4l@eth0). phc2sys and timemaster
        # set the system clock; ptp4l alone sets the network card's clock, or the system clock if the card has
        # none. A killed phc2sys leaves its socket behind, so the process number in the socket's name is checked.
        """\
p=
for f in /run/phc2sys.[0-9]*; do if [ -S "$f" ] && [ -d "/proc/${f##*.}" ]; then p=$f; fi; done
if [ -d /run/timemaster ]; then p=/run/timemaster; fi
if [ -z "$p" ] && command -v chronyc >/dev/null 2>&1 && [ -d /run/chrony ]; then
  v=$(t 5 chronyc -n -c tracking); e=$?
  if [ $e != 0 ] && [ "$W" = sudo ]; then v=$(r 'chronyc -n -c tracking'); e=$?; fi
  printf 'chrony %s\\n' "$v"; return $e
elif [ -n "$p" ]; then
  echo "ptp $p"
elif [ -d /run/systemd/timesync ]; then
  if [ -e /run/systemd/timesync/synchronized ]; then echo 'timesyncd yes'; else echo 'timesyncd no'; fi
elif [ -e /run/ntpd.pid ] || [ -e /var/run/ntpd.pid ]; then
  printf 'ntpd '; t 5 ntpq -c 'rv 0 leap'
elif [ -S /run/ptp4l ]; then
  echo 'ptp /run/ptp4l'
else
  echo 'no time service runs (chrony, linuxptp, systemd-timesyncd, ntpd)' >&2; return 127
fi""",
        root=True,
    ),
)


CHRONY_FAR_S = 1.0


@dataclass(frozen=True, slots=True)
class ClockExchange:
    """The controller's clock at the probe's start and end, and the node's uptime at its end (seconds)."""

    started_s: float
    ended_s: float
    node_uptime_end_s: float | None


def parse_clock(text: str) -> tuple[float, float | None]:
    """Return the node's time (seconds since the epoch) and its uptime at that moment."""
    lines = text.splitlines()
    seconds, _, rest = lines[0].partition(" ")
    # busybox does not support %N and prints it unchanged.
    nanoseconds = whole(rest) if is_whole(rest) and len(rest) == 9 else 500_000_000
    if not is_whole(seconds) or len(seconds) > 12:
        raise Unparsable(f"not a time: {lines[0][:80]!r}")
    uptime = lines[1].removeprefix("uptime ") if len(lines) > 1 else None
    return whole(seconds) + nanoseconds / 1e9, None if uptime is None else decimal(uptime)


def parse_sync(text: str) -> bool:
    """Return whether the time service is synchronized with its source."""
    service, _, rest = text.strip().partition(" ")
    if service == "chrony":
        words = rest.strip().split(",")
        # The fifth word is the clock's error as chrony measures it. After its first minutes chrony slews the
        # clock (chrony.conf(5), makestep) and reports Normal during that time.
        far = len(words) > 4 and abs(decimal(words[4])) > CHRONY_FAR_S
        return words[-1] in ("Normal", "Insert second", "Delete second") and not far
    if service == "ntpd" and "leap=" in rest:
        return rest.partition("leap=")[2][:2] != "11"
    if service == "timesyncd" and rest in ("yes", "no"):
        return rest == "yes"
    raise Unparsable(f"not understood: {text[:160]!r}")


def parse(sections: Sections, exchange: ClockExchange | None) -> Clock:
    """Parse both sections; the exchange bounds the offset as NTP does (RFC 5905, section 8)."""
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
    source = sync.text.strip().partition(" ")[0] if sync.exit_status == 0 else ""
    # Only root may query the offset of PTP, and only with the number of its domain, which is not known here.
    synchronized: Reading[bool] = (
        absent("PTP sets the clock; its offset was not read") if source == "ptp" else sync.read(parse_sync)
    )
    return Clock(
        offset_s=None if offset is None else round(offset, 3),
        uncertainty_s=None if uncertainty is None else round(uncertainty, 3),
        source=source if source in ("chrony", "ptp", "timesyncd", "ntpd") else "none",
        synchronized=synchronized if sync.exit_status != 127 else absent(sync.detail),
    )
