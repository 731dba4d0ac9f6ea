"""Nodes that a command line names without an inventory file: ``root@gpu[01-16],admin@login:2222``."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from clusterctl.errors import UsageError
from clusterctl.inventory import nodeset, shapes, yaml_source
from clusterctl.inventory.field_types import Address, User, address_problem, canonical_address, is_address
from clusterctl.inventory.model import Inventory, Node

_USER: TypeAdapter[str] = TypeAdapter(User)
_ADDRESS: TypeAdapter[str] = TypeAdapter(Address)
_FORM = "[user@]host[:port]"
_PORT = re.compile(r":[0-9]+$")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def looks_like_targets(text: str) -> bool:
    """Return whether a text that names no file is meant as targets.

    It must have a user, a port, a range, a comma or an IP address: a single word is more likely a mistyped file name.
    """
    if yaml_source.FILE_NAME.search(text):
        return False
    return any(mark in text for mark in "@[,") or _PORT.search(text) is not None or is_address(text)


def inventory_of(text: str) -> Inventory:
    """Return an inventory with the named nodes, in the order written.

    A node is called like its host, with its port if the host is named more than once. Raise UsageError for a malformed
    target, or a node that is given twice.
    """
    try:
        targets = [target for part in nodeset.split(text) for target in _targets(part)]
    except nodeset.NodeSetError as error:
        raise UsageError(str(error), hint=error.hint or f"write targets as {_FORM}") from None
    if len(targets) > nodeset.MAX_NODES:
        raise UsageError(f"{len(targets)} nodes were given; at most {nodeset.MAX_NODES} are accepted")
    places = Counter((canonical_address(target.host), target.port or 22) for target in targets)
    (place, count), *_ = places.most_common(1)
    if count > 1:
        raise UsageError(f"the node {place[0]} port {place[1]} is given {count} times", hint="give it once")
    hosts = Counter(target.host for target in targets)
    nodes = tuple(
        Node(
            name=target.name(with_port=hosts[target.host] > 1),
            address=target.host,
            user=target.user,
            port=target.port,
        )
        for target in targets
    )
    return Inventory(nodes=nodes, source=text)


@dataclass(frozen=True, slots=True)
class _Target:
    """One host of a command line, with the user and the port given for it."""

    user: str | None
    host: str
    port: int | None

    def name(self, *, with_port: bool) -> str:
        """Return a valid node name."""
        text = f"{self.host}-{self.port or 22}" if with_port else self.host
        return _NOT_IN_NAMES.sub("-", text).strip(".-_") or "node"


def _targets(part: str) -> list[_Target]:
    """Return the hosts of ``[user@]hosts[:port]``."""
    before, at, rest = part.rpartition("@")
    user = before if at else None
    if user is not None and not _accepts(_USER, user):
        raise UsageError(f"{part[:80]!r}: {user[:60]!r} is not {shapes.shape_of(('user',))}")
    hosts, port = _host_and_port(part, rest)
    found = [_Target(user, host, port) for host in hosts]
    for target in found:
        problem = address_problem(target.host)
        if problem is None and not _accepts(_ADDRESS, target.host):
            problem = f"{target.host[:60]!r} is not {shapes.ADDRESS}"
        if problem is not None:
            raise UsageError(f"{part[:80]!r}: {problem}", hint=f"write targets as {_FORM}")
    return found


def _host_and_port(part: str, text: str) -> tuple[tuple[str, ...], int | None]:
    inside, closed, behind = text.removeprefix("[").partition("]")
    if text.startswith("[") and closed and ":" in inside and behind[:1] in ("", ":"):
        # [fd00::1]:22, where the brackets are not a range
        return (inside,), _port(part, behind[1:] if behind else None)
    if text.count(":") > 1 and "[" not in text:  # fd00::1
        return (text,), None
    hosts, colon, port = text.partition(":")
    return nodeset.expand(hosts), _port(part, port if colon else None)


def _port(part: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535):
        raise UsageError(f"{part[:80]!r}: the port must be a number from 1 to 65535, not {text[:20]!r}")
    return int(text)


def _accepts(adapter: TypeAdapter[str], text: str) -> bool:
    try:
        adapter.validate_python(text)
    except ValidationError:
        return False
    return True
