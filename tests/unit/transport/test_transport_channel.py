"""The end of a command on a channel: its output may come long after its status."""

from __future__ import annotations

import threading

import pytest

from clusterctl.transport.exchange import Exchange
from clusterctl.transport.ssh import channel as ssh_channel


class Stream:
    """What the channel holds of one stream, and whom it wakes."""

    def __init__(self):
        self.data, self.event = b"", None

    def set_event(self, event):
        self.event = event

    def arrive(self, data):
        self.data += data
        self.event.set()

    def take(self, size):
        taken, self.data = self.data[:size], self.data[size:]
        return taken


class Ended:
    """A channel whose command has ended with status 0 and whose output has not come: a fault that needs a busy node."""

    def __init__(self):
        self.in_buffer, self.in_stderr_buffer = Stream(), Stream()
        self.closed = self.eof_received = False
        self.out_window_size, self.exit_status = 1 << 20, 0
        self.status_event = threading.Event()
        self.status_event.set()

    def recv_ready(self):
        return bool(self.in_buffer.data)

    def recv(self, size):
        return self.in_buffer.take(size)

    def recv_stderr_ready(self):
        return bool(self.in_stderr_buffer.data)

    def recv_stderr(self, size):
        return self.in_stderr_buffer.take(size)

    def sendall(self, data):
        pass

    def shutdown_write(self):
        pass

    def close(self):
        self.closed = True


@pytest.fixture(autouse=True)
def short_linger(monkeypatch):
    monkeypatch.setattr(ssh_channel, "_LINGER_S", 0.02)


def _converse(pieces):
    """Each look for what the server still had to send brings the next piece."""
    channel, left = Ended(), list(pieces)
    exchange = Exchange("node", ("true",))

    def catch_up():
        if left:
            channel.in_buffer.arrive(left.pop(0))

    status = ssh_channel.converse(channel, exchange, lambda pid: None, catch_up)
    return status, exchange.completed(status).stdout, left


def test_output_that_comes_after_the_silence_is_waited_for_piece_by_piece():
    assert _converse([b"one ", b"two ", b"three"]) == (0, b"one two three", [])


def test_a_stream_that_a_child_in_the_background_holds_open_ends_with_the_silence():
    assert _converse([]) == (0, b"", [])
