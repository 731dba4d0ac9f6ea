"""Extend paramiko's Transport for lower cost and ordered messages: algorithms, handshake, reads, channels.

Only this module, ``ssh``, ``ssh_login`` and ``ssh_packets`` use paramiko.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from typing import Any

from clusterctl.transport.lean_paramiko import paramiko
from clusterctl.transport.ssh_order import Order
from clusterctl.transport.ssh_packets import Packets, ReadAhead

WIRE_ERRORS: tuple[type[Exception], ...] = (EOFError, OSError, paramiko.SSHException)

_CLOSE_TIMEOUT_S = 5.0
_CATCH_UP_TIMEOUT_S = 10.0
# paramiko keeps this room free in the largest packet that the server accepts.
_HEAD_BYTES = 64
_GATHERED_PACKETS = 8
# The stubs omit methods that subclasses override.
_BASE: Any = paramiko.Transport
_BASE_CHANNEL: Any = paramiko.Channel


def _ranked(names: tuple[str, ...], first: tuple[str, ...], never: str) -> tuple[str, ...]:
    """Return paramiko's names with ``first`` in front and without those that match ``never``."""
    usable = [name for name in names if not re.search(never, name)]
    return (*(name for name in first if name in usable), *(name for name in usable if name not in first))


class _Data:
    """The message with a channel's data (RFC 4254 5.2), which copies the data once."""

    _HEAD = struct.Struct(">BII")

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._data: Any = b""

    def add_string(self, data: Any) -> None:
        """Store the data; called by paramiko's channel."""
        self._data = data

    def asbytes(self) -> bytes:
        """Return the message; called by paramiko's packetizer."""
        head = self._HEAD.pack(paramiko.common.MSG_CHANNEL_DATA, self._channel, len(self._data))
        return b"".join((head, self._data))


class _Channel(paramiko.Channel):
    """A channel that sends nothing after its CLOSE, and sends packets together; ``orderly`` converts paramiko's own."""

    order: Order
    widest_bytes = 0
    """The most room that the window has had; OpenSSH opens a session's window with the command."""
    wanted_bytes = 1
    """The room in the window at which the writer is woken."""

    def sendall(self, data: bytes | bytearray) -> None:
        """Send all of the data, waiting for room in the window; raise OSError if the channel closes before.

        paramiko's own copies the remaining data after every packet, makes a system call per packet, and wakes for any
        room in the window. This one waits for a quarter of the window, while three quarters are in transit.
        """
        wire: Any = self.transport
        # A memoryview of a mapped file would prevent closing the file, so only bytes are viewed.
        left = memoryview(data) if isinstance(data, bytes) else data
        done, packet_bytes = 0, self.out_max_packet_size - _HEAD_BYTES
        while done < len(data):
            end = done + self._room(min(_GATHERED_PACKETS * packet_bytes, len(data) - done))
            with wire.packetizer.gathered():
                while done < end:
                    sent = self._send(left[done : min(done + packet_bytes, end)], _Data(self.remote_chanid))
                    if sent == 0:
                        raise OSError("the channel is closed")
                    done += sent

    def _room(self, most: int) -> int:
        """Wait for room in the window and return the number of bytes to send at once."""
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

    def _send(self, data: bytes | bytearray | memoryview, message: Any) -> int:
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


class Wire(paramiko.Transport):
    """paramiko's Transport with fast algorithms first, a deadline on the handshake, and exits by signal reported."""

    _preferred_ciphers = _ranked(
        _BASE._preferred_ciphers,
        ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com"),
        "cbc",
    )
    _preferred_macs = _ranked(_BASE._preferred_macs, ("hmac-sha2-256-etm@openssh.com",), "md5|sha1-96")
    _preferred_kex = _ranked(
        _BASE._preferred_kex, ("mlkem768x25519-sha256", "curve25519-sha256@libssh.org"), "sha1$"
    )
    # paramiko computes these again at each of fifteen uses.
    preferred_ciphers = _preferred_ciphers
    preferred_macs = _preferred_macs
    preferred_kex = _preferred_kex

    _preferred_keys: tuple[str, ...] = _BASE._preferred_keys
    # The polling interval of a waiting connection in seconds: during the handshake, and after it.
    _active_check_timeout = 1.0
    _idle_check_timeout_s = 5.0

    def __init__(self, sock: Any, recorded: tuple[str, ...] = ()) -> None:
        super().__init__(ReadAhead(sock), packetizer_class=Packets)  # type: ignore[arg-type]
        self.raw = sock
        # Prefer the key types that known_hosts has for the server.
        names = [n for t in recorded for n in (("rsa-sha2-512", "rsa-sha2-256") if t == "ssh-rsa" else (t,))]
        self._preferred_keys = tuple(
            sorted(self._preferred_keys, key=lambda n: names.index(n) if n in names else len(names))
        )

    def _log(self, level: int, msg: Any, *args: Any) -> None:
        """Log nothing: a failure is a value with its own message."""

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

    def _parse_debug(self, message: Any) -> None:
        """Ignore debug messages of the server, which paramiko would parse byte by byte."""

    def run(self) -> None:
        """Run the connection's thread; closing the socket may fail if a jump host has disappeared."""
        with contextlib.suppress(*WIRE_ERRORS):
            super().run()

    def negotiate(self, timeout_s: float) -> None:
        """Exchange greetings and keys; raise TimeoutError after ``timeout_s`` seconds.

        Unlike paramiko's own calls, this one and ``log_in`` sleep until an event. Polling ten times a second would
        dominate the cost of hundreds of connections.
        """
        done = threading.Event()
        self.start_client(event=done)
        if not done.wait(timeout_s):
            raise TimeoutError("key exchange" if self.remote_version else "banner")
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
        self.sock.settimeout(self._idle_check_timeout_s)
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

    @staticmethod
    def _channel_window(channel: Any, message: Any) -> None:
        """Handle more room in the window (RFC 4254 5.2)."""
        with channel.lock:
            channel.out_window_size += message.get_int()
            if channel.out_window_size >= getattr(channel, "wanted_bytes", 1):
                channel.out_buffer_cv.notify_all()

    _channel_handler_table = {  # noqa: RUF012 - paramiko's own shape
        **_BASE._channel_handler_table,
        paramiko.common.MSG_CHANNEL_WINDOW_ADJUST: _channel_window,
        paramiko.common.MSG_CHANNEL_REQUEST: _channel_request,
        paramiko.common.MSG_CHANNEL_CLOSE: _channel_close,
    }


_SIGNALS = {"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "SEGV": 11, "PIPE": 13,
            "ALRM": 14, "TERM": 15, "USR1": 10, "USR2": 12}  # fmt: skip


def send_exec(channel: Any, line: str) -> None:
    """Send a command; unlike paramiko's own call, do not wait without a limit for the server's reply."""
    message = paramiko.Message()
    message.add_byte(paramiko.common.cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("exec")
    message.add_boolean(False)
    message.add_string(line)
    channel.transport._send_user_message(message)
