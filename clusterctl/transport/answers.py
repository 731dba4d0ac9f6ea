"""Turn a malformed answer into a failure of its node, so that it does not abort the run on all nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from clusterctl.transport.base import Failure, FailureKind, HostMap, TransportError

T = TypeVar("T")
U = TypeVar("U")


HANDLING_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors raised by code that handles an answer of an unexpected form."""


@contextmanager
def understanding(node: str, what: str) -> Iterator[None]:
    """Parse a node's answer inside this context; raise TransportError (``protocol``) if the answer is malformed.

    A hostile node may answer anything. Keep the code inside small, because the error message does not name the place
    of the problem.
    """
    try:
        yield
    except HANDLING_ERRORS as error:
        said = " ".join(str(error).split())[:120]
        raise TransportError(
            Failure(
                FailureKind.PROTOCOL,
                f"{node}: its answer to the query for {what} is malformed: {said}",
                "try again with -vv; if the answer is still malformed, check the programs on the node",
            )
        ) from None


def map_understood(answers: HostMap[T], what: str, function: Callable[[str, T], U]) -> HostMap[U]:
    """Apply a function to every answer; a malformed answer becomes its node's failure (``protocol``)."""

    def one(name: str, answer: T | Failure) -> U | Failure:
        if isinstance(answer, Failure):
            return answer
        try:
            with understanding(name, what):
                return function(name, answer)
        except TransportError as error:
            return error.failure

    return HostMap({name: one(name, answer) for name, answer in answers.items()})
