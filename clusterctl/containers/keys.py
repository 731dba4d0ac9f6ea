"""Make the keys of one ``up``: a host key for every container and one login key, used nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


@dataclass(frozen=True, slots=True)
class Ed25519KeyPair:
    """Hold an ed25519 key pair in OpenSSH's formats; ``public`` is type and base64, without a comment."""

    private: bytes
    public: str

    def __repr__(self) -> str:
        return f"Key(***, {self.public})"


def make() -> Ed25519KeyPair:
    """Make a new key pair in memory."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return Ed25519KeyPair(private, public.decode("ascii"))
