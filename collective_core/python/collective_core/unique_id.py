"""Unique ids: where the ranks of a communicator meet, and the secret that they share."""

from __future__ import annotations

from ctypes import byref

from collective_core import _lib


def get_unique_id() -> bytes:
    """Start a rendezvous in this process and return its id, for all ranks. It holds a secret."""
    unique_id = _lib.UniqueId()
    _lib.check(_lib.library().cc_get_unique_id(byref(unique_id)))
    return bytes(unique_id.bytes)


def unique_id_from_address(address: str, port: int, secret: str, *, is_root: bool) -> bytes:
    """Make the same id on every rank from an address; the root listens there."""
    unique_id = _lib.UniqueId()
    code = _lib.library().cc_unique_id_from_address(
        byref(unique_id), address.encode(), port, secret.encode(), int(is_root)
    )
    _lib.check(code)
    return bytes(unique_id.bytes)
