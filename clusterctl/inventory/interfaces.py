"""Parse selectors of network interfaces: the inventory's ``socket_ifname``, in the syntax of NCCL_SOCKET_IFNAME."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Interfaces:
    """Hold one selector: its names, whether it excludes them (``^``), and whether they are exact (``=``)."""

    text: str
    """The selector as written; libraries that understand the syntax get it unchanged."""
    names: tuple[str, ...]
    excludes: bool
    exact: bool

    @property
    def first(self) -> str | None:
        """Return the first interface that is named; None if the selector only excludes interfaces."""
        return None if self.excludes else next(iter(self.names), None)

    @property
    def listed(self) -> str:
        """Return the names, separated by commas, without the marks."""
        return ",".join(self.names)

    def selects(self, interface: str) -> bool:
        """Tell whether the selector matches an interface: by equality if it is exact, else by its beginning."""
        found = any(interface == name if self.exact else interface.startswith(name) for name in self.names)
        return found != self.excludes


@lru_cache(maxsize=256)
def parse(text: str) -> Interfaces:
    """Parse a valid selector such as ``ib``, ``=eth0,eth1``, ``^docker`` or ``^=eth0``."""
    excludes = text.startswith("^")
    rest = text.removeprefix("^")
    exact = rest.startswith("=")
    names = tuple(name for name in rest.removeprefix("=").split(",") if name)
    return Interfaces(text, names, excludes, exact)
