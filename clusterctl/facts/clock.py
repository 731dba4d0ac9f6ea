"""The node's clock: its offset to the controller's, and which service keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from clusterctl.facts.base import Fragment, Reading, Sections, Unparsable, absent
from clusterctl.facts.model_services import Clock
from clusterctl.foreign import decimal, is_whole, whole

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
        # A hardened chrony (cmdport 0, as STIG has it) answers root alone, by its socket.
        # linuxptp leaves sockets and folders in /run: phc2sys and timemaster keep the system's clock, ptp4l alone
        # a network card's, or the system's where the card has none. A phc2sys that was killed leaves its socket,
        # whose name ends in its process's number. Instances (ptp4l@eth0) are seen so as well.
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
    nanoseconds = whole(rest) if is_whole(rest) and len(rest) == 9 else 500_000_000
    if not is_whole(seconds) or len(seconds) > 12:
        raise Unparsable(f"not a time: {lines[0][:80]!r}")
    uptime = lines[1].removeprefix("uptime ") if len(lines) > 1 else None
    return whole(seconds) + nanoseconds / 1e9, None if uptime is None else decimal(uptime)


def parse_sync(text: str) -> bool:
    """Say whether the service that keeps the clock is in step with its source."""
    service, _, rest = text.strip().partition(" ")
    if service == "chrony":
        words = rest.strip().split(",")
        # The fifth is how far chrony knows the clock to be off: past its first minutes it slews what it finds
        # (chrony.conf(5), makestep), and says Normal all the while.
        far = len(words) > 4 and abs(decimal(words[4])) > CHRONY_FAR_S
        return words[-1] in ("Normal", "Insert second", "Delete second") and not far
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
    source = sync.text.strip().partition(" ")[0] if sync.exit_status == 0 else ""
    # How far PTP is off only root may ask, and of a domain that is not known here.
    synchronized: Reading[bool] = (
        absent("PTP keeps the clock, and was not asked") if source == "ptp" else sync.read(parse_sync)
    )
    return Clock(
        offset_s=None if offset is None else round(offset, 3),
        uncertainty_s=None if uncertainty is None else round(uncertainty, 3),
        source=source if source in ("chrony", "ptp", "timesyncd", "ntpd") else "none",
        synchronized=synchronized if sync.exit_status != 127 else absent(sync.detail),
    )
