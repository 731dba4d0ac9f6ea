"""What a transport is, what a finished command is, and how a failed host is a value beside the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

from clusterctl.errors import NodeConnectionError

T = TypeVar("T")
U = TypeVar("U")


class FailureKind(str, Enum):
    """Why a node gave no answer."""

    DNS = "dns"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    HOST_KEY_UNKNOWN = "host-key-unknown"
    HOST_KEY_CHANGED = "host-key-changed"
    AUTH = "auth"
    SUDO = "sudo"
    LOST = "lost"
    DEADLINE = "deadline"
    PROTOCOL = "protocol"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Failure:
    """One node's failure: its kind, one sentence, and what to do."""

    kind: FailureKind
    message: str
    hint: str | None = None


class TransportError(NodeConnectionError):
    """A node did not answer, or stopped answering; carries the ``Failure`` that stands for it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message, hint=failure.hint)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended: exit status, what it wrote (bytes), and how long it took (seconds)."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    duration_s: float

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 are replaced."""
        return self.stdout.decode(errors="replace")

    @property
    def error_text(self) -> str:
        """Standard error as text; bytes that are not UTF-8 are replaced."""
        return self.stderr.decode(errors="replace")


class Transport(Protocol):
    """A way to one node. Every method raises TransportError when the node cannot be used."""

    @property
    def node(self) -> str:
        """The node's name in the inventory."""

    def open(self) -> None:
        """Connect now, in place of before the first command."""

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        as_root: bool = False,
        env: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
        max_output_bytes: int | None = None,
    ) -> Completed:
        """Run one command to its end; a non-zero exit status is a result, not an error.

        ``as_root`` uses the node's way to root (none needed, or sudo); ``on_line`` is called with each line of
        standard output as it arrives, of which none is kept for the result. Past ``timeout_s``, or when it writes
        more than ``max_output_bytes`` (None: 64 MiB), the command is ended and TransportError (``deadline``,
        ``protocol``) is raised.
        """

    def put(self, data: bytes, path: str, *, mode: int = 0o644, as_root: bool = False) -> None:
        """Write a file on the node whole or not at all (temporary name, then rename)."""

    def get(self, path: str, *, as_root: bool = False) -> bytes:
        """Return the bytes of a file on the node; raise CommandError when it cannot be read."""

    @property
    def is_open(self) -> bool:
        """Whether a connection is there that the next command would use."""

    def close(self) -> None:
        """End the connection; safe to call twice."""


class HostMap(Mapping[str, "T | Failure"], Generic[T]):
    """What each node answered, in inventory order: a value, or the failure that stands in its place."""

    def __init__(self, outcomes: Mapping[str, T | Failure]) -> None:
        self._outcomes = dict(outcomes)

    def __getitem__(self, name: str) -> T | Failure:
        return self._outcomes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outcomes)

    def __len__(self) -> int:
        return len(self._outcomes)

    @property
    def values_by_node(self) -> dict[str, T]:
        """The nodes that answered."""
        return {n: o for n, o in self._outcomes.items() if not isinstance(o, Failure)}

    @property
    def failures(self) -> dict[str, Failure]:
        """The nodes that did not."""
        return {n: o for n, o in self._outcomes.items() if isinstance(o, Failure)}

    def map(self, function: Callable[[str, T], U]) -> HostMap[U]:
        """Apply a function to every answer and keep the failures."""
        return HostMap(
            {n: o if isinstance(o, Failure) else function(n, o) for n, o in self._outcomes.items()}
        )
