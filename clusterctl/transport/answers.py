"""Answers that cannot be understood: such a one is a failure of its node, and no bug that ends the run of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from clusterctl.transport.base import Failure, FailureKind, HostMap, TransportError

T = TypeVar("T")
U = TypeVar("U")


HANDLING_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What code runs into that handles an answer of another form than it expects."""


@contextmanager
def understanding(node: str, what: str) -> Iterator[None]:
    """Read what a node answered inside; raise TransportError (``protocol``) for words that are no numbers and the like.

    Scripts of ours answer as they should, docker nearly always, and a node in hostile hands as it likes: keep what is
    inside small, as what it runs into is told without its place.
    """
    try:
        yield
    except HANDLING_ERRORS as error:
        said = " ".join(str(error).split())[:120]
        raise TransportError(
            Failure(
                FailureKind.PROTOCOL,
                f"{node}: what it answered when asked for {what} cannot be understood: {said}",
                "try again with -vv; an answer that stays so is not of the script that asked",
            )
        ) from None


def map_understood(answers: HostMap[T], what: str, function: Callable[[str, T], U]) -> HostMap[U]:
    """Apply a function to every answer; an answer that it cannot handle becomes its node's failure (``protocol``)."""

    def one(name: str, answer: T | Failure) -> U | Failure:
        if isinstance(answer, Failure):
            return answer
        try:
            with understanding(name, what):
                return function(name, answer)
        except TransportError as error:
            return error.failure

    return HostMap({name: one(name, answer) for name, answer in answers.items()})
