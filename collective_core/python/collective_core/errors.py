"""The errors of the package: one per thing a caller can do about it."""

from __future__ import annotations

from enum import IntEnum


class Result(IntEnum):
    """Codes of the C ABI (cc_result)."""

    SUCCESS = 0
    INVALID_ARGUMENT = 1
    INVALID_USAGE = 2
    SYSTEM = 3
    REMOTE = 4
    TIMEOUT = 5
    ABORTED = 6
    DESYNC = 7
    INTERNAL = 8
    IN_PROGRESS = 9


class CollectiveCoreError(RuntimeError):
    """A call of the library failed; `code` says how, the text says why and where."""

    def __init__(self, code: Result, text: str) -> None:
        super().__init__(f"{code.name.lower()}: {text}")
        self.code = code


class LibraryNotFoundError(ImportError):
    """The compiled library or a program is not where it should be."""
