"""Every use of a private member of paramiko, with the reason why paramiko's own behaviour is not enough.

No other module uses a name of paramiko that begins with ``_``, subclasses its classes, or changes the class of its
objects (``tests/contract/test_paramiko_internals.py``). ``pyproject.toml`` bounds paramiko's version from above. An
override for speed stays only if it gains 5 % of wall time or of the controller's CPU; docs/performance-log.md ("What
paramiko's internals are used for") has the measurements.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

if "paramiko" not in sys.modules and "invoke" not in sys.modules:
    modules: dict[str, Any] = sys.modules
    # paramiko needs invoke only for its own reader of ssh_config. Importing invoke takes a tenth of a command's start;
    # None makes the import fail, and paramiko continues without it.
    modules["invoke"] = None
    try:
        import paramiko
    finally:
        del modules["invoke"]
else:
    import paramiko

__all__ = [
    "WIRE_ERRORS",
    "Agent",
    "AgentKey",
    "Client",
    "Garbled",
    "Wire",
    "orderly",
    "paramiko",
    "send_exec",
]

WIRE_ERRORS: tuple[type[Exception], ...] = (EOFError, OSError, paramiko.SSHException)
_CLOSE_TIMEOUT_S = 5.0
_CATCH_UP_TIMEOUT_S = 10.0
_AGENT_TIMEOUT_S = 30.0
# The polling interval of a waiting connection in seconds: during the handshake, and after it. paramiko's is 0.1.
_HANDSHAKE_POLL_S = 1.0
_IDLE_POLL_S = 5.0
_LARGEST_PACKET_BYTES = 256 * 1024
"""As in OpenSSH (PACKET_MAX_SIZE): channels accept 32 KiB at once, and lists of algorithms have a few KiB."""
# paramiko keeps this room free in the largest packet that the server accepts.
_HEAD_BYTES = 64
_SIGNALS = {"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "SEGV": 11, "PIPE": 13,
            "ALRM": 14, "TERM": 15, "USR1": 10, "USR2": 12}  # fmt: skip
# A failure is a value with its own message, so paramiko's log lines are dropped.
_LOG_CHANNEL = "clusterctl.paramiko"
logging.getLogger(_LOG_CHANNEL).setLevel(logging.CRITICAL + 1)
# The stubs omit methods that subclasses override.
_TRANSPORT: Any = paramiko.Transport
_CHANNEL: Any = paramiko.Channel
_PACKETIZER: Any = paramiko.packet.Packetizer
_AGENT: Any = paramiko.agent.AgentSSH


def _ranked(names: tuple[str, ...], first: tuple[str, ...], never: str) -> tuple[str, ...]:
    """Return paramiko's names with ``first`` in front and without those that match ``never``."""
    usable = [name for name in names if not re.search(never, name)]
    return (*(name for name in first if name in usable), *(name for name in usable if name not in first))


_CIPHERS = _ranked(_TRANSPORT._preferred_ciphers, ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com"), "cbc")
_MACS = _ranked(_TRANSPORT._preferred_macs, ("hmac-sha2-256-etm@openssh.com",), "md5|sha1-96")
_KEX = _ranked(_TRANSPORT._preferred_kex, ("mlkem768x25519-sha256", "curve25519-sha256@libssh.org"), "sha1$")


class Packets(_PACKETIZER):  # type: ignore[misc]
    """paramiko's Packetizer, which holds no oversized packet in memory, and leaves deadlines to its caller."""

    def start_handshake(self, timeout: float) -> None:
        """Do nothing: ``Wire.negotiate`` enforces the deadline, and paramiko's timer would delay the process's exit."""

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read a packet's rest; raise SSHException for an oversized packet."""
        if n > _LARGEST_PACKET_BYTES:
            raise paramiko.SSHException(f"it announced a packet of {n} bytes")
        return bytes(super().read_all(n, check_rekey))


class Order:
    """The number of senders on one channel, and the CLOSE that waits for them: nothing is sent after a CLOSE.

    paramiko builds a message under the channel's lock but sends it outside. Data or EOF of one thread can therefore
    follow the CLOSE with which another thread answered the server. OpenSSH then ends the whole connection ("packet
    referred to nonexistent channel"), which may be that of a jump host with every node behind it. Holding a lock while
    sending would block the connection's thread in a key exchange, so the CLOSE waits for the senders instead.
    """

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._sending = 0
        self._close: Callable[[], None] | None = None

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Register as a sender inside the context; the last sender to leave sends a pending CLOSE."""
        with self._lock:
            self._sending += 1
        try:
            yield
        finally:
            with self._lock:
                self._sending -= 1
                close = None
                if self._sending == 0:
                    close, self._close = self._close, None
            if close is not None:
                close()

    def closing(self, close: Callable[[], None]) -> None:
        """Call ``close``, which sends the CLOSE, now or after the last sender has finished."""
        with self._lock:
            now = self._sending == 0
            if not now:
                self._close = close
        if now:
            close()
            return
        # A sender that waits for room in the window must be woken, or it would wait forever.
        with self._channel.lock:
            self._channel.eof_sent = True
            self._channel.out_buffer_cv.notify_all()


class _Channel(paramiko.Channel):
    """A channel that sends nothing after its CLOSE; ``orderly`` converts paramiko's own."""

    order: Order
    widest_bytes = 0
    """The most room that the window has had; OpenSSH opens a session's window with the command."""
    wanted_bytes = 1
    """The room in the window at which the writer is woken."""

    def sendall(self, data: bytes | bytearray) -> None:
        """Send all of the data, waiting for room in the window; raise OSError if the channel closes before.

        paramiko's own copies the remaining data after every packet, which takes minutes for 50 MB, and wakes for any
        room in the window. This one waits for a quarter of the window, while three quarters are in transit.
        """
        done, packet_bytes = 0, self.out_max_packet_size - _HEAD_BYTES
        while done < len(data):
            end = done + self._room(len(data) - done)
            while done < end:
                sent = self.send(data[done : min(done + packet_bytes, end)])
                if sent == 0:
                    raise OSError("the channel is closed")
                done += sent

    def _room(self, most: int) -> int:
        """Wait for room in the window and return the number of bytes to send."""
        with self.lock:
            while not (self.closed or self.eof_sent):
                self.widest_bytes = max(self.widest_bytes, self.out_window_size)
                worth = min(most, max(1, self.widest_bytes // 4))
                if self.out_window_size >= worth:
                    self.wanted_bytes = 1
                    return worth
                self.wanted_bytes = worth
                self.out_buffer_cv.wait()
            raise OSError("the channel is closed")

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
    """Convert a channel just opened into one that keeps the order of its messages, and return it."""
    # paramiko offers no way to choose the class of its channels.
    channel.__class__ = _Channel
    channel.order = Order(channel)
    return channel


class Garbled(paramiko.SSHException):
    """A server sent data that is not SSH, or the network altered the data."""


_FREEING_S = (0.02, 0.05, 0.1, 0.2)


class Wire(paramiko.Transport):
    """paramiko's Transport with fast algorithms first, a deadline on the handshake, and exits by signal reported."""

    def __init__(self, sock: Any, recorded: tuple[str, ...] = ()) -> None:
        super().__init__(sock, packetizer_class=Packets)
        self.raw = sock
        self.sock.settimeout(_HANDSHAKE_POLL_S)
        self.set_log_channel(_LOG_CHANNEL)
        offered = self.get_security_options()
        offered.ciphers, offered.digests, offered.kex = _CIPHERS, _MACS, _KEX
        # Prefer the key types that known_hosts has for the server.
        names = [n for t in recorded for n in (("rsa-sha2-512", "rsa-sha2-256") if t == "ssh-rsa" else (t,))]
        offered.key_types = tuple(
            sorted(offered.key_types, key=lambda n: names.index(n) if n in names else len(names))
        )

    def get_exception(self) -> Exception | None:
        """Return the error that ended the connection; paramiko calls this wherever it raises its thread's error.

        A server that sends data other than SSH can cause any error: text that is not UTF-8 (UnicodeDecodeError), an
        unknown message (KeyError), a packet altered on the way (InvalidTag). Such an error becomes ``Garbled``, so
        that only this node fails and not the run.
        """
        error: Exception | None = super().get_exception()
        if error is None or isinstance(error, WIRE_ERRORS):
            return error
        return Garbled(f"received malformed data ({type(error).__name__})")

    def open_session(
        self,
        window_size: int | None = None,
        max_packet_size: int | None = None,
        timeout: float | None = None,
    ) -> paramiko.Channel:
        """Open a channel for a command; retry for a moment if the server refuses it.

        A server that allows one command at a time (``MaxSessions 1``) frees its place a little after the end of the
        command before.
        """
        for pause_s in _FREEING_S:
            try:
                return super().open_session(window_size, max_packet_size, timeout)
            except paramiko.ChannelException:
                time.sleep(pause_s)
        return super().open_session(window_size, max_packet_size, timeout)

    def run(self) -> None:
        """Run the connection's thread; closing the socket may fail if a jump host has disappeared."""
        with contextlib.suppress(*WIRE_ERRORS):
            super().run()

    def negotiate(self, greeting_s: float, timeout_s: float) -> None:
        """Exchange greetings and keys; raise TimeoutError after these seconds, which begin with the call.

        Unlike paramiko's own calls, this one and ``log_in`` sleep until an event. Polling ten times a second would
        dominate the cost of hundreds of connections. paramiko's own limit starts again with each line of a greeting.
        """
        done = threading.Event()
        self.start_client(event=done)
        if not done.wait(greeting_s) and not self.remote_version:
            raise TimeoutError("banner")
        if not done.wait(timeout_s - greeting_s):
            raise TimeoutError("key exchange")
        if not (self.is_active() and self.initial_kex_done):
            raise self.get_exception() or paramiko.SSHException("Negotiation failed.")

    def log_in(self, user: str, key: Any, timeout_s: float) -> list[str]:
        """Offer a key; return the further methods that the server requires. Raises as paramiko's auth_publickey."""
        done = threading.Event()
        try:
            self.auth_publickey(user, key, done)
        except paramiko.SSHException as error:
            # paramiko reports only that the connection has ended since the key exchange; prefer the cause.
            raise self.get_exception() or error from None
        if not done.wait(timeout_s):
            raise TimeoutError("authentication")
        assert self.auth_handler is not None
        return list(self.auth_handler.wait_for_response(done))

    def settle(self, keepalive_s: int) -> None:
        """Switch to a longer polling interval and keepalives after the login, so that idle connections cost little."""
        self.sock.settimeout(_IDLE_POLL_S)
        self.set_keepalive(keepalive_s)

    def catch_up(self) -> None:
        """Return once all data has arrived that the server has to send now, or after some seconds without an answer.

        The request is sent twice, because OpenSSH answers before it sends the output that it has just read.
        """
        for _ in range(2):
            self.completion_event = threading.Event()
            message = paramiko.Message()
            message.add_byte(paramiko.common.cMSG_GLOBAL_REQUEST)
            message.add_string("keepalive@openssh.com")
            message.add_boolean(True)
            wire: Any = self
            wire._send_user_message(message)
            self.completion_event.wait(_CATCH_UP_TIMEOUT_S)

    def way_to(self, host: str, port: int, timeout_s: float) -> Any:
        """Return a channel to a server behind this one (RFC 4254 7.2)."""
        return orderly(self.open_channel("direct-tcpip", (host, port), ("", 0), timeout=timeout_s))

    def end(self) -> None:
        """Close the connection and wait for its thread.

        The thread ends before the socket is closed. Otherwise another node's connection may reuse the socket's number,
        and the old thread would read that connection's data (paramiko#520).
        """
        if isinstance(self.raw, socket.socket):
            with contextlib.suppress(OSError):
                self.raw.shutdown(socket.SHUT_RDWR)
            self._await_thread()
        with contextlib.suppress(*WIRE_ERRORS):
            self.close()
        with contextlib.suppress(*WIRE_ERRORS):
            self.raw.close()
        self._await_thread()

    def _await_thread(self) -> None:
        if self.ident is not None and self is not threading.current_thread():
            self.join(_CLOSE_TIMEOUT_S)

    @staticmethod
    def _channel_request(channel: Any, message: Any) -> None:
        """Handle a channel request, and note an exit by signal (RFC 4254 6.10), unknown to paramiko."""
        start = message.packet.tell()
        if message.get_text() == "exit-signal":
            message.get_boolean()
            # As in a shell, the status is 128 + the signal's number; the message contains the signal's name.
            channel.exit_status = 128 + _SIGNALS.get(message.get_text(), 0)
            channel.status_event.set()
        else:
            message.packet.seek(start)
            _CHANNEL._handle_request(channel, message)
        wake = getattr(channel, "wake", None)
        if wake is not None:
            wake.set()

    @staticmethod
    def _channel_close(channel: Any, message: Any) -> None:
        def answer() -> None:
            _CHANNEL._handle_close(channel, message)

        if isinstance(channel, _Channel):
            channel.order.closing(answer)
        else:
            answer()

    @staticmethod
    def _channel_window(channel: Any, message: Any) -> None:
        """Handle more room in the window (RFC 4254 5.2)."""
        with channel.lock:
            channel.out_window_size += message.get_int()
            if channel.out_window_size >= getattr(channel, "wanted_bytes", 1):
                channel.out_buffer_cv.notify_all()

    _channel_handler_table = {  # noqa: RUF012 - paramiko's own shape
        **_TRANSPORT._channel_handler_table,
        paramiko.common.MSG_CHANNEL_WINDOW_ADJUST: _channel_window,
        paramiko.common.MSG_CHANNEL_REQUEST: _channel_request,
        paramiko.common.MSG_CHANNEL_CLOSE: _channel_close,
    }


def send_exec(channel: Any, line: str) -> None:
    """Send a command; unlike paramiko's own call, do not wait without a limit for the server's reply."""
    message = paramiko.Message()
    message.add_byte(paramiko.common.cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("exec")
    message.add_boolean(False)
    message.add_string(line)
    channel.transport._send_user_message(message)


class AgentKey(paramiko.AgentKey):
    """A key of an agent that may decline to sign: locked, not confirmed by the user, or on a missing token."""

    declined = False

    def sign_ssh_data(self, data: Any, algorithm: str | None = None) -> Any:
        """Return the agent's signature, or an empty one that every server rejects.

        An exception would end the connection, and the following keys would not be tried.
        """
        try:
            return super().sign_ssh_data(data, algorithm)
        except (OSError, paramiko.SSHException):
            self.declined = True
        nothing = paramiko.Message()
        nothing.add_string(algorithm or self.get_name())
        nothing.add_string(b"")
        return nothing.asbytes()


class Agent(paramiko.Agent):
    """The agent at a socket; raises OSError, SSHException or ValueError if it does not answer.

    paramiko's own supports only $SSH_AUTH_SOCK, and waits for it without a limit.
    """

    def __init__(self, path: str) -> None:
        _AGENT.__init__(self)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_AGENT_TIMEOUT_S)
        try:
            connection.connect(path)
            _AGENT._connect(self, connection)
        except BaseException:
            connection.close()
            raise

    def get_keys(self) -> tuple[Any, ...]:
        """Return the agent's keys."""
        return tuple(AgentKey(self, key.blob, key.comment) for key in super().get_keys())


class Client(paramiko.SSHClient):
    """paramiko's client over a connection that was logged in elsewhere; fabric opens and closes it."""

    _transport: paramiko.Transport | None

    def use(self, wire: Wire | None) -> None:
        """Use a connection; None: be closed."""
        self._transport = wire
