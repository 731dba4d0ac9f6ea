"""SSH, and the only module that imports fabric and paramiko: one connection per node, opened when needed."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Callable
from io import StringIO
from typing import Any

import fabric
import paramiko
from paramiko import common as codes
from paramiko.pkey import UnknownKeyType
from paramiko.ssh_exception import IncompatiblePeer

from clusterctl.errors import ConfigError
from clusterctl.inventory.model import Node
from clusterctl.transport import connect_failure, ssh_auth, ssh_config, tcp
from clusterctl.transport.base import FailureKind
from clusterctl.transport.connect_failure import failed
from clusterctl.transport.exchange import MAX_OUTPUT_BYTES
from clusterctl.transport.host_keys import HostKeyPolicy, ShownKey
from clusterctl.transport.known_hosts import host_name
from clusterctl.transport.ssh_config import Target
from clusterctl.transport.ssh_jumps import Jumps
from clusterctl.transport.ssh_order import Order
from clusterctl.transport.sudo import SudoPassword

# paramiko logs tracebacks of every failed connection; a failure is a value here, and says why itself.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_KEEPALIVE_S = 30
_LOGIN_TIMEOUT_S = 30.0
_CLOSE_TIMEOUT_S = 5.0


def _ranked(names: tuple[str, ...], first: tuple[str, ...], never: str) -> tuple[str, ...]:
    """Return the names paramiko offers with ours in front and the weak ones left out."""
    usable = [name for name in names if not re.search(never, name)]
    return (*(name for name in first if name in usable), *(name for name in usable if name not in first))


WIRE_ERRORS: tuple[type[Exception], ...] = (EOFError, OSError, paramiko.SSHException)

# The stubs leave out what subclasses are meant to override.
_BASE: Any = paramiko.Transport
_BASE_CHANNEL: Any = paramiko.Channel


class _Channel(paramiko.Channel):
    """A channel that sends nothing after its CLOSE; paramiko's own become one by ``orderly``."""

    order: Order

    def _send(self, data: bytes, message: Any) -> int:
        with self.order.sending():
            return int(super()._send(data, message))  # type: ignore[misc]

    def shutdown(self, how: int) -> None:
        with self.order.sending():
            if not self.closed:
                super().shutdown(how)

    def close(self) -> None:
        self.order.closing(super().close)


def orderly(channel: Any) -> Any:
    """Return a channel just opened as one that keeps the order of its messages."""
    channel.order = Order(channel)
    # paramiko leaves no way to choose the class of the channels it makes.
    channel.__class__ = _Channel
    return channel


class _Wire(paramiko.Transport):
    """paramiko's Transport with fast algorithms first, a deadline on the handshake, and all exits told."""

    _preferred_ciphers = _ranked(
        _BASE._preferred_ciphers,
        ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com"),
        "cbc",
    )
    _preferred_macs = _ranked(_BASE._preferred_macs, ("hmac-sha2-256-etm@openssh.com",), "md5|sha1-96")
    _preferred_kex = _ranked(
        _BASE._preferred_kex, ("mlkem768x25519-sha256", "curve25519-sha256@libssh.org"), "sha1$"
    )

    _preferred_keys: tuple[str, ...] = _BASE._preferred_keys

    def prefer_key_types(self, recorded: tuple[str, ...]) -> None:
        """Ask the server for a key of a type that known_hosts has of it."""
        names = [n for t in recorded for n in (("rsa-sha2-512", "rsa-sha2-256") if t == "ssh-rsa" else (t,))]
        offered = self._preferred_keys
        self._preferred_keys = tuple(
            sorted(offered, key=lambda n: names.index(n) if n in names else len(names))
        )

    def run(self) -> None:
        """Be the connection's thread; behind a jump host that is gone, closing the socket fails as well."""
        with contextlib.suppress(*WIRE_ERRORS):
            super().run()

    def start_client(self, event: threading.Event | None = None, timeout: float | None = None) -> None:
        """Negotiate; unlike paramiko's, raise TimeoutError when the time runs out."""
        super().start_client(event=event, timeout=timeout)
        if event is None and not self.initial_kex_done:
            raise TimeoutError("key exchange" if self.remote_version else "banner")

    @staticmethod
    def _channel_request(channel: Any, message: Any) -> None:
        """Handle a channel request, and note an exit by signal (RFC 4254 6.10), unknown to paramiko."""
        start = message.packet.tell()
        if message.get_text() == "exit-signal":
            message.get_boolean()
            # As a shell shows it: 128 + the signal's number, which the message gives by name.
            channel.exit_status = 128 + _SIGNALS.get(message.get_text(), 0)
            channel.status_event.set()
        else:
            message.packet.seek(start)
            _BASE_CHANNEL._handle_request(channel, message)
        wake = getattr(channel, "wake", None)
        if wake is not None:
            wake.set()

    @staticmethod
    def _channel_close(channel: Any, message: Any) -> None:
        def answer() -> None:
            _BASE_CHANNEL._handle_close(channel, message)

        if isinstance(channel, _Channel):
            channel.order.closing(answer)
        else:
            answer()

    _channel_handler_table = {  # noqa: RUF012 - paramiko's own shape
        **_BASE._channel_handler_table,
        codes.MSG_CHANNEL_REQUEST: _channel_request,
        codes.MSG_CHANNEL_CLOSE: _channel_close,
    }


_SIGNALS = {"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "SEGV": 11, "PIPE": 13,
            "ALRM": 14, "TERM": 15, "USR1": 10, "USR2": 12}  # fmt: skip


class _Connection(fabric.Connection):  # type: ignore[misc] # fabric has no types
    """fabric's Connection, safe to make in many threads with one shared configuration.

    fabric writes an attribute that its class does not declare into the configuration and merges that anew,
    which another thread that reads it then finds empty.
    """

    inline_ssh_env = None

    def open_gateway(self) -> Any:
        """Open the way on from the jump host."""
        return orderly(super().open_gateway())


class _HostKeys(paramiko.MissingHostKeyPolicy):
    """Hands every server's key to our policy: paramiko knows none, so that all are missing to it."""

    def __init__(self, policy: HostKeyPolicy, target: Target) -> None:
        self._policy = policy
        self._target = target

    def missing_host_key(self, client: Any, hostname: str, key: paramiko.PKey) -> None:
        target = self._target
        self._policy.verify(
            ShownKey(
                where=target.where,
                host=target.key_host,
                port=target.port,
                key_type=key.get_name(),
                key=key.get_base64(),
                files=target.known_hosts,
                hash_name=target.hash_known_hosts,
            )
        )


class _Login:
    """Authenticates one connection; stands where paramiko expects an AuthStrategy."""

    def __init__(self, target: Target, ring: ssh_auth.KeyRing) -> None:
        self._target = target
        self._ring = ring

    def authenticate(self, transport: paramiko.Transport) -> None:
        agents: list[paramiko.Agent] = []

        def agent_keys() -> tuple[Any, ...]:
            agents.append(paramiko.Agent())
            return agents[0].get_keys()

        def attempt(key: Any) -> str | None:
            try:
                more = transport.auth_publickey(self._target.user, key)
            except paramiko.BadAuthenticationType as error:
                raise ssh_auth.AuthenticationEnded(
                    f"it only accepts {', '.join(error.allowed_types)}"
                ) from None
            except paramiko.AuthenticationException as error:
                if not transport.is_active():
                    raise ssh_auth.AuthenticationEnded(str(error)) from None
                if "timeout" in str(error).lower():
                    raise TimeoutError("authentication") from None
                return "refused"
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise ssh_auth.AuthenticationEnded(str(error) or "connection closed") from None
            return f"accepted, but {' and '.join(more)} is asked for as well" if more else None

        try:
            ssh_auth.authenticate(self._target, self._ring, agent_keys, attempt)
        finally:
            for agent in agents:
                agent.close()


def _load_key(path: str) -> paramiko.PKey:
    try:
        return paramiko.PKey.from_path(path)
    except FileNotFoundError:
        raise ssh_auth.KeyProblem("cannot be read: there is no such file") from None
    except OSError as error:
        raise ssh_auth.KeyProblem(f"cannot be read: {error.strerror}") from None
    except (TypeError, paramiko.PasswordRequiredException):
        raise ssh_auth.KeyProblem("protected by a passphrase") from None
    except (paramiko.SSHException, UnknownKeyType, ValueError, IndexError) as error:
        raise ssh_auth.KeyProblem(f"cannot be read as a private key ({type(error).__name__})") from None


def send_exec(channel: Any, line: str) -> None:
    """Ask for a command; unlike paramiko's own call, do not wait for the server's word without a limit."""
    message = paramiko.Message()
    message.add_byte(codes.cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("exec")
    message.add_boolean(False)
    message.add_string(line)
    channel.transport._send_user_message(message)


class SshSession:
    """What all SSH connections of a run share: ssh_config, host keys, private keys, jump hosts."""

    def __init__(
        self,
        *,
        accept_new_host_keys: bool,
        connect_timeout_s: float | None,
        password: SudoPassword,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> None:
        self.policy = HostKeyPolicy(accept_new=accept_new_host_keys)
        self.ring = ssh_auth.KeyRing(_load_key)
        self.password = password
        self.max_output_bytes = max_output_bytes
        self.jumps: Jumps[fabric.Connection] = Jumps(lambda target: self.open(target, lambda _: None), end)
        # Without lazy=True fabric would look for configuration files of its own for every connection.
        self._fabric = fabric.Config(lazy=True)
        self._connect_timeout_s = connect_timeout_s
        text = ssh_config.read_config(ssh_config.config_files())
        self._ssh_config: paramiko.SSHConfig | None = None
        if text.replace("Host *", "").strip():
            try:
                self._ssh_config = paramiko.SSHConfig.from_file(StringIO(text))
            except (paramiko.ConfigParseError, ValueError) as error:
                raise ConfigError(f"ssh_config cannot be understood: {error}") from None

    def _lookup(self, host: str) -> ssh_config.Options:
        if self._ssh_config is None:
            return {}
        found = dict(self._ssh_config.lookup(host))
        if found.get("hostname") == host:
            del found["hostname"]
        return found

    def target(self, node: Node) -> Target:
        """Return where a node is and how to log in there."""
        return ssh_config.resolve(node, self._lookup, self._connect_timeout_s)

    def open(self, target: Target, hold: Callable[[socket.socket], None]) -> fabric.Connection:
        """Connect, verify the host key and log in; ``hold`` is given the socket, for whoever must cut it."""
        began = time.monotonic()
        if target.proxy_command:
            raise failed(
                target, FailureKind.ERROR, "ssh_config gives it a ProxyCommand", "use ProxyJump instead"
            )
        # One colon would be host:port to fabric; no host name and no address looks like that.
        if target.host.count(":") == 1 or "@" in target.host:
            raise failed(target, FailureKind.DNS, "its address is no host name", "write the port as 'port:'")
        gateway = self.jumps.acquire(target, target.jump) if target.jump else None
        sock: socket.socket | None = None
        connection: fabric.Connection | None = None
        try:
            sock = None if gateway else tcp.connected(target, hold)
            connection = _Connection(
                target.host,
                user=target.user,
                port=target.port,
                config=self._fabric,
                gateway=gateway,
                forward_agent=False,
                connect_kwargs=self._connect_settings(target, sock),
            )
            connection.client.set_missing_host_key_policy(_HostKeys(self.policy, target))
            connection.open()
            connection.transport.set_keepalive(_KEEPALIVE_S)
        except BaseException as error:
            if connection is not None:
                end(connection)
            if sock is not None:
                sock.close()
            if target.jump:
                self.jumps.release(target.jump)
            if isinstance(error, WIRE_ERRORS):
                raise connect_failure.explain(
                    target,
                    error,
                    time.monotonic() - began,
                    refused_by_jump=isinstance(error, paramiko.ChannelException),
                    incompatible=isinstance(error, IncompatiblePeer),
                ) from None
            raise
        return connection

    def _connect_settings(self, target: Target, sock: socket.socket | None) -> dict[str, Any]:
        name = host_name(target.key_host, target.port)
        # A server that has greeted is alive, and may be slow only because many log in at once.
        patience_s = max(_LOGIN_TIMEOUT_S, target.connect_timeout_s)
        recorded = self.policy.known(target.known_hosts).key_types(name)

        def wire(sock: Any, disabled_algorithms: Any = None) -> _Wire:
            made = _Wire(sock, disabled_algorithms=disabled_algorithms)
            made.handshake_timeout = patience_s
            made.prefer_key_types(recorded)
            return made

        settings: dict[str, Any] = {
            "timeout": target.connect_timeout_s + patience_s,
            "banner_timeout": target.connect_timeout_s,
            "auth_timeout": patience_s,
            "channel_timeout": target.connect_timeout_s,
            "compress": False,
            "transport_factory": wire,
            "auth_strategy": _Login(target, self.ring),
        }
        return {**settings, "sock": sock} if sock is not None else settings

    def close(self) -> None:
        """End the connections to jump hosts."""
        self.jumps.close()


def end(connection: fabric.Connection) -> None:
    """Close a connection and wait for its thread, which paramiko's own close leaves behind for a moment."""
    wire = connection.client.get_transport()
    if wire is not None:
        if isinstance(wire.sock, socket.socket):
            with contextlib.suppress(OSError):
                wire.sock.shutdown(socket.SHUT_RDWR)
        # A handshake cut short leaves its timer behind, which is a thread.
        wire.packetizer.complete_handshake()
    with contextlib.suppress(*WIRE_ERRORS):
        connection.client.close()
    if wire is not None and wire.ident is not None and wire is not threading.current_thread():
        wire.join(_CLOSE_TIMEOUT_S)
