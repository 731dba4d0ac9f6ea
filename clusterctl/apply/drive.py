"""Run the node-side runner in one exec, follow its records, and explain an early end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from clusterctl.apply import records
from clusterctl.apply.records import JournalRecord
from clusterctl.transport.base import Failure, FailureKind, Transport, TransportError


class Following(Protocol):
    """The state read from a runner's records: ``refused``, its reason for not starting, and ``ended``."""

    @property
    def refused(self) -> str | None: ...

    @property
    def ended(self) -> bool: ...


def drive(
    transport: Transport,
    text: str,
    nonce: str,
    follower: Following,
    on_record: Callable[[JournalRecord], None],
    *,
    timeout_s: float,
    go_on: str,
) -> Failure | None:
    """Run the runner's script as root and pass its records on; return the failure, or None if it finished.

    ``go_on`` is the hint for a runner that was interrupted. ``timeout_s`` bounds the whole exec, in seconds.
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
    """Return the hint for the reason of a runner that did not start (runner/journal.sh)."""
    if refused.startswith("busy: "):
        return "wait until it ends; if it hangs, end its process on the node, then use --resume or undo"
    if "cannot be written" in refused:
        return "free space there, or repair the file system; nothing was changed"
    if "which run is the latest" in refused:
        return "undo one run at a time, latest first: clusterctl undo --run RUN (ls runs/ on the controller lists them)"
    if "sha256sum is not installed" in refused:
        return "install coreutils on the node; nothing was changed"
    return "log in as root or give the account sudo" if "needs root" in refused else None
