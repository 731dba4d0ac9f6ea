"""Find and remove what a killed run left on nodes: its directory and ranks, found by the directory's lease."""

from __future__ import annotations

import os
import platform
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterctl.inventory.model import Node
from clusterctl.launch import processes
from clusterctl.transport.base import Failure, FailureKind, HostMap, Transport, TransportError
from clusterctl.transport.fanout import fan_out

PREFIX = "/tmp/clusterctl-"
_TIMEOUT_S = 60.0
_GRACE_S = 2.0
_MOST_SHOWN = 200
"""Characters of a node's error that are shown."""
# If a run's controller cannot be checked from here, the run is considered dead when its directory is this old.
_OLD_MINUTES = 7 * 24 * 60
_TOKEN = re.compile(r"[0-9a-f]{16}")
_LEASE = re.compile(
    r"1 (?P<host>\S{1,255}) (?P<boot>\S{1,64}) (?P<space>\S{1,64}) (?P<pid>\d{1,9}) (?P<start>\d{1,18})"
)

LIST = f"""
for other in {PREFIX}*; do
  # In /tmp any user can create a directory or link of this name.
  {{ [ -d "$other" ] && [ ! -L "$other" ] && [ -O "$other" ]; }} || continue
  age=$(find "$other" -maxdepth 0 -mmin +{_OLD_MINUTES} 2>/dev/null)
  printf '%s %s %s\\n' "${{other#{PREFIX}}}" "${{age:+old}}" "$(head -c 600 "$other/lease" 2>/dev/null | head -n 1)"
done
"""
"""sh text that lists the launch directories on a node: lines of token, age and lease, separated by one blank each."""


@dataclass(frozen=True, slots=True)
class Controller:
    """Identify the process that runs clusterctl, so that a later run can tell whether it still runs."""

    host: str
    boot: str
    space: str
    pid: int
    start: int

    @property
    def lease(self) -> str:
        """Return the text of the file ``lease``, which :func:`dead` reads."""
        return f"1 {self.host} {self.boot} {self.space} {self.pid} {self.start}"


def this_controller() -> Controller:
    """Return this process; without /proc, later runs can judge it only by the age of its directory."""
    host = re.sub(r"\s", "_", platform.node())[:255] or "-"
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return Controller(
            host, boot, str(Path("/proc/self/ns/pid").readlink()), os.getpid(), _start(os.getpid()) or 0
        )
    except OSError:
        return Controller(host, "-", "-", os.getpid(), 0)


def claim(transport: Transport, directory: str, controller: Controller) -> None:
    """Create a launch directory with its lease on a node, and remove what dead runs left.

    Raises TransportError with the node's own words (read-only file system, no space) if that is impossible.
    """
    # The directory may exist and be ours: nodes may share a file system, and the name is random.
    made = (
        f"umask 077\nDIRECTORY={shlex.quote(directory)}\n"
        'why=$(mkdir "$DIRECTORY" 2>&1) || [ -O "$DIRECTORY" ] || { printf "%s" "$why" >&2; exit 1; }\n'
        f'printf "%s\\n" {shlex.quote(controller.lease)} >"$DIRECTORY/lease"\n'
    )
    done = transport.run(("sh", "-s"), stdin=(LIST + made).encode(), timeout_s=_TIMEOUT_S)
    remove(transport, dead(done.text.splitlines(), controller))
    if done.returncode != 0:
        why = done.stderr.decode(errors="replace").strip().rpartition(": ")[2][:_MOST_SHOWN]
        message = f"cannot make {directory}" + (f": {why}" if why else "")
        hint = "free space in /tmp, and let the login user create directories there"
        raise TransportError(Failure(FailureKind.ERROR, f"{transport.node}: {message}", hint))


def dead(said: Iterable[str], here: Controller) -> tuple[str, ...]:
    """Return the tokens of the listed runs whose controller no longer runs.

    A controller on another machine, or in another container, cannot be checked: the age of its directory decides.
    """
    found = []
    for line in said:
        token, _, rest = line.partition(" ")
        age, _, text = rest.partition(" ")
        if not _TOKEN.fullmatch(token):
            continue
        lease = _LEASE.match(text)
        if lease is None or lease["host"] != here.host or "-" in (lease["boot"], here.boot):
            ended = False
        elif lease["boot"] != here.boot:
            ended = True
        else:
            ended = lease["space"] == here.space and _start(int(lease["pid"])) != int(lease["start"])
        if ended or age == "old":
            found.append(token)
    return tuple(found)


def _start(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot (proc(5), field 22); None if it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def removal_script(tokens: Sequence[str]) -> bytes:
    """Return sh text that ends the remaining processes of these launches on a node and removes their directories."""
    return b"".join(
        processes.end_script(token, _GRACE_S) + f"rm -rf -- {PREFIX}{token}\n".encode() for token in tokens
    )


def remove(transport: Transport, tokens: Sequence[str]) -> None:
    """End the remaining processes of these launches on a node and remove their directories."""
    if tokens:
        transport.run(("sh", "-s"), stdin=removal_script(tokens), timeout_s=_TIMEOUT_S)


def sweep(nodes: Sequence[Node], connect: Callable[[Node], Transport], fanout: int) -> HostMap[int]:
    """Remove what dead runs left on all nodes; return the number of removed directories by node."""
    here = this_controller()

    def work(_: Node, transport: Transport) -> int:
        done = transport.run(("sh", "-s"), stdin=LIST.encode(), timeout_s=_TIMEOUT_S)
        tokens = dead(done.text.splitlines(), here)
        remove(transport, tokens)
        return len(tokens)

    return fan_out(nodes, connect, work, fanout=fanout)
