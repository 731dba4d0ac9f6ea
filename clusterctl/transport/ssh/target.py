"""Resolve a node's address and login into a frozen Target. Precedence: inventory, ssh_config, default."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from clusterctl.errors import ConfigError
from clusterctl.inventory.model import Node
from clusterctl.inventory.user_paths import at_home, is_file
from clusterctl.text.openssh.jumps import jump_of_proxy_command
from clusterctl.text.openssh.known_hosts import SSH_PORT, host_name
from clusterctl.text.openssh.reader import Options, filled
from clusterctl.text.openssh.reader import option as _text

KNOWN_HOSTS_VARIABLE = "CLUSTERCTL_KNOWN_HOSTS"
DEFAULT_IDENTITIES = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
DEFAULT_CONNECT_TIMEOUT_S = 10.0
_AGENT_VARIABLE = "SSH_AUTH_SOCK"
_MAX_JUMPS = 8
_LAST_PORT = 65535
_LONGEST_S = 2**31 - 1
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_FAMILIES: Mapping[str, Literal["any", "inet", "inet6"]] = {"inet": "inet", "inet6": "inet6"}
_TOKEN = re.compile(r"%(.)|\$\{(\w+)\}")
# As in OpenSSH (valid_hostname in ssh.c), because the names become part of a shell command.
_UNSAFE_IN_SHELL = re.compile(r"^-|[\s'`\"$\\;&<>|(){}\x00-\x1f\x7f]")

Lookup = Callable[[str, str | None], Options]


@dataclass(frozen=True, slots=True)
class Target:
    """One SSH server, its login and its jump host. New host keys are added to ``known_hosts[0]``."""

    node: str
    host: str
    port: int
    user: str
    identities: tuple[str, ...]
    identities_only: bool
    identities_named: bool
    """Whether these keys are configured; else they are the default ones."""
    connect_timeout_s: float
    known_hosts: tuple[str, ...]
    hash_known_hosts: bool = False
    revoked_host_keys: str | None = None
    """The file of revoked host keys (RevokedHostKeys)."""
    host_key_alias: str | None = None
    proxy_command: str | None = None
    """The shell command whose input and output are connected to the server (ProxyCommand), with its tokens filled in.
    """
    family: Literal["any", "inet", "inet6"] = "any"
    """Which addresses of its name are used (AddressFamily)."""
    agent: str | None = None
    """The socket of the SSH agent; None: no agent."""
    certificate: str | None = None
    """The file of a certificate for one of the keys."""
    jump: Target | None = None
    is_jump: bool = False
    """Whether it is a jump host, not a node of the inventory."""

    @property
    def where(self) -> str:
        """The server's name in messages: ``node (user@host:port)``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.node} ({self.user}@{host}:{self.port})"

    @property
    def key_place(self) -> tuple[str, int]:
        """The host and port of the server in known_hosts; an alias is listed without a port."""
        return (self.host_key_alias, SSH_PORT) if self.host_key_alias else (self.host, self.port)


def _port(options: Options, host: str) -> int | None:
    value = _text(options, "port")
    if value is None:
        return None
    if not _is_port(value):
        raise ConfigError(
            f"ssh_config: port of {host} is {value[:60]!r}, not a number from 1 to {_LAST_PORT}",
            hint=f"fix Port of {host} in ssh_config",
        )
    return int(value)


def _is_port(text: str) -> bool:
    # The resolver accepts greater numbers modulo 65536.
    return re.fullmatch("[0-9]{1,5}", text) is not None and 1 <= int(text) <= _LAST_PORT


def _seconds(options: Options, host: str) -> int | None:
    """Return ConnectTimeout in seconds from 90, 90s or 1m30s (TIME FORMATS in sshd_config(5)); None if unset or 0."""
    value = _text(options, "connecttimeout")
    if value is None:
        return None
    parts = re.findall(r"([0-9]{1,10})([smhdw]?)", value.lower())
    seconds = sum(int(number) * _UNITS_S[unit] for number, unit in parts)
    # ssh rejects values beyond a C int, and Python's sockets reject timeouts of centuries.
    if seconds > _LONGEST_S or not parts or "".join(map("".join, parts)) != value.lower():
        raise ConfigError(
            f"ssh_config: connecttimeout of {host} is {value[:60]!r}, not a time",
            hint="write it in seconds (90) or with units (1m30s)",
        )
    return seconds or None


def _identities(options: Options, own: str | None, tokens: Mapping[str, str]) -> tuple[str, ...]:
    named = options.get("identityfile", ())
    if own is None and not named:
        return tuple(str(at_home(path)) for path in DEFAULT_IDENTITIES if is_file(at_home(path)))
    paths = [_path(name, tokens) for name in named if name.lower() != "none"]
    return tuple(dict.fromkeys([*([str(at_home(own))] if own else []), *paths]))


def _agent(options: Options, tokens: Mapping[str, str]) -> str | None:
    """Return the agent's socket: IdentityAgent, which may name a variable, else $SSH_AUTH_SOCK."""
    named = " ".join(options.get("identityagent", (_AGENT_VARIABLE,)))
    if named == _AGENT_VARIABLE:
        return os.environ.get(_AGENT_VARIABLE) or None
    if named.lower() == "none":
        return None
    return os.environ.get(named[1:]) if re.fullmatch(r"\$\w+", named) else _path(named, tokens)


def _known_hosts(options: Options, own: str | None, tokens: Mapping[str, str]) -> tuple[str, ...]:
    chosen = os.environ.get(KNOWN_HOSTS_VARIABLE) or own
    if chosen:
        return (str(at_home(chosen)),)
    named = [
        *_files(options, "userknownhostsfile", ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")),
        *_files(options, "globalknownhostsfile", ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")),
    ]
    return tuple(_path(name, tokens) for name in named)


def _files(options: Options, key: str, otherwise: tuple[str, ...]) -> tuple[str, ...]:
    return otherwise if _text(options, key) is None else options[key]


def _tokens(options: Options, address: str, host: str, port: str, login: str) -> dict[str, str]:
    """Return the values of ``%h`` and the other tokens in paths (TOKENS in ssh_config(5))."""
    machine = socket.gethostname()
    return {
        "%": "%", "h": host, "n": address, "p": port, "r": login, "u": getpass.getuser(), "i": str(os.getuid()),
        "d": str(at_home("~")), "k": _text(options, "hostkeyalias") or address, "j": _text(options, "proxyjump") or "",
        "l": machine, "L": machine.partition(".")[0],
    }  # fmt: skip


def tokens_of(options: Options, address: str) -> dict[str, str]:
    """Return the tokens of a host by its options alone, as ``Match exec`` sees them."""
    host, port = _text(options, "hostname") or address, _text(options, "port") or str(SSH_PORT)
    return _tokens(options, address, host, port, _text(options, "user") or getpass.getuser())


def _path(text: str, tokens: Mapping[str, str]) -> str:
    """Return a path of ssh_config with tokens, ``${VARIABLES}`` and ``~`` expanded; unknown ones are kept."""
    named = _TOKEN.sub(
        lambda found: (tokens if found[1] else os.environ).get(found[1] or found[2], found[0]), text
    )
    return str(at_home(named))


def _proxy_command(command: str, node: str, tokens: Mapping[str, str]) -> str:
    """Return the shell text of a ProxyCommand (its tokens: %%, %h, %n, %p, %r)."""
    given = {name: tokens[name] for name in "%hnpr"}
    for name in re.findall("%([hnr])", command):
        if _UNSAFE_IN_SHELL.search(given[name]):
            raise ConfigError(
                f"{node}: {given[name]!r} cannot be used in the ProxyCommand of ssh_config (%{name})",
                hint="use a host name and a user without characters that are special to the shell",
            )
    return filled(command, given)


def split_hop(hop: str) -> tuple[str | None, str, int | None]:
    """Return user, host and port of ``[user@]host[:port]``, also as ``ssh://`` and with ``[IPv6]``."""
    rest = hop.strip().removeprefix("ssh://")
    user, _, rest = rest.rpartition("@")
    matched = re.fullmatch(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>\d{1,5}))?", rest)
    if matched is None or (matched["port"] and not _is_port(matched["port"])):
        raise ConfigError(f"{hop!r} is not a valid jump host", hint="write it as [user@]host[:port]")
    return user or None, matched["v6"] or matched["host"], int(matched["port"]) if matched["port"] else None


def resolve(node: Node, lookup: Lookup, connect_timeout_s: float | None = None) -> Target:
    """Return a node's Target; ``lookup`` returns ssh_config's options for a host name and the user, if set already.

    Raises ConfigError for an invalid port, time or jump host. ``connect_timeout_s`` overrides ssh_config, in seconds.
    """
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


def names_in_known_hosts(nodes: Iterable[Node], lookup: Lookup) -> dict[str, dict[str, list[str]]]:
    """Return by known_hosts file, and by the name of a server in it, the nodes of the inventory."""
    files: dict[str, dict[str, list[str]]] = {}
    for node in nodes:
        target = resolve(node, lookup)
        for file in target.known_hosts:
            files.setdefault(file, {}).setdefault(host_name(*target.key_place), []).append(node.name)
    return files


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
            f"{name}: more than {_MAX_JUMPS} jump hosts in a row", hint="check for a loop of jump hosts"
        )
    options = lookup(address, user)
    login = user or _text(options, "user") or getpass.getuser()
    timeout_s = connect_timeout_s or _seconds(options, address) or DEFAULT_CONNECT_TIMEOUT_S
    command = _text(options, "proxycommand")
    host = _text(options, "hostname") or address
    port = port or _port(options, address) or SSH_PORT
    tokens = _tokens(options, address, host, str(port), login)
    hops = proxy_jump or (filled(named, tokens) if (named := _text(options, "proxyjump")) else None)
    if hops is None and command is not None and (plain := jump_of_proxy_command(command)):
        hops = filled(plain, tokens)
    jump: Target | None = None
    for hop in hops.split(",") if hops and hops.lower() != "none" else ():
        hop_user, hop_host, hop_port = split_hop(hop)
        hop_options = lookup(hop_host, hop_user)
        found = _resolve(
            f"jump host {hop_host}",
            hop_host,
            lookup,
            # A jump host's default login is that of the node behind it.
            user=hop_user or _text(hop_options, "user") or login,
            port=hop_port,
            identity_file=None if "identityfile" in hop_options else identity_file,
            known_hosts=known_hosts,
            proxy_jump="none" if jump else None,
            connect_timeout_s=connect_timeout_s,
            depth=depth + 1,
        )
        jump = _behind(found, jump)
    return Target(
        node=name,
        host=host,
        port=port,
        user=login,
        identities=_identities(options, identity_file, tokens),
        identities_named=bool(identity_file or options.get("identityfile")),
        identities_only=(_text(options, "identitiesonly") or "no").lower() == "yes",
        connect_timeout_s=float(timeout_s),
        known_hosts=_known_hosts(options, known_hosts, tokens),
        hash_known_hosts=(_text(options, "hashknownhosts") or "no").lower() == "yes",
        revoked_host_keys=_path(named, tokens) if (named := _text(options, "revokedhostkeys")) else None,
        host_key_alias=_text(options, "hostkeyalias"),
        family=_FAMILIES.get((_text(options, "addressfamily") or "any").lower(), "any"),
        agent=_agent(options, tokens),
        certificate=_path(named, tokens) if (named := _text(options, "certificatefile")) else None,
        # ProxyJump, also with the value none, overrides ProxyCommand (ssh_config(5)).
        proxy_command=_proxy_command(command, name, tokens) if command and hops is None else None,
        jump=jump,
        is_jump=depth > 0,
    )


def _behind(hop: Target, before: Target | None) -> Target:
    if before is None:
        return hop
    return replace(hop, jump=before)
