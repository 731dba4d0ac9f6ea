"""A man in the middle: relays the connections of ranks on this machine, and flips one bit in one of them."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CHALLENGE_BYTES, ANSWER_BYTES, PROOF_BYTES = 40, 96, 32
"""Of the handshake (collective_core/src/transport/tcp/handshake.cc): server, client, server."""
PURPOSES = {"rendezvous": 1, "control": 2, "data": 3}


@dataclass(frozen=True)
class Flip:
    """One bit of what goes over the connections of a purpose after their handshake."""

    purpose: str
    at: int
    """Of the byte, counted from 0 in its direction."""
    by_connecting: bool = True
    """Of what the rank sent that connected, which is the higher one of two; else of what the other side sent."""
    stream: int = 0
    bit: int = 0


@dataclass
class Proxy:
    folder: Path
    flip: Flip
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    flipped: int = 0
    """How many bits it has flipped so far."""
    over: threading.Event = field(default_factory=threading.Event)
    """No rank begins to listen any more."""

    def environment(self) -> dict[str, str]:
        """For a rank with ``through_proxy.c``, which connects through this proxy then."""
        return {"PROXY_PORT": str(self.listener.getsockname()[1]), "PROXY_FOLDER": str(self.folder)}

    def serve(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed: it is over
            while True:
                client, address = self.listener.accept()
                meant = int((self.folder / str(address[1])).read_text())
                threading.Thread(target=self._join, args=(client, meant), daemon=True).start()

    def _join(self, client: socket.socket, port: int) -> None:
        with client, contextlib.suppress(OSError), self._reach(port) as server:
            server_spoke_first = _exactly(server, CHALLENGE_BYTES)
            client.sendall(server_spoke_first)
            answer = _exactly(client, ANSWER_BYTES)
            server.sendall(answer)
            client.sendall(_exactly(server, PROOF_BYTES))
            purpose, *_, stream = struct.unpack_from("<Iiiii", answer, 4)
            chosen = (purpose, stream) == (PURPOSES[self.flip.purpose], self.flip.stream)
            ways = ((client, server, True), (server, client, False))
            relays = [
                threading.Thread(
                    target=self._relay,
                    args=(one, other, chosen and self.flip.by_connecting == side),
                    daemon=True,
                )
                for one, other, side in ways
            ]
            for relay in relays:
                relay.start()
            for relay in relays:
                relay.join()

    def _reach(self, port: int) -> socket.socket:
        """Connect to a rank, which may have to begin to listen first, or has done so and listens no more."""
        deadline = time.monotonic() + 30
        while True:
            try:
                connection = socket.create_connection(("127.0.0.1", port))
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
            except ConnectionRefusedError:
                if self.over.wait(0.05) or time.monotonic() > deadline:
                    raise

    def _relay(self, source: socket.socket, target: socket.socket, alters: bool) -> None:
        before = 0
        with contextlib.suppress(OSError):
            while data := bytearray(source.recv(65536)):
                if alters and before <= self.flip.at < before + len(data):
                    data[self.flip.at - before] ^= 1 << self.flip.bit
                    self.flipped += 1
                before += len(data)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise OSError("closed")
        data += more
    return data


@contextlib.contextmanager
def altering_proxy(folder: Path, flip: Flip) -> Iterator[Proxy]:
    """A proxy that runs until the end of the block."""
    proxy = Proxy(folder, flip)
    acceptor = threading.Thread(target=proxy.serve, daemon=True)
    acceptor.start()
    try:
        yield proxy
    finally:
        proxy.over.set()
        proxy.listener.shutdown(socket.SHUT_RDWR)
        proxy.listener.close()
        acceptor.join(10)
