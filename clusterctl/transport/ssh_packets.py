"""How the packets of a connection are read and written: many with one system call.

Every call hands the interpreter to another thread and must win it back, which costs more than a packet's bytes do.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from clusterctl.transport.lean_paramiko import paramiko

_READ_BYTES = 65536
# The stubs leave out what subclasses are meant to override.
_BASE: Any = paramiko.packet.Packetizer


class ReadAhead:
    """A socket, or a channel through a jump host, read in large pieces.

    paramiko reads each packet's first block and its rest by calls of their own.
    """

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._held = b""
        self._at = 0

    def recv(self, size: int) -> bytes:
        """Return up to ``size`` bytes; nothing means the end."""
        if self._at >= len(self._held):
            self._held, self._at = self._sock.recv(_READ_BYTES), 0
        start, self._at = self._at, self._at + size
        return self._held[start : self._at]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Packets(_BASE):  # type: ignore[misc]
    """paramiko's Packetizer, which can write a thread's packets together, and leaves deadlines to whoever connects."""

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self._writing = threading.Lock()
        self._held: list[bytes] = []
        self._gatherer: int | None = None

    def start_handshake(self, timeout: float) -> None:
        """Start no timer: paramiko's is a thread of its own, and ``Wire.negotiate`` keeps the time."""

    def set_outbound_cipher(self, *args: Any, sdctr: bool = False, aead: bool = False, **more: Any) -> None:
        """Pad with zeros under AES-GCM, as paramiko does under AES-CTR: random bytes are a system call per packet."""
        super().set_outbound_cipher(*args, sdctr=sdctr or aead, aead=aead, **more)

    def write_all(self, out: bytes) -> None:
        """Write a packet, and those that were held back before it; hold back those of a thread that gathers."""
        with self._writing:
            self._held.append(out)
            if self._gatherer != threading.get_ident():
                self._write_held()

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Write what this thread sends inside when it leaves, or another one writes; it must not wait inside.

        One that has nothing to send, as in a key exchange, may wait: the packets of others are not held back.
        """
        with self._writing:
            alone = self._gatherer is None
            if alone:
                self._gatherer = threading.get_ident()
        try:
            yield
        finally:
            if alone:
                with self._writing:
                    self._gatherer = None
                    self._write_held()

    def _write_held(self) -> None:
        held, self._held = self._held, []
        if held:
            super().write_all(held[0] if len(held) == 1 else b"".join(held))
