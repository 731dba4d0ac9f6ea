"""Run one command on one SSH channel: one thread reads both streams, sends the input and enforces the deadline.

Works on paramiko's Channel without importing paramiko; see ``paramiko_internals``.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Protocol

from clusterctl.transport.exchange import Exchange

_CHUNK_BYTES = 131072
_INLINE_INPUT_BYTES = 65536
# A packet has at most 32 KiB and the window 2 MiB, so the server never waits for the reader.
_PACKETS_PER_LOOK = 16
# Background children of a finished command may hold its output open; OpenSSH would wait for them.
_LINGER_S = 1.0


class Pipe(Protocol):
    """The buffer of one stream of a channel."""

    def set_event(self, event: Arrivals) -> None: ...


class Channel(Protocol):
    """The part of paramiko's Channel that is used here."""

    in_buffer: Pipe
    in_stderr_buffer: Pipe
    closed: bool
    eof_received: bool
    out_window_size: int
    exit_status: int
    status_event: threading.Event
    wake: Wake

    def recv_ready(self) -> bool: ...
    def recv(self, size: int) -> bytes: ...
    def recv_stderr_ready(self) -> bool: ...
    def recv_stderr(self, size: int) -> bytes: ...
    def sendall(self, data: bytes) -> None: ...
    def shutdown_write(self) -> None: ...
    def close(self) -> None: ...


class Wake:
    """The event that a channel's reader sleeps on; its streams and its end set it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Wake the reader."""
        self._event.set()

    def wait(self, timeout_s: float) -> None:
        """Sleep until the event is set, at most ``timeout_s`` seconds."""
        self._event.wait(timeout_s)

    def rearm(self) -> None:
        """Clear the event; call before reading the streams."""
        self._event.clear()


class Arrivals:
    """Replaces the Event of a channel's stream, and wakes the reader only if that is worthwhile.

    A probe writes hundreds of small pieces, and each wake-up is a switch of threads. Unless the output is followed
    line by line, the reader sleeps until enough data for the window, or all data, has arrived.
    """

    def __init__(self, channel: Channel, wake: Wake) -> None:
        self._channel = channel
        self._wake = wake
        self._unseen = 0
        self.eager = True

    def set(self) -> None:
        """Handle a packet or the end of the stream; called by paramiko with the stream's lock held."""
        self._unseen += 1
        if (
            self.eager
            or self._unseen >= _PACKETS_PER_LOOK
            or self._channel.eof_received
            or self._channel.closed
        ):
            self._unseen = 0
            self._wake.set()

    def clear(self) -> None:
        """Do nothing, because an empty stream must not hide data of the other one."""


class ChannelClosed(Exception):
    """The channel ended without an exit status: the connection was lost."""


def converse(
    channel: Channel,
    exchange: Exchange,
    end_command: Callable[[int], None],
    catch_up: Callable[[], None],
) -> int:
    """Follow a command that was just sent to its end and return its exit status.

    ``end_command`` is called with the command's process ID on the node if the command must be ended early.
    ``catch_up`` returns once all data has arrived that the server had to send at the time of the call.
    Raises ChannelClosed if the connection ends first; an exception of ``exchange`` ends the command.
    """
    wake = Wake()
    channel.wake = wake
    streams = Arrivals(channel, wake), Arrivals(channel, wake)
    channel.in_buffer.set_event(streams[0])
    channel.in_stderr_buffer.set_event(streams[1])
    writer: threading.Thread | None = None
    ended_at: float | None = None
    try:
        while True:
            wake.rearm()
            for stream in streams:
                # Set before the streams are read, so that later data wakes the reader.
                stream.eager = exchange.attentive or channel.status_event.is_set()
            _drain(channel, exchange)
            exchange.check()
            data, ends = exchange.take_input()
            if data or ends:
                writer = _send(channel, data, ends)
            if channel.eof_received and channel.status_event.is_set() and not _readable(channel):
                break
            if channel.closed and not _readable(channel):
                break
            if channel.status_event.is_set():
                ended_at = ended_at or time.monotonic()
                if time.monotonic() - ended_at > _LINGER_S and not _readable(channel):
                    # On a busy machine the output may arrive seconds after the status.
                    catch_up()
                    if not _readable(channel) and not channel.eof_received:
                        break
                    ended_at = time.monotonic()
            wake.wait(min(exchange.wait_s, _LINGER_S if ended_at else 60.0))
    except BaseException:
        if exchange.pid is not None and not channel.closed and not channel.status_event.is_set():
            end_command(exchange.pid)
        raise
    finally:
        channel.close()
        if writer is not None:
            writer.join(5.0)
    if channel.exit_status < 0:
        raise ChannelClosed
    return channel.exit_status


def _readable(channel: Channel) -> bool:
    return channel.recv_ready() or channel.recv_stderr_ready()


def _drain(channel: Channel, exchange: Exchange) -> None:
    """Take the data that has arrived, checking the limits after each chunk so that a flood cannot exceed them."""
    for ready, receive, feed in (
        (channel.recv_stderr_ready, channel.recv_stderr, exchange.feed_stderr),
        (channel.recv_ready, channel.recv, exchange.feed_stdout),
    ):
        while ready():
            feed(receive(_CHUNK_BYTES))
            exchange.check()


def _send(channel: Channel, data: bytes, ends: bool) -> threading.Thread | None:
    """Send input; use a thread if it may exceed the window, because both ends could wait for each other."""

    def write() -> None:
        # The reader detects a lost connection and a command that ends without reading all its input.
        with contextlib.suppress(OSError, EOFError):
            channel.sendall(data)
            if ends:
                channel.shutdown_write()

    if len(data) <= min(_INLINE_INPUT_BYTES, channel.out_window_size):
        write()
        return None
    writer = threading.Thread(target=write, name="clusterctl-ssh-input", daemon=True)
    writer.start()
    return writer
