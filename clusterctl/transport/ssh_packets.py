"""How the packets of a connection are read and written: many with one system call.

Every call hands the interpreter to another thread and must win it back, which costs more than a packet's bytes do.
"""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Iterator
from typing import Any

from clusterctl.transport.lean_paramiko import paramiko

_READ_BYTES = 65536
_LARGEST_PACKET_BYTES = 256 * 1024
"""As in OpenSSH (PACKET_MAX_SIZE): channels take 32 KiB at once, and lists of algorithms are a few."""
_HEAD = struct.Struct(">IB")
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
        self._aead_block_bytes = 0

    def start_handshake(self, timeout: float) -> None:
        """Start no timer: paramiko's is a thread of its own, and ``Wire.negotiate`` keeps the time."""

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read a packet's rest; raise SSHException for one that no server sends, which would be kept whole."""
        if n > _LARGEST_PACKET_BYTES:
            raise paramiko.SSHException(f"it announced a packet of {n} bytes")
        return bytes(super().read_all(n, check_rekey))

    def set_outbound_cipher(self, block_engine: Any, block_size: int, *args: Any, **more: Any) -> None:
        """Note how packets are padded; called by paramiko when keys have been exchanged."""
        super().set_outbound_cipher(block_engine, block_size, *args, **more)
        self._aead_block_bytes = block_size if more.get("aead") else 0

    def _build_packet(self, payload: bytes) -> bytes:
        """Put a packet together (RFC 4253 6) in one copy; for AES-GCM with zeros at its end.

        paramiko has them for AES-CTR, and else random bytes, which are one more system call for each packet.
        """
        block = self._aead_block_bytes
        if not block:
            return bytes(super()._build_packet(payload))
        # The length itself is not encrypted (RFC 5647 7.3), and does not count.
        padding = 3 + block - (len(payload) + 4) % block
        return b"".join((_HEAD.pack(1 + len(payload) + padding, padding), payload, bytes(padding)))

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
