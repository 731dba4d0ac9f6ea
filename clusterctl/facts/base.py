"""Readings of a node: a value or the reason why it is missing, and the section of the probe that it came from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

from clusterctl.text.foreign import whole
from clusterctl.text.grouping import grouped
from clusterctl.text.secret.scrub import scrubbed

T = TypeVar("T")
U = TypeVar("U")

STATUS_ABSENT = 127
"""Exit status of a fragment whose program or file is missing (the shell's status for "command not found")."""
STATUS_DENIED = 77
"""Exit status of a fragment that needs root and cannot become root (EX_NOPERM of sysexits.h)."""
STATUS_TIMEOUT = (124, 137)
"""Exit statuses of ``timeout -s KILL`` after its deadline (busybox and coreutils differ)."""

DETAIL_CHARACTERS = 400


class ReadStatus(str, Enum):
    """How a reading ended. Only ``ok`` carries a value."""

    OK = "ok"
    ABSENT = "absent"
    """The program or file does not exist on the node."""
    EMPTY = "empty"
    """The program or file exists and its output is empty."""
    FAILED = "failed"
    """The program ended with an error; the detail holds its exit status and message."""
    DENIED = "denied"
    """The reading needs root, and the probe could not become root."""
    UNPARSABLE = "unparsable"
    """The output could not be parsed; the detail holds the place."""


class Part:
    """Base of every part of the facts; recorded documents with unknown keys are rejected."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class Reading(Part, Generic[T]):
    """A value that was read, or None with a status and one sentence that give the reason."""

    value: T | None
    status: ReadStatus = ReadStatus.OK
    detail: str = ""

    @property
    def is_unknown(self) -> bool:
        """Whether the value may exist although it was not read; absent and empty are known results."""
        return self.value is None and self.status not in (ReadStatus.ABSENT, ReadStatus.EMPTY)

    def map(self, function: Callable[[T], U]) -> Reading[U]:
        """Apply a function to the value; without a value keep status and detail."""
        if self.value is None:
            return Reading(None, self.status, self.detail)
        return Reading(function(self.value), self.status, self.detail)

    def or_else(self, default: T) -> T:
        """Return the value, or the default if the value is missing."""
        return default if self.value is None else self.value


def absent(detail: str) -> Reading[T]:
    """Return the reading of something that does not exist on the node."""
    return Reading(None, ReadStatus.ABSENT, detail)


def failed(detail: str) -> Reading[T]:
    """Return the reading of something that ended with an error."""
    return Reading(None, ReadStatus.FAILED, detail)


def unparsable(detail: str) -> Reading[T]:
    """Return the reading of output that cannot be parsed."""
    return Reading(None, ReadStatus.UNPARSABLE, detail)


def malformed(*readings: Reading[Any]) -> str:
    """Return why the first unparsable reading cannot be parsed; an empty text if none is."""
    return next((found.detail for found in readings if found.status is ReadStatus.UNPARSABLE), "")


class Unparsable(ValueError):
    """Raised inside a parser for text that it cannot parse; ``read`` turns it into a reading."""


@dataclass(frozen=True, slots=True)
class Section(Part):
    """One fragment's output on the node: text, exit status, error text, and whether the text was truncated."""

    name: str
    text: str
    exit_status: int | None = 0
    error: str = ""
    cut: bool = False

    @property
    def status(self) -> ReadStatus:
        """How the fragment ended, before its text is parsed."""
        if self.exit_status == STATUS_ABSENT:
            return ReadStatus.ABSENT
        if self.exit_status == STATUS_DENIED:
            return ReadStatus.DENIED
        if self.exit_status != 0:
            return ReadStatus.FAILED
        return ReadStatus.OK if self.text.strip() else ReadStatus.EMPTY

    @property
    def detail(self) -> str:
        """Return one sentence that gives the reason of a missing value, with the program's own message if any."""
        said = (self.error or (self.text if self.exit_status else ""))[: 8 * DETAIL_CHARACTERS]
        words = _words(said)
        if self.status is ReadStatus.OK:
            return "the output was cut" if self.cut else ""
        if self.exit_status in STATUS_TIMEOUT:
            return f"{self.name}: no answer before the deadline" + (f": {words}" if words else "")
        if self.exit_status is None:
            return f"{self.name}: {words or 'the probe ended before its exit status was known'}"
        if self.status is ReadStatus.FAILED:
            return f"{self.name}: exit status {self.exit_status}" + (f": {words}" if words else "")
        return words or f"{self.name}: {self.status.value}"

    def read(self, parse: Callable[[str], T]) -> Reading[T]:
        """Parse the text if the fragment succeeded; text that the parser rejects is ``unparsable``."""
        if self.status is not ReadStatus.OK:
            return Reading(None, self.status, self.detail)
        return read_text(self.text, parse, cut=self.cut)


@lru_cache(maxsize=256)
def _words(said: str) -> str:
    """Return a program's message on one line, without secrets; cached, since many nodes print the same one."""
    return " ".join(scrubbed(said).split())[:DETAIL_CHARACTERS]


def read_text(text: str, parse: Callable[[str], T], *, cut: bool = False) -> Reading[T]:
    """Parse a text; text that the parser rejects (ValueError, LookupError) is ``unparsable``."""
    if len(text) <= _REMEMBERED_CHARACTERS and "<" not in getattr(parse, "__qualname__", "<"):
        return _remembered(text, parse, cut)
    return _parsed(text, parse, cut)


# Most nodes of a fleet print the same texts, and a text has one meaning on all of them, so results are cached.
# Only functions that outlive the call can be keys: no closures or lambdas, which have "<" in their names.
_REMEMBERED_CHARACTERS = 64 * 1024


@lru_cache(maxsize=256)
def _remembered(text: str, parse: Callable[[str], Any], cut: bool) -> Reading[Any]:
    return _parsed(text, parse, cut)


def _parsed(text: str, parse: Callable[[str], T], cut: bool) -> Reading[T]:
    try:
        value = parse(text)
    except (ValueError, LookupError) as error:
        note = " (the output was cut)" if cut else ""
        return Reading(None, ReadStatus.UNPARSABLE, f"{scrubbed(str(error))}{note}"[:DETAIL_CHARACTERS])
    return Reading(value, ReadStatus.OK, "the output was cut" if cut else "")


@dataclass(frozen=True, slots=True)
class Fragment:
    """The shell code of one section: the body of a POSIX sh function.

    ``needs`` is a test that the shell runs without starting a process; if it fails, the section is ``absent`` with
    the reason ``missing``. ``works`` is a second such test; if it fails, the section is ``failed`` with the reason
    ``broken``. ``limit_bytes`` bounds the output of programs whose length is not known in advance; sections without
    it read the kernel's files through ``g`` (grep) or in the shell itself.
    """

    name: str
    script: str = ""
    needs: str = ""
    missing: str = ""
    works: str = ""
    broken: str = ""
    limit_bytes: int | None = None
    root: bool = False
    """Whether the output depends on being root, so that a second run as root can add to it."""
    files: tuple[str, ...] = ()
    """Small files (absolute paths, shell wildcards) that the section holds in the form of ``grep -H``.

    One grep reads the files of all sections, because starting a program costs more than reading a hundred files.
    """
    links: tuple[str, ...] = ()
    """Symbolic links (paths as in ``files``) that the section holds as ``NAME -> TARGET``; one ls reads all."""
    folder: str = ""
    """Prefix that is removed from the paths of files and links."""
    variables: tuple[str, ...] = ()
    """Shell variables of the request that the script reads (``PYTHON``); those that a request leaves out are empty."""


class Sections(dict[str, Section]):
    """All sections of one node by name; a missing section reads as failed."""

    def __missing__(self, name: str) -> Section:
        return Section(name, "", None, "the section is missing from the node's output")


def path_lines(text: str) -> tuple[tuple[str, str], ...]:
    """Split the output of ``grep -H`` into (path, line); directories of an absolute path have no colon."""
    # Cached, because several parsers read the same section.
    return _path_lines(text) if len(text) <= _REMEMBERED_CHARACTERS else _path_lines.__wrapped__(text)


@lru_cache(maxsize=64)
def _path_lines(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(found for found in map(path_line, text.splitlines()) if found)


def path_line(line: str) -> tuple[str, str] | None:
    """Split a line at the colon that ends the file name: the first one after a slash with no colon between them."""
    colon = line.find(":")
    before = -1
    while colon >= 0:
        slash = line.rfind("/", 0, colon)
        if before < slash < colon - 1:
            return line[:colon], line[colon + 1 :]
        before, colon = colon, line.find(":", colon + 1)
    return None


class Files:
    """Small files by path, as one section printed them with ``grep -H ''``."""

    def __init__(self, section: Section) -> None:
        self._section = section
        self.lines = grouped(path_lines(section.text))

    @classmethod
    def of_text(cls, text: str) -> Files:
        """Return the files in a text in the form of ``grep -H ''``."""
        return cls(Section("", text))

    def one(self, path: str, parse: Callable[[str], T]) -> Reading[T]:
        """Parse a file's whole text; ``absent`` if the file is missing or empty."""
        if path in self.lines:
            return read_text("\n".join(self.lines[path]).strip(), parse)
        if self._section.status in (ReadStatus.OK, ReadStatus.EMPTY):
            return absent(f"{path} not found")
        return Reading(None, self._section.status, self._section.detail)

    def text(self, path: str) -> str | None:
        """Return a file's text without surrounding white space; None without the file."""
        return "\n".join(self.lines[path]).strip() if path in self.lines else None

    def number(self, path: str) -> int | None:
        """Return a file's content as a whole number (decimal, or hexadecimal after 0x); None if it is not one."""
        try:
            text = self.text(path) or ""
            return whole(text, 16 if text[:2].lower() == "0x" else 10)
        except ValueError:
            return None

    def matching(self, pattern: str) -> list[tuple[re.Match[str], str]]:
        """Return (match, text) of every path that matches the whole pattern, in the order printed."""
        found = ((re.fullmatch(pattern, path), path) for path in self.lines)
        return [(match, self.text(path) or "") for match, path in found if match]


def links(text: str) -> dict[str, str]:
    """Return name -> target of the symbolic links in the output of ``ls -l``."""
    found = (line.partition(" -> ") for line in text.splitlines() if " -> " in line)
    # The kernel's names have no blanks.
    return {head.rpartition(" ")[2]: target for head, _, target in found if target and " " not in target}


def cpu_list(text: str) -> tuple[int, ...]:
    """Expand the kernel's list format (``0-3,8``); raise Unparsable for a malformed or oversized list."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        low, high = whole(first), whole(last or first)
        if not 0 <= low <= high < 1 << 16:
            raise Unparsable(f"not a list of processors: {text[:80]!r}")
        numbers.extend(range(low, high + 1))
    return tuple(numbers)
