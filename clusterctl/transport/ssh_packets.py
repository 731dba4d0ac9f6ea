"""Read and write many packets of a connection with one system call.

Every system call releases the interpreter lock and must acquire it again, which costs more than a packet's bytes.
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
"""As in OpenSSH (PACKET_MAX_SIZE): channels accept 32 KiB at once, and lists of algorithms have a few KiB."""
_HEAD = struct.Struct(">IB")
# The stubs omit methods that subclasses override.
_BASE: Any = paramiko.packet.Packetizer


class ReadAhead:
    """A socket, or a channel through a jump host, that is read in large pieces.

    paramiko reads each packet's first block and its rest with separate calls.
    """

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._held = b""
        self._at = 0

    def recv(self, size: int) -> bytes:
        """Return up to ``size`` bytes; an empty result means the end."""
        if self._at >= len(self._held):
            self._held, self._at = self._sock.recv(_READ_BYTES), 0
        start, self._at = self._at, self._at + size
        return self._held[start : self._at]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Packets(_BASE):  # type: ignore[misc]
    """paramiko's Packetizer, which can write a thread's packets together, and leaves deadlines to its caller."""

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self._writing = threading.Lock()
        self._held: list[bytes] = []
        self._gatherer: int | None = None
        self._aead_block_bytes = 0

    def start_handshake(self, timeout: float) -> None:
        """Do nothing: paramiko's timer is an extra thread, and ``Wire.negotiate`` enforces the deadline."""

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read a packet's rest; raise SSHException for an oversized packet, which would be held in memory."""
        if n > _LARGEST_PACKET_BYTES:
            raise paramiko.SSHException(f"it announced a packet of {n} bytes")
        return bytes(super().read_all(n, check_rekey))

    def set_outbound_cipher(self, block_engine: Any, block_size: int, *args: Any, **more: Any) -> None:
        """Store the block size for padding; called by paramiko after a key exchange."""
        super().set_outbound_cipher(block_engine, block_size, *args, **more)
        self._aead_block_bytes = block_size if more.get("aead") else 0

    def _build_packet(self, payload: bytes) -> bytes:
        """Build a packet (RFC 4253 6) with a single copy; for AES-GCM with zeros as padding.

        paramiko uses zeros only for AES-CTR, and random bytes otherwise, which need one more system call per packet.
        """
        block = self._aead_block_bytes
        if not block:
            return bytes(super()._build_packet(payload))
        # The length itself is not encrypted (RFC 5647 7.3), so it does not count for the padding.
        padding = 3 + block - (len(payload) + 4) % block
        return b"".join((_HEAD.pack(1 + len(payload) + padding, padding), payload, bytes(padding)))

    def write_all(self, out: bytes) -> None:
        """Write a packet and those held back before it; hold back packets of a thread that gathers."""
        with self._writing:
            self._held.append(out)
            if self._gatherer != threading.get_ident():
                self._write_held()

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Hold back this thread's packets until it leaves the context or another thread writes.

        The thread must not wait inside after sending. A thread that has sent nothing, as in a key exchange, may wait,
        because packets of other threads are not held back.
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
