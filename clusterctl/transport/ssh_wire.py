"""One SSH connection as paramiko keeps it, made cheap and orderly: algorithms, handshake, reads, channels.

Beside ``ssh``, ``ssh_login`` and ``ssh_packets`` the only module that uses paramiko.
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
# What paramiko leaves free in the largest packet that the server takes.
_HEAD_BYTES = 64
_GATHERED_PACKETS = 8
# The stubs leave out what subclasses are meant to override.
_BASE: Any = paramiko.Transport
_BASE_CHANNEL: Any = paramiko.Channel


def _ranked(names: tuple[str, ...], first: tuple[str, ...], never: str) -> tuple[str, ...]:
    """Return the names paramiko offers with ours in front and the weak ones left out."""
    usable = [name for name in names if not re.search(never, name)]
    return (*(name for name in first if name in usable), *(name for name in usable if name not in first))


class _Data:
    """The message that carries a channel's data (RFC 4254 5.2), copied once."""

    _HEAD = struct.Struct(">BII")

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._data: Any = b""

    def add_string(self, data: Any) -> None:
        """Take the data; called by paramiko's channel."""
        self._data = data

    def asbytes(self) -> bytes:
        """Return the message; called by paramiko's packetizer."""
        head = self._HEAD.pack(paramiko.common.MSG_CHANNEL_DATA, self._channel, len(self._data))
        return b"".join((head, self._data))


class _Channel(paramiko.Channel):
    """A channel that sends nothing after its CLOSE, and much at once; paramiko's own become one by ``orderly``."""

    order: Order
    widest_bytes = 0
    """The most room that the window had; OpenSSH gives a session its window with the command."""
    wanted_bytes = 1
    """How much room is worth waking the writer for."""

    def sendall(self, data: bytes | bytearray) -> None:
        """Send all of the data, waiting for room in the window; raise OSError when the channel closes before.

        paramiko's own copies what is left after every packet, makes a system call of each, and wakes for every piece
        of room. While this one waits for more of it, three quarters of the window are on their way.
        """
        wire: Any = self.transport
        # No view of a file that is mapped: until the last one is gone, it could not be closed.
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
        """Return how much to send at once, as soon as there is room for it."""
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
    """Return a channel just opened as one that keeps the order of its messages."""
    # paramiko leaves no way to choose the class of the channels it makes.
    channel.__class__ = _Channel
    channel.order = Order(channel)
    return channel


class Garbled(paramiko.SSHException):
    """A server sent what is no SSH, or the way altered it."""


class Wire(paramiko.Transport):
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
    # paramiko works these out again at each of the fifteen places that ask.
    preferred_ciphers = _preferred_ciphers
    preferred_macs = _preferred_macs
    preferred_kex = _preferred_kex

    _preferred_keys: tuple[str, ...] = _BASE._preferred_keys
    # How often a connection looks at the clock while it waits: during the handshake, and after it.
    _active_check_timeout = 1.0
    _idle_check_timeout_s = 5.0

    def __init__(self, sock: Any, recorded: tuple[str, ...] = ()) -> None:
        super().__init__(ReadAhead(sock), packetizer_class=Packets)  # type: ignore[arg-type]
        self.raw = sock
        # Ask the server for a key of a type that known_hosts has of it.
        names = [n for t in recorded for n in (("rsa-sha2-512", "rsa-sha2-256") if t == "ssh-rsa" else (t,))]
        self._preferred_keys = tuple(
            sorted(self._preferred_keys, key=lambda n: names.index(n) if n in names else len(names))
        )

    def _log(self, level: int, msg: Any, *args: Any) -> None:
        """Say nothing: a failure is a value here, and tells its reason itself."""

    def get_exception(self) -> Exception | None:
        """Return what ended the connection; asked for by paramiko wherever it raises what its thread ran into.

        That may be anything where a server sends what is no SSH: a word that is no UTF-8 (UnicodeDecodeError), a
        message that nobody knows (KeyError), a packet that was altered on the way (InvalidTag). It is that node's
        failure, and no bug that ends the run.
        """
        error: Exception | None = super().get_exception()
        if error is None or isinstance(error, WIRE_ERRORS):
            return error
        return Garbled(f"what came cannot be understood ({type(error).__name__})")

    def _parse_debug(self, message: Any) -> None:
        """Pass over what the server tells its developers; paramiko would take it apart byte by byte."""

    def run(self) -> None:
        """Be the connection's thread; behind a jump host that is gone, closing the socket fails as well."""
        with contextlib.suppress(*WIRE_ERRORS):
            super().run()

    def negotiate(self, timeout_s: float) -> None:
        """Exchange greetings and keys; raise TimeoutError when the time runs out.

        Unlike paramiko's own call (and those of ``log_in``) it sleeps until something happens, and does not look
        ten times a second: that of hundreds of connections is a good part of all work.
        """
        done = threading.Event()
        self.start_client(event=done)
        if not done.wait(timeout_s):
            raise TimeoutError("key exchange" if self.remote_version else "banner")
        if not (self.is_active() and self.initial_kex_done):
            raise self.get_exception() or paramiko.SSHException("Negotiation failed.")

    def log_in(self, user: str, key: Any, timeout_s: float) -> list[str]:
        """Show a key; return what the server asks for beside it. Raises what paramiko's auth_publickey raises."""
        done = threading.Event()
        try:
            self.auth_publickey(user, key, done)
        except paramiko.SSHException as error:
            # The connection has ended since its keys were exchanged, which is all that paramiko says of it here.
            raise self.get_exception() or error from None
        if not done.wait(timeout_s):
            raise TimeoutError("authentication")
        assert self.auth_handler is not None
        return list(self.auth_handler.wait_for_response(done))

    def settle(self, keepalive_s: int) -> None:
        """Say that the login is over: from here on an idle connection costs next to nothing."""
        self.sock.settimeout(self._idle_check_timeout_s)
        self.set_keepalive(keepalive_s)

    def catch_up(self) -> None:
        """Return once all has arrived that the server had to send by now; after some seconds without an answer as well.

        It is asked twice, because OpenSSH answers before it sends on what it has just read of a command's output.
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

        The thread ends before the socket is closed: the socket's number may belong to another node's connection a
        moment later, and a thread that was about to read would wait on that one (paramiko#520), and may rob it.
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
    """Ask for a command; unlike paramiko's own call, do not wait for the server's word without a limit."""
    message = paramiko.Message()
    message.add_byte(paramiko.common.cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("exec")
    message.add_boolean(False)
    message.add_string(line)
    channel.transport._send_user_message(message)
