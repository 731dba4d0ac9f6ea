"""SSH, and the only module that imports fabric and paramiko: one connection per node, opened when needed."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from io import StringIO
from typing import Any

import fabric
import paramiko
from paramiko import common as codes
from paramiko.pkey import UnknownKeyType
from paramiko.ssh_exception import IncompatiblePeer

from clusterctl.errors import ConfigError
from clusterctl.inventory.model import Become, Node
from clusterctl.transport import connect_failure, file_scripts, ssh_auth, ssh_channel, ssh_config, tcp
from clusterctl.transport.base import Completed, FailureKind, TransportError
from clusterctl.transport.command import checked_argv, for_login_shell, shell_text
from clusterctl.transport.connect_failure import failed
from clusterctl.transport.exchange import MAX_OUTPUT_BYTES, Exchange, token
from clusterctl.transport.host_keys import HostKeyPolicy, ShownKey
from clusterctl.transport.known_hosts import host_name
from clusterctl.transport.ssh_config import Target
from clusterctl.transport.ssh_jumps import Jumps
from clusterctl.transport.sudo import SudoPassword, as_root_text

# paramiko logs tracebacks of every failed connection; a failure is a value here, and says why itself.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_KEEPALIVE_S = 30


def _ranked(names: tuple[str, ...], first: tuple[str, ...], never: str) -> tuple[str, ...]:
    """Return the names paramiko offers with ours in front and the weak ones left out."""
    usable = [name for name in names if not re.search(never, name)]
    return (*(name for name in first if name in usable), *(name for name in usable if name not in first))


# The stubs leave out what subclasses are meant to override.
_BASE: Any = paramiko.Transport


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

    def start_client(self, event: threading.Event | None = None, timeout: float | None = None) -> None:
        """Negotiate; unlike paramiko's, raise TimeoutError when the time runs out."""
        super().start_client(event=event, timeout=timeout)
        if event is None and not self.initial_kex_done:
            raise TimeoutError("key exchange")

    @staticmethod
    def _channel_request(channel: Any, message: Any) -> None:
        """Handle a channel request, and note an exit by signal, which paramiko passes over (RFC 4254 6.10)."""
        start = message.packet.tell()
        if message.get_text() == "exit-signal":
            message.get_boolean()
            # As a shell shows it: 128 + the signal's number, which the message gives by name.
            channel.exit_status = 128 + _SIGNALS.get(message.get_text(), 0)
            channel.status_event.set()
        else:
            message.packet.seek(start)
            paramiko.Channel._handle_request(channel, message)  # type: ignore[attr-defined]
        wake = getattr(channel, "wake", None)
        if wake is not None:
            wake.set()

    _channel_handler_table = {  # noqa: RUF012 - paramiko's own shape
        **_BASE._channel_handler_table,
        codes.MSG_CHANNEL_REQUEST: _channel_request,
    }


_SIGNALS = {"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "SEGV": 11, "PIPE": 13,
            "ALRM": 14, "TERM": 15, "USR1": 10, "USR2": 12}  # fmt: skip


class _HostKeys(paramiko.MissingHostKeyPolicy):
    """Hands every server's key to our policy: paramiko is given no host keys, so that all of them are missing."""

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


def _send_signal(channel: Any, name: str) -> None:
    message = paramiko.Message()
    message.add_byte(codes.cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("signal")
    message.add_boolean(False)
    message.add_string(name)
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
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
        self.jumps: Jumps[fabric.Connection] = Jumps(lambda target: self.open(target, lambda _: None), _end)
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

    def transport(self, node: Node) -> SshTransport:
        """Return the way to one node; nothing is contacted yet."""
        return SshTransport(self, node, ssh_config.resolve(node, self._lookup, self._connect_timeout_s))

    def open(self, target: Target, hold: Callable[[socket.socket], None]) -> fabric.Connection:
        """Connect, verify the host key and log in; ``hold`` is given the socket, for whoever must cut it."""
        began = time.monotonic()
        if target.proxy_command:
            raise failed(
                target, FailureKind.ERROR, "ssh_config gives it a ProxyCommand", "use ProxyJump instead"
            )
        gateway = self.jumps.acquire(target, target.jump) if target.jump else None
        sock: socket.socket | None = None
        connection: fabric.Connection | None = None
        try:
            sock = None if gateway else tcp.connected(target, hold)
            connection = fabric.Connection(
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
                connection.client.close()
            if sock is not None:
                sock.close()
            if target.jump:
                self.jumps.release(target.jump)
            if isinstance(error, (OSError, EOFError, paramiko.SSHException)):
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
        recorded = self.policy.known(target.known_hosts).key_types(name)

        def wire(sock: Any, disabled_algorithms: Any = None) -> _Wire:
            made = _Wire(sock, disabled_algorithms=disabled_algorithms)
            made.handshake_timeout = target.connect_timeout_s
            made.prefer_key_types(recorded)
            return made

        settings: dict[str, Any] = {
            "timeout": target.connect_timeout_s,
            "banner_timeout": target.connect_timeout_s,
            "auth_timeout": max(30.0, target.connect_timeout_s),
            "channel_timeout": target.connect_timeout_s,
            "compress": False,
            "transport_factory": wire,
            "auth_strategy": _Login(target, self.ring),
        }
        return {**settings, "sock": sock} if sock is not None else settings

    def close(self) -> None:
        """End the connections to jump hosts."""
        self.jumps.close()


class SshTransport:
    """The Transport of a node over SSH. One command at a time; ``close`` may come from any thread."""

    def __init__(self, session: SshSession, node: Node, target: Target) -> None:
        self._session = session
        self._node = node
        self._target = target
        self._lock = threading.Lock()
        self._connection: fabric.Connection | None = None
        self._socket: socket.socket | None = None
        self._closed = False

    @property
    def node(self) -> str:
        return self._node.name

    def _hold(self, sock: socket.socket) -> None:
        with self._lock:
            self._socket = sock
            if self._closed:
                raise self._cut_off()

    def _cut_off(self) -> TransportError:
        return failed(self._target, FailureKind.LOST, "the run was cut off", None)

    def _wire(self) -> Any:
        """Return the open connection's transport, opening it when there is none (any more)."""
        with self._lock:
            if self._closed:
                raise self._cut_off()
            connection = self._connection
        if connection is not None and connection.is_connected:
            return connection.transport
        self._drop()
        try:
            connection = self._session.open(self._target, self._hold)
        except TransportError:
            if self._closed:
                raise self._cut_off() from None
            raise
        with self._lock:
            self._connection = connection
            closed = self._closed
        if closed:
            self._drop()
            raise self._cut_off()
        return connection.transport

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        as_root: bool = False,
        env: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Completed:
        """Run one command to its end; see ``Transport.run``. The deadline counts from when it is sent."""
        target, session, become = self._target, self._session, self._node.become
        marker = token()
        text = shell_text(checked_argv(argv, env), marker=marker, timeout_s=timeout_s)
        needs_sudo = as_root and (target.user != "root" or become is Become.SUDO)
        prompt = token() if needs_sudo and session.password.available else None
        if as_root:
            text = as_root_text(text, become=become, user=target.user, prompt=prompt)
        line = for_login_shell(text)
        wire = self._wire()
        exchange = Exchange(
            target.where,
            argv,
            stdin=stdin,
            timeout_s=timeout_s,
            on_line=on_line,
            marker=marker,
            prompt=prompt,
            password=session.password,
            may_need_sudo=needs_sudo,
            max_output_bytes=session.max_output_bytes,
        )
        try:
            channel = wire.open_session(timeout=target.connect_timeout_s)
            status = ssh_channel.converse(channel, line, exchange, _send_signal)
        except (ssh_channel.ChannelClosed, EOFError, OSError, paramiko.SSHException) as error:
            if self._closed:
                raise self._cut_off() from None
            raise self._lost(wire, argv, error) from None
        finally:
            exchange.close()
        return exchange.completed(status)

    def _lost(self, wire: Any, argv: tuple[str, ...], error: Exception) -> TransportError:
        if wire.is_active():
            reason = str(error) or "the channel was closed without a status"
            return failed(
                self._target,
                FailureKind.PROTOCOL,
                f"the server refused the command: {reason}",
                "see its sshd's log",
            )
        self._drop()
        return failed(
            self._target,
            FailureKind.LOST,
            f"the connection was lost while {argv[0]} ran",
            "look whether the node is up; what had begun there may be half done",
        )

    def put(self, data: bytes, path: str, *, mode: int = 0o644, as_root: bool = False) -> None:
        """Write a file whole or not at all; raise CommandError when it cannot be written."""
        done = self.run(file_scripts.put_argv(path, mode, len(data)), stdin=data, as_root=as_root)
        file_scripts.require(done, self.node, "written", path)

    def get(self, path: str, *, as_root: bool = False) -> bytes:
        """Return a file's bytes; raise CommandError when it cannot be read."""
        return file_scripts.require(
            self.run(file_scripts.get_argv(path), as_root=as_root), self.node, "read", path
        )

    def close(self) -> None:
        """End the connection, also while another thread is connecting or waiting for a command."""
        with self._lock:
            self._closed = True
            sock = self._socket
        if sock is not None:
            # A reader wakes at once, where paramiko's own close would wait for its next look.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._drop()

    def _drop(self) -> None:
        with self._lock:
            connection, self._connection, self._socket = self._connection, None, None
        if connection is not None:
            _end(connection)
            if self._target.jump:
                self._session.jumps.release(self._target.jump)


def _end(connection: fabric.Connection) -> None:
    connection.client.close()
