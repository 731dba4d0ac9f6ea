"""Driving the node-side runner: one exec, every record followed, and what its silence means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from clusterctl.apply import records
from clusterctl.apply.records import Record
from clusterctl.transport.base import Failure, FailureKind, Transport, TransportError


class Following(Protocol):
    """What has been read of a runner's records: why it refused, if it did, and whether it came to its end."""

    @property
    def refused(self) -> str | None: ...

    @property
    def ended(self) -> bool: ...


def drive(
    transport: Transport,
    text: str,
    nonce: str,
    follower: Following,
    on_record: Callable[[Record], None],
    *,
    timeout_s: float,
    go_on: str,
) -> Failure | None:
    """Run the runner's text as root and hand on its records; return why it did not end, None when it did.

    ``go_on`` is the hint for a runner that was cut off.
    """

    def on_line(line: str) -> None:
        parsed = records.parse(line, nonce)
        if parsed is not None:
            on_record(parsed)

    try:
        completed = transport.run(
            ("sh", "-s"), stdin=text.encode(), timeout_s=timeout_s, as_root=True, on_line=on_line
        )
    except TransportError as error:
        return error.failure
    if follower.refused is not None:
        return Failure(FailureKind.ERROR, follower.refused, _what_to_do(follower.refused))
    if not follower.ended:
        said = completed.error_text.strip()[-500:]
        message = f"the runner ended early (exit status {completed.returncode})" + (
            f": {said}" if said else ""
        )
        return Failure(FailureKind.LOST, message, go_on)
    return None


def _what_to_do(refused: str) -> str | None:
    """Return the hint for what a runner says when it does not begin (templates/apply/journal.sh)."""
    if refused.startswith("another run is at work"):
        return "wait for its end; if it hangs, end its process on the node, and go on with --resume or undo"
    if "cannot be written" in refused:
        return "make room there, or mend what it is mounted from; nothing was changed"
    if "which run is the latest" in refused:
        return "name the run, the latest first: clusterctl undo --run RUN (ls runs/ on the controller lists them)"
    if "sha256sum is not installed" in refused:
        return "install coreutils on the node; nothing was changed"
    return "log in as root or give the account sudo" if "needs root" in refused else None
