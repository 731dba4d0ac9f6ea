"""What a reading of a node is: a value, or the reason why there is none; and the section it came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")

STATUS_ABSENT = 127
"""A fragment ends with this when its program or file is not there (the shell's own status for that)."""
STATUS_DENIED = 77
"""A fragment ends with this when it needs root and there is no way to it (EX_NOPERM of sysexits.h)."""
STATUS_TIMEOUT = 124
"""What ``timeout`` ends with when the deadline passed (coreutils)."""

DETAIL_CHARACTERS = 400


class ReadStatus(str, Enum):
    """How a reading ended. Only ``ok`` carries a value."""

    OK = "ok"
    ABSENT = "absent"
    """The program or file is not there."""
    EMPTY = "empty"
    """It is there and said nothing."""
    FAILED = "failed"
    """It ended with an error; the detail holds its exit status and words."""
    DENIED = "denied"
    """It needs root, and the probe had no way to root."""
    UNPARSABLE = "unparsable"
    """It said something that is not understood; the detail holds the place."""


class Part:
    """Base of every piece of facts: a recorded document with keys that are not known is refused."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class Reading(Part, Generic[T]):
    """A value that was read, or None with the status and one sentence that say why not."""

    value: T | None
    status: ReadStatus = ReadStatus.OK
    detail: str = ""

    def map(self, function: Callable[[T], U]) -> Reading[U]:
        """Apply a function to the value, if there is one."""
        if self.value is None:
            return Reading(None, self.status, self.detail)
        return Reading(function(self.value), self.status, self.detail)

    def or_else(self, default: T) -> T:
        """Return the value, or the default when there is none."""
        return default if self.value is None else self.value


def absent(detail: str) -> Reading[T]:
    """Return the reading of something that is not there."""
    return Reading(None, ReadStatus.ABSENT, detail)


def denied(detail: str) -> Reading[T]:
    """Return the reading of something that only root may see."""
    return Reading(None, ReadStatus.DENIED, detail)


def failed(detail: str) -> Reading[T]:
    """Return the reading of something that ended with an error."""
    return Reading(None, ReadStatus.FAILED, detail)


def unparsable(detail: str) -> Reading[T]:
    """Return the reading of something that is not understood."""
    return Reading(None, ReadStatus.UNPARSABLE, detail)


class Unparsable(ValueError):
    """Raised inside a parser by text that is not understood; ``read`` turns it into a reading."""


@dataclass(frozen=True, slots=True)
class Section(Part):
    """One fragment's output on the node: its text, exit status, error text, and whether the text was cut."""

    name: str
    text: str
    exit_status: int | None = 0
    error: str = ""
    cut: bool = False

    @property
    def status(self) -> ReadStatus:
        """How the fragment ended, before anyone has tried to understand its text."""
        if self.exit_status == STATUS_ABSENT:
            return ReadStatus.ABSENT
        if self.exit_status == STATUS_DENIED:
            return ReadStatus.DENIED
        if self.exit_status != 0:
            return ReadStatus.FAILED
        return ReadStatus.OK if self.text.strip() else ReadStatus.EMPTY

    @property
    def detail(self) -> str:
        """Say in one sentence why there is no value, in the program's own words where it had any."""
        words = " ".join((self.error or (self.text if self.exit_status else "")).split())[:DETAIL_CHARACTERS]
        if self.status is ReadStatus.OK:
            return "the output was cut" if self.cut else ""
        if self.exit_status == STATUS_TIMEOUT:
            return f"{self.name}: no answer before the deadline" + (f": {words}" if words else "")
        if self.exit_status is None:
            return f"{self.name}: the probe ended before its exit status was known"
        if self.status is ReadStatus.FAILED:
            return f"{self.name}: exit status {self.exit_status}" + (f": {words}" if words else "")
        return words or f"{self.name}: {self.status.value}"

    def read(self, parse: Callable[[str], T]) -> Reading[T]:
        """Parse the text if the fragment succeeded; what the parser cannot follow is ``unparsable``."""
        if self.status is not ReadStatus.OK:
            return Reading(None, self.status, self.detail)
        return read_text(self.text, parse, cut=self.cut)


def read_text(text: str, parse: Callable[[str], T], *, cut: bool = False) -> Reading[T]:
    """Parse a text at hand; what the parser cannot follow (ValueError, LookupError) is ``unparsable``."""
    try:
        value = parse(text)
    except (ValueError, LookupError) as error:
        note = " (the output was cut)" if cut else ""
        return Reading(None, ReadStatus.UNPARSABLE, f"{error}{note}"[:DETAIL_CHARACTERS])
    return Reading(value, ReadStatus.OK, "the output was cut" if cut else "")


def missing_section(name: str) -> Section:
    """Return what stands for a section that the node's output does not hold."""
    return Section(name, "", None, "the section is missing from the node's output")
