"""One command on one SSH channel: one thread reads both streams, sends the input and keeps the deadline.

Works on paramiko's Channel without importing paramiko; see ``ssh_wire``.
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
# A packet carries at most 32 KiB and the window 2 MiB: the server never waits for a look.
_PACKETS_PER_LOOK = 16
# Background children of a command that has ended may hold its output open; OpenSSH would wait for them.
_LINGER_S = 1.0


class Pipe(Protocol):
    """What a channel buffers for one stream."""

    def set_event(self, event: Arrivals) -> None: ...


class Channel(Protocol):
    """What is used of paramiko's Channel."""

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
    """What the one reader of a channel sleeps on; streams and the channel's end wake it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Something arrived."""
        self._event.set()

    def wait(self, timeout_s: float) -> None:
        """Sleep until something arrives."""
        self._event.wait(timeout_s)

    def rearm(self) -> None:
        """Forget what has arrived; call before looking at the streams."""
        self._event.clear()


class Arrivals:
    """Stands where a channel's stream expects its Event, and wakes the reader only when that is worth it.

    A probe writes hundreds of small pieces, and each wake-up is a switch of threads. While nobody follows the
    output line by line, the reader sleeps until enough has come to matter for the window, or all has.
    """

    def __init__(self, channel: Channel, wake: Wake) -> None:
        self._channel = channel
        self._wake = wake
        self._unseen = 0
        self.eager = True

    def set(self) -> None:
        """A packet arrived, or the stream ended; called by paramiko with the stream's lock held."""
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
        """Ignored: a stream that ran empty must not hide that the other has data."""


class ChannelClosed(Exception):
    """The channel ended without an exit status: the connection was lost."""


def converse(
    channel: Channel,
    exchange: Exchange,
    end_command: Callable[[int], None],
    catch_up: Callable[[], None],
) -> int:
    """Follow a command that was just sent to its end and return its exit status.

    ``end_command`` is given the command's process id on the node when it has to be ended early. ``catch_up`` returns
    once all has arrived that the server had to send when it was called.
    Raises ChannelClosed when the connection ends first; what ``exchange`` raises ends the command.
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
                # Set before the streams are looked at: what arrives from here on is not overlooked.
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
                    # Silence alone proves nothing: on a busy machine the output may come seconds after the status.
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
    """Take what has arrived, looking up now and then so that a flood cannot outrun the limits."""
    for ready, receive, feed in (
        (channel.recv_stderr_ready, channel.recv_stderr, exchange.feed_stderr),
        (channel.recv_ready, channel.recv, exchange.feed_stdout),
    ):
        while ready():
            feed(receive(_CHUNK_BYTES))
            exchange.check()


def _send(channel: Channel, data: bytes, ends: bool) -> threading.Thread | None:
    """Send input; what may not fit the window by a thread, or both ends could wait for each other."""

    def write() -> None:
        # A command that ends without reading all its input, or a lost connection, shows in what is read.
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
