"""Answers that cannot be understood: such a one is a failure of its node, and no bug that ends the run of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from clusterctl.transport.base import Failure, FailureKind, TransportError


@contextmanager
def understanding(node: str, what: str) -> Iterator[None]:
    """Read what a node answered inside; raise TransportError (``protocol``) for words that are no numbers and the like.

    Scripts of ours answer as they should, docker nearly always, and a node in hostile hands as it likes: keep what is
    inside small, as what it runs into is told without its place.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        said = " ".join(str(error).split())[:120]
        raise TransportError(
            Failure(
                FailureKind.PROTOCOL,
                f"{node}: what it answered when asked for {what} cannot be understood: {said}",
                "try again with -vv; an answer that stays so is not of the script that asked",
            )
        ) from None
