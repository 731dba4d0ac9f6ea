"""The login session of the probe, and how other nodes reach the node: address, host keys, listening ports."""

from __future__ import annotations

import re

from clusterctl.facts.base import (
    Fragment,
    Reading,
    ReadStatus,
    Section,
    Sections,
    Unparsable,
    absent,
    cpu_list,
)
from clusterctl.facts.model.launch import Accepted, LoginSession
from clusterctl.inventory.field_types import is_address
from clusterctl.text.foreign import whole
from clusterctl.text.grouping import by_first_word

_LISTENS = "0A"
"""TCP_LISTEN (Linux, include/net/tcp_states.h) in the column ``st`` of /proc/net/tcp (proc(5))."""

FRAGMENTS = (
    Fragment(
        "session",
        """\
printf 'connection %s\\n' "${SSH_CONNECTION:-}"
{ while read -r k v; do [ "$k" != Cpus_allowed_list: ] || echo "cpus $v"; done </proc/self/status; } 2>/dev/null
for f in /etc/ssh/ssh_host_*_key.pub; do
  v=; { read -r k v x <"$f"; } 2>/dev/null; [ -z "$v" ] || echo "host-key $k $v"
done
return 0""",
    ),
    Fragment("listening", f"grep -hs ' {_LISTENS} ' /proc/net/tcp /proc/net/tcp6; n $?"),
)


def parse_accepted(text: str) -> Accepted:
    """Parse SSH_CONNECTION (ssh(1)): address and port of the client, then of the server."""
    words = text.split()
    if len(words) != 4 or not is_address(words[2]):
        raise Unparsable(f"not a value of SSH_CONNECTION: {text[:80]!r}")
    return Accepted(words[2], whole(words[3]))


def parse_listening(text: str) -> tuple[int, ...]:
    """Return the local ports of lines of /proc/net/tcp, in order; a port may listen on several addresses."""
    ports = set()
    for line in text.splitlines():
        match = re.match(rf" *\d+: [0-9A-F]+:([0-9A-F]{{4}}) [0-9A-F]+:[0-9A-F]{{4}} {_LISTENS} ", line)
        if match is None:
            raise Unparsable(f"not a line of /proc/net/tcp: {line[:80]!r}")
        ports.add(int(match[1], 16))
    return tuple(sorted(ports))


def _listening(section: Section) -> Reading[tuple[int, ...]]:
    return Reading(()) if section.status is ReadStatus.EMPTY else section.read(parse_listening)


def parse(sections: Sections) -> LoginSession:
    """Return the facts of the sections ``session`` and ``listening``."""
    section = sections["session"]
    said = by_first_word(section.text)

    def one(name: str) -> Section:
        return Section(section.name, said.get(name, [""])[0], section.exit_status, section.error)

    accepted = one("connection").read(parse_accepted)
    return LoginSession(
        accepted=absent("not an SSH session") if accepted.status is ReadStatus.EMPTY else accepted,
        cpus=one("cpus").read(cpu_list),
        listening=_listening(sections["listening"]),
        host_keys=tuple(said.get("host-key", ())),
    )
