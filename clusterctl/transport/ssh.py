"""Open SSH connections: jump hosts, host key, login; and share state between the connections of a run.

Only this module, ``ssh_login``, ``ssh_packets`` and ``ssh_wire`` use paramiko.
"""

from __future__ import annotations

import copy
import random
import re
import socket
import threading
import time
from collections.abc import Callable
from io import StringIO
from typing import Any

from clusterctl import log
from clusterctl.errors import ConfigError
from clusterctl.inventory.model import Node
from clusterctl.transport import connect_failure, ssh_auth, ssh_config, ssh_config_text, ssh_login, tcp
from clusterctl.transport.base import FailureKind
from clusterctl.transport.connect_failure import failed
from clusterctl.transport.exchange import MAX_OUTPUT_BYTES
from clusterctl.transport.host_keys import HostKeyPolicy, ShownKey
from clusterctl.transport.known_hosts import host_name
from clusterctl.transport.lean_paramiko import paramiko
from clusterctl.transport.ssh_config import Target
from clusterctl.transport.ssh_jumps import Jumps
from clusterctl.transport.ssh_wire import WIRE_ERRORS, Wire
from clusterctl.transport.sudo import SudoPassword

_log = log.get(__name__)
_KEEPALIVE_S = 30
_LOGIN_TIMEOUT_S = 30.0
_DROPPED_TRIES = 6
_DROPPED_PAUSE_S = 0.2
_WILDCARD = re.compile(r"[*?!\[]")


def _verify(policy: HostKeyPolicy, target: Target, wire: Wire) -> None:
    key = wire.get_remote_server_key()
    host, port = target.key_place
    policy.verify(
        ShownKey(
            where=target.where,
            host=host,
            port=port,
            is_alias=target.host_key_alias is not None,
            key_type=key.get_name(),
            key=key.get_base64(),
            files=target.known_hosts,
            hash_name=target.hash_known_hosts,
            revoked_in=target.revoked_host_keys,
        )
    )


def _was_dropped(error: BaseException) -> bool:
    """Return whether the server closed the connection before SSH began, as sshd does beyond MaxStartups.

    Sources: sshd_config(5); RFC 4254 5.1 for a jump host without free channels (resource shortage).
    """
    if isinstance(error, paramiko.ChannelException):
        return error.code == 4
    if not isinstance(error, paramiko.SSHException) or "banner" not in str(error):
        return isinstance(error, (ConnectionResetError, BrokenPipeError))
    return not isinstance(error.__cause__ or error.__context__, TimeoutError) and "timed out" not in str(
        error
    )


class _Config(paramiko.SSHConfig):
    """paramiko's SSHConfig without token expansion: ``ssh_config`` expands all tokens, and has the inventory's user."""

    TOKENS_BY_CONFIG_KEY = {  # noqa: RUF012 - paramiko's own shape
        key: tokens
        for key, tokens in paramiko.SSHConfig.TOKENS_BY_CONFIG_KEY.items()
        if key not in ("identityfile", "proxycommand")
    }
    user: str | None = None
    """The login user if set elsewhere, which ``Match user`` is compared with, as with ``ssh -l``."""

    def parse(self, file_obj: Any) -> None:
        """Read a file, and index the sections by the hosts that they name."""
        super().parse(file_obj)
        whole: Any = self
        self._sections: list[dict[str, Any]] = whole._config
        self._general: list[int] = []
        self._by_name: dict[str, list[int]] = {}
        canonical = any("canonicalizehostname" in section["config"] for section in self._sections)
        for index, section in enumerate(self._sections):
            names = section.get("host")
            if canonical or names is None or _WILDCARD.search(" ".join(names)):
                self._general.append(index)
                continue
            for name in names:
                self._by_name.setdefault(name, []).append(index)

    def about(self, host: str, user: str | None) -> Any:
        """Return a copy with only the sections that may match one host, because checking all of a fleet's is slow."""
        asked: Any = copy.copy(self)  # paramiko's stubs do not declare its attribute for sections
        asked.user = user
        asked._config = [self._sections[i] for i in sorted({*self._general, *self._by_name.get(host, ())})]
        return asked

    def _lookup(self, hostname: str, options: Any = None, **passes: bool) -> Any:
        if options is None and self.user is not None:
            options = paramiko.SSHConfigDict({"user": self.user})
        base: Any = super()
        return base._lookup(hostname, options, **passes)


class SshSession:
    """The state that all SSH connections of a run share: ssh_config, host keys, private keys, jump hosts."""

    def __init__(
        self,
        *,
        accept_new_host_keys: bool,
        connect_timeout_s: float | None,
        password: SudoPassword,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> None:
        self.policy = HostKeyPolicy(accept_new=accept_new_host_keys)
        self.ring = ssh_auth.KeyRing(ssh_login.load_key)
        self.password = password
        self.max_output_bytes = max_output_bytes
        self.jumps: Jumps[Wire] = Jumps(
            lambda target: self.open(target, lambda _: None), Wire.end, Wire.is_active
        )
        self._ending = threading.Event()
        self._connect_timeout_s = connect_timeout_s
        text = ssh_config_text.read_config(ssh_config_text.config_files())
        self._ssh_config: _Config | None = None
        if text.replace("Host *", "").strip():
            try:
                self._ssh_config = _Config.from_file(StringIO(text))
            except (paramiko.ConfigParseError, ValueError) as error:
                raise ConfigError(f"ssh_config cannot be parsed: {error}", hint="fix that line") from None

    def _lookup(self, host: str, user: str | None) -> ssh_config.Options:
        if self._ssh_config is None:
            return {}
        found = dict(self._ssh_config.about(host, user).lookup(host))
        if found.get("hostname") == host:
            del found["hostname"]
        first = found.pop(ssh_config_text.PROXY, None)
        if first == "proxycommand":
            found.pop("proxyjump", None)
        elif first is not None and found["proxyjump"].lower() != "none":
            found.pop("proxycommand", None)
        return found

    def target(self, node: Node) -> Target:
        """Return where a node is and how to log in there."""
        return ssh_config.resolve(node, self._lookup, self._connect_timeout_s)

    def open(self, target: Target, hold: Callable[[socket.socket], None]) -> Wire:
        """Connect, verify the host key and log in; ``hold`` receives the socket, so that other threads can close it.

        A server with too many pending logins drops some at random, so the attempt is repeated with growing pauses.
        """
        if target.proxy_command:
            raise failed(
                target,
                FailureKind.ERROR,
                "ssh_config sets a ProxyCommand for it, which is not supported",
                "use ProxyJump instead",
            )
        gateway = self.jumps.acquire(target, target.jump) if target.jump else None
        give_up = time.monotonic() + target.connect_timeout_s
        try:
            for attempt in range(1, _DROPPED_TRIES + 1):
                began = time.monotonic()
                try:
                    wire = self._connected(target, gateway, hold)
                    _log.info("%s: logged in after %.2f s", target.where, time.monotonic() - began)
                    return wire
                except WIRE_ERRORS as error:
                    now = time.monotonic()
                    pause_s = _DROPPED_PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
                    again = attempt < _DROPPED_TRIES and now + pause_s < give_up
                    if again and _was_dropped(error):
                        _log.info(
                            "%s: dropped at login attempt %d; retry in %.1f s", target.where, attempt, pause_s
                        )
                        if not self._ending.wait(pause_s):
                            continue
                    raise connect_failure.explain(
                        target,
                        error,
                        now - began,
                        refused_by_jump=isinstance(error, paramiko.ChannelException),
                        incompatible=isinstance(error, paramiko.ssh_exception.IncompatiblePeer),
                    ) from None
            raise AssertionError("the last attempt returns or raises")
        except BaseException:
            if target.jump:
                self.jumps.release(target.jump)
            raise

    def _connected(self, target: Target, gateway: Wire | None, hold: Callable[[socket.socket], None]) -> Wire:
        sock: Any = (
            gateway.way_to(target.host, target.port, target.connect_timeout_s)
            if gateway
            else tcp.connected(target, hold)
        )
        # A server that has sent its greeting is alive, and may be slow because of many simultaneous logins.
        patience_s = max(_LOGIN_TIMEOUT_S, target.connect_timeout_s)
        wire: Wire | None = None
        try:
            name = host_name(*target.key_place)
            wire = Wire(sock, self.policy.known(target.known_hosts).key_types(name))
            wire.banner_timeout = target.connect_timeout_s
            wire.channel_timeout = target.connect_timeout_s
            wire.negotiate(target.connect_timeout_s + patience_s)
            _verify(self.policy, target, wire)
            ssh_login.log_in(wire, target, self.ring, patience_s)
            wire.settle(_KEEPALIVE_S)
        except BaseException:
            if wire is not None:
                wire.end()
            sock.close()
            raise
        return wire

    def close(self) -> None:
        """Close the connections to jump hosts, and end pauses before another attempt."""
        self._ending.set()
        self.jumps.close()
