"""Where a node is and how to log in there: inventory over ssh_config over default, as one frozen Target."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from clusterctl.errors import ConfigError
from clusterctl.inventory.model import Node
from clusterctl.transport.known_hosts import SSH_PORT

CONFIG_VARIABLE = "CLUSTERCTL_SSH_CONFIG"
KNOWN_HOSTS_VARIABLE = "CLUSTERCTL_KNOWN_HOSTS"
DEFAULT_IDENTITIES = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
DEFAULT_CONNECT_TIMEOUT_S = 10.0
_MAX_INCLUDE_DEPTH = 16
_MAX_JUMPS = 8
_INCLUDE = re.compile(r"\s*include[\s=]+(.+?)\s*$", re.IGNORECASE)
_SECTION = re.compile(r"\s*(host|match)[\s=]", re.IGNORECASE)

Options = Mapping[str, str | list[str]]
Lookup = Callable[[str], Options]


@dataclass(frozen=True, slots=True)
class Target:
    """One SSH server and the way to it. ``jumps`` lead there in order; ``known_hosts[0]`` is added to."""

    node: str
    host: str
    port: int
    user: str
    identities: tuple[str, ...]
    identities_only: bool
    identities_named: bool
    """Whether somebody named these keys, or they are those that everybody has."""
    connect_timeout_s: float
    known_hosts: tuple[str, ...]
    hash_known_hosts: bool = False
    host_key_alias: str | None = None
    proxy_command: bool = False
    jump: Target | None = None

    @property
    def where(self) -> str:
        """The server as messages name it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.node} ({self.user}@{host}:{self.port})"

    @property
    def key_host(self) -> str:
        """The name under which known_hosts lists the server."""
        return self.host_key_alias or self.host


def config_files() -> tuple[Path, ...]:
    """Return the ssh_config files that count, first wins: $CLUSTERCTL_SSH_CONFIG alone, or OpenSSH's two."""
    chosen = os.environ.get(CONFIG_VARIABLE)
    if chosen:
        return (Path(chosen).expanduser(),)
    return (Path("~/.ssh/config").expanduser(), Path("/etc/ssh/ssh_config"))


def read_config(files: tuple[Path, ...]) -> str:
    """Return the text of the files with their Include lines replaced by what they name."""
    parts = []
    for path in files:
        if path.is_file():
            parts.append(_expanded(path, path.parent, 0))
            parts.append("Host *\n")
    return "".join(parts)


def _expanded(path: Path, base: Path, depth: int) -> str:
    if depth > _MAX_INCLUDE_DEPTH:
        raise ConfigError(f"{path}: Include lines are nested deeper than {_MAX_INCLUDE_DEPTH}")
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    section = "Host *"
    lines = []
    for line in text.splitlines():
        if _SECTION.match(line):
            section = line
        include = _INCLUDE.match(line)
        if include is None:
            lines.append(line)
            continue
        for pattern in include[1].split():
            named = Path(pattern.strip('"')).expanduser()
            place = named if named.is_absolute() else base / named
            for included in sorted(place.parent.glob(place.name)) if place.parent.is_dir() else []:
                if included.is_file():
                    lines.append(_expanded(included, base, depth + 1))
        # What an included file opened ends with it.
        lines.append(section)
    return "\n".join(lines) + "\n"


def _text(options: Options, key: str) -> str | None:
    value = options.get(key)
    return value if isinstance(value, str) and value.lower() != "none" else None


def _number(options: Options, key: str, host: str) -> int | None:
    value = _text(options, key)
    if value is None:
        return None
    if not value.isdigit() or int(value) < 1:
        raise ConfigError(f"ssh_config: {key} of {host} is {value!r}, not a positive number")
    return int(value)


def _identities(options: Options, own: str | None) -> tuple[str, ...]:
    listed = options.get("identityfile") or []
    if own is None and not listed:
        return tuple(str(Path(p).expanduser()) for p in DEFAULT_IDENTITIES if Path(p).expanduser().is_file())
    named = ([own] if own else []) + ([listed] if isinstance(listed, str) else list(listed))
    return tuple(dict.fromkeys(str(Path(name).expanduser()) for name in named))


def _known_hosts(options: Options, own: str | None) -> tuple[str, ...]:
    chosen = os.environ.get(KNOWN_HOSTS_VARIABLE) or own
    if chosen:
        return (str(Path(chosen).expanduser()),)
    user = _text(options, "userknownhostsfile") or "~/.ssh/known_hosts ~/.ssh/known_hosts2"
    everyone = _text(options, "globalknownhostsfile") or "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
    return tuple(str(Path(name.strip('"')).expanduser()) for name in f"{user} {everyone}".split())


def split_hop(hop: str) -> tuple[str | None, str, int | None]:
    """Return user, host and port of ``[user@]host[:port]``, also as ``ssh://`` and with ``[IPv6]``."""
    rest = hop.strip().removeprefix("ssh://")
    user, _, rest = rest.rpartition("@")
    matched = re.fullmatch(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>\d{1,5}))?", rest)
    if matched is None:
        raise ConfigError(f"{hop!r} is no jump host", hint="write it as [user@]host[:port]")
    return user or None, matched["v6"] or matched["host"], int(matched["port"]) if matched["port"] else None


def resolve(node: Node, lookup: Lookup, connect_timeout_s: float | None = None) -> Target:
    """Return where a node is; ``lookup`` gives ssh_config's options for a host name."""
    return _resolve(
        node.name,
        node.address,
        lookup,
        user=node.user,
        port=node.port,
        identity_file=node.identity_file,
        known_hosts=node.known_hosts,
        proxy_jump=node.proxy_jump,
        connect_timeout_s=connect_timeout_s,
        depth=0,
    )


def _resolve(
    name: str,
    address: str,
    lookup: Lookup,
    *,
    user: str | None,
    port: int | None,
    identity_file: str | None,
    known_hosts: str | None,
    proxy_jump: str | None,
    connect_timeout_s: float | None,
    depth: int,
) -> Target:
    if depth > _MAX_JUMPS:
        raise ConfigError(
            f"{name}: more than {_MAX_JUMPS} jump hosts in a row", hint="do they jump in a circle?"
        )
    options = lookup(address)
    login = user or _text(options, "user") or getpass.getuser()
    timeout_s = connect_timeout_s or _number(options, "connecttimeout", address) or DEFAULT_CONNECT_TIMEOUT_S
    hops = proxy_jump or _text(options, "proxyjump")
    jump: Target | None = None
    for hop in hops.split(",") if hops and hops.lower() != "none" else ():
        hop_user, hop_host, hop_port = split_hop(hop)
        found = _resolve(
            f"jump host {hop_host}",
            hop_host,
            lookup,
            # A jump host is logged in to as the node is, unless something says otherwise.
            user=hop_user or _text(lookup(hop_host), "user") or login,
            port=hop_port,
            identity_file=None if "identityfile" in lookup(hop_host) else identity_file,
            known_hosts=known_hosts,
            proxy_jump="none" if jump else None,
            connect_timeout_s=connect_timeout_s,
            depth=depth + 1,
        )
        jump = _behind(found, jump)
    return Target(
        node=name,
        host=_text(options, "hostname") or address,
        port=port or _number(options, "port", address) or SSH_PORT,
        user=login,
        identities=_identities(options, identity_file),
        identities_named=bool(identity_file or options.get("identityfile")),
        identities_only=(_text(options, "identitiesonly") or "no").lower() == "yes",
        connect_timeout_s=float(timeout_s),
        known_hosts=_known_hosts(options, known_hosts),
        hash_known_hosts=(_text(options, "hashknownhosts") or "no").lower() == "yes",
        host_key_alias=_text(options, "hostkeyalias"),
        proxy_command=jump is None and _text(options, "proxycommand") is not None,
        jump=jump,
    )


def _behind(hop: Target, before: Target | None) -> Target:
    if before is None:
        return hop
    return replace(hop, jump=before)
