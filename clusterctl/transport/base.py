"""Define transports, finished commands, and node failures as values next to other nodes' results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from clusterctl.documents import kinds
from clusterctl.errors import NodeConnectionError

T = TypeVar("T")
U = TypeVar("U")


FailureKind = kinds.FailureKind


@dataclass(frozen=True, slots=True)
class Failure:
    """One node's failure: its kind, one sentence, and what to do."""

    kind: FailureKind
    message: str
    hint: str | None = None


class TransportError(NodeConnectionError):
    """A node did not answer, or stopped answering; ``failure`` holds the same error as a value."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message, hint=failure.hint)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished command: exit status, output (bytes), and duration (seconds).

    ``stdout_cut`` and ``stderr_cut`` count the bytes that were read but not kept, at the end of each stream.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    duration_s: float
    stdout_cut: int = 0
    stderr_cut: int = 0

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 are replaced."""
        return self.stdout.decode(errors="replace")

    @property
    def error_text(self) -> str:
        """Standard error as text; bytes that are not UTF-8 are replaced."""
        return self.stderr.decode(errors="replace")


class Transport(Protocol):
    """A connection to one node. Every method raises TransportError if the node cannot be used."""

    @property
    def node(self) -> str:
        """The node's name in the inventory."""

    def open(self) -> None:
        """Connect now instead of before the first command."""

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
        keep_bytes: int | None = None,
    ) -> Completed:
        """Run one command to its end; a non-zero exit status is a result, not an error.

        ``as_root`` uses sudo unless the login is root already. ``on_line`` is called with each line of standard output
        as it arrives; these lines are not part of the result. A command that runs longer than ``timeout_s`` seconds or
        writes more than ``max_output_bytes`` (None: 64 MiB) is ended, and TransportError (``deadline`` or
        ``protocol``) is raised. With ``keep_bytes`` what follows that many bytes of a stream is read, counted and
        dropped, and the command is ended after 256 MiB of that.
        """

    def put(self, data: bytes, path: str, *, mode: int = 0o644, as_root: bool = False) -> None:
        """Write a file on the node atomically (temporary name, then rename)."""

    def get(self, path: str, *, as_root: bool = False) -> bytes:
        """Return the bytes of a file on the node; raise CommandError if it cannot be read."""

    @property
    def is_open(self) -> bool:
        """Whether a connection is open that the next command would use."""

    @property
    def host_key(self) -> str | None:
        """The host key (``type base64``) that was verified at the last login; None without a login."""

    def close(self) -> None:
        """End the connection; safe to call twice."""


class HostMap(Mapping[str, "T | Failure"], Generic[T]):
    """The result of each node in inventory order: a value or a failure."""

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
