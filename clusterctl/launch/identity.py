"""Choose what is unique to one launch: its token, the mark of its output, its ports and its secret."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass

from clusterctl.launch import leftovers

_PORTS = range(20000, 32000)


@dataclass(frozen=True, slots=True)
class LaunchIdentity:
    """Hold the values that differ between two runs of the same launch.

    ``token`` names the launch directory and is in the environment of every rank; ranks never receive ``mark``.
    """

    token: str
    mark: str
    secret: str
    first_port: int

    @classmethod
    def new(cls, token: str, mark: str) -> LaunchIdentity:
        """Return an identity with a random secret and random ports."""
        return cls(token, mark, secrets.token_hex(16), secrets.choice(_PORTS))

    @property
    def directory(self) -> str:
        """Return the launch directory, which is the same on every node."""
        return f"{leftovers.PREFIX}{self.token}"

    def ports(self, taken: Collection[int], number: int) -> tuple[int, int]:
        """Return two free ports for launch ``number`` of a run; the next launch gets others.

        They differ because torchrun's own store listens on MASTER_PORT. A rank of the last launch may still hold its
        own.
        """
        start = self.first_port - _PORTS.start + 2 * number
        free = (_PORTS[(start + step) % len(_PORTS)] for step in range(len(_PORTS)))
        usable = (port for port in free if port not in taken)
        return next(usable), next(usable)


SHOWN = LaunchIdentity("TOKEN", "MARK", "***", _PORTS.start)
"""What a printed plan shows instead of the values that each run chooses."""
