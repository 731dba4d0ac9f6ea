"""What a reading of a node is: a value, or the reason why there is none; and the section it came from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

from clusterctl.foreign import whole
from clusterctl.secret.scrub import scrubbed

T = TypeVar("T")
U = TypeVar("U")

STATUS_ABSENT = 127
"""A fragment ends with this when its program or file is not there (the shell's own status for that)."""
STATUS_DENIED = 77
"""A fragment ends with this when it needs root and there is no way to it (EX_NOPERM of sysexits.h)."""
STATUS_TIMEOUT = (124, 137)
"""What ``timeout -s KILL`` ends with when the deadline passed (busybox and coreutils differ)."""

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

    @property
    def is_unknown(self) -> bool:
        """Whether there may be something that was not seen; what is absent or empty is known not to be there."""
        return self.value is None and self.status not in (ReadStatus.ABSENT, ReadStatus.EMPTY)

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
        """Parse the text if the fragment succeeded; what the parser cannot follow is ``unparsable``."""
        if self.status is not ReadStatus.OK:
            return Reading(None, self.status, self.detail)
        return read_text(self.text, parse, cut=self.cut)


@lru_cache(maxsize=256)
def _words(said: str) -> str:
    """Return what a program said in one line, without secrets; nodes of a fleet complain alike."""
    return " ".join(scrubbed(said).split())[:DETAIL_CHARACTERS]


def read_text(text: str, parse: Callable[[str], T], *, cut: bool = False) -> Reading[T]:
    """Parse a text at hand; what the parser cannot follow (ValueError, LookupError) is ``unparsable``."""
    if len(text) <= _REMEMBERED_CHARACTERS and "<" not in getattr(parse, "__qualname__", "<"):
        return _remembered(text, parse, cut)
    return _parsed(text, parse, cut)


# The nodes of a fleet say much the same, and what a text means does not depend on who said it. Only functions
# that outlive the call (no closures, no lambdas: "<" in their names) can be asked about again.
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
    """One section's piece of shell: the body of a function of POSIX sh.

    ``needs`` is a test that the shell makes without starting a process; when it fails the section is
    ``absent`` for the reason ``missing``. ``works`` is a second such test; when it fails the section has failed for
    the reason ``broken``. ``limit_bytes`` bounds the output of programs whose length nobody knows beforehand; sections
    without it read the kernel's files through ``g`` (grep) or the shell itself.
    """

    name: str
    script: str = ""
    needs: str = ""
    missing: str = ""
    works: str = ""
    broken: str = ""
    limit_bytes: int | None = None
    root: bool = False
    """Whether its output depends on being root, so that it is worth asking again as root."""
    files: tuple[str, ...] = ()
    """Small files (absolute, with the shell's wildcards) that stand in the section as ``grep -H`` prints them.

    One grep reads those of all sections, because starting a program costs more than reading a hundred files.
    """
    links: tuple[str, ...] = ()
    """Symbolic links (as ``files``) that stand in the section as ``NAME -> TARGET``; one ls reads them all."""
    folder: str = ""
    """What is taken off the front of the paths of files and links."""


class Sections(dict[str, Section]):
    """All sections of one node by name; one that is not there reads as failed."""

    def __missing__(self, name: str) -> Section:
        return Section(name, "", None, "the section is missing from the node's output")


def path_lines(text: str) -> tuple[tuple[str, str], ...]:
    """Split what ``grep -H`` printed into (path, line); an absolute path has no colon in its folders."""
    # Several parsers take the same section apart.
    return _path_lines(text) if len(text) <= _REMEMBERED_CHARACTERS else _path_lines.__wrapped__(text)


@lru_cache(maxsize=64)
def _path_lines(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(found for found in map(path_line, text.splitlines()) if found)


def path_line(line: str) -> tuple[str, str] | None:
    """Split a line at the first colon that ends a file's name: one behind a slash without a colon between."""
    colon = line.find(":")
    before = -1
    while colon >= 0:
        slash = line.rfind("/", 0, colon)
        if before < slash < colon - 1:
            return line[:colon], line[colon + 1 :]
        before, colon = colon, line.find(":", colon + 1)
    return None


class Files:
    """Small files that one section printed with ``grep -H ''``, by path."""

    def __init__(self, section: Section) -> None:
        self._section = section
        self.lines: dict[str, list[str]] = {}
        for path, line in path_lines(section.text):
            self.lines.setdefault(path, []).append(line)

    @classmethod
    def of_text(cls, text: str) -> Files:
        """Return the files of a text that ``grep -H ''`` printed."""
        return cls(Section("", text))

    def one(self, path: str, parse: Callable[[str], T]) -> Reading[T]:
        """Parse a file's whole text; ``absent`` when the file is not there or holds nothing."""
        if path in self.lines:
            return read_text("\n".join(self.lines[path]).strip(), parse)
        if self._section.status in (ReadStatus.OK, ReadStatus.EMPTY):
            return absent(f"{path} is not there")
        return Reading(None, self._section.status, self._section.detail)

    def text(self, path: str) -> str | None:
        """Return a file's text without white space around it, or None."""
        return "\n".join(self.lines[path]).strip() if path in self.lines else None

    def number(self, path: str) -> int | None:
        """Return the whole number that a file holds (decimal, or 0x and hexadecimal), or None."""
        try:
            text = self.text(path) or ""
            return whole(text, 16 if text[:2].lower() == "0x" else 10)
        except ValueError:
            return None

    def matching(self, pattern: str) -> list[tuple[re.Match[str], str]]:
        """Return (match, text) of every path that the whole pattern matches, in the order printed."""
        found = ((re.fullmatch(pattern, path), path) for path in self.lines)
        return [(match, self.text(path) or "") for match, path in found if match]


def links(text: str) -> dict[str, str]:
    """Return name -> target of the symbolic links in what ``ls -l`` printed."""
    found = (line.partition(" -> ") for line in text.splitlines() if " -> " in line)
    # Names with blanks are none of the kernel's.
    return {head.rpartition(" ")[2]: target for head, _, target in found if target and " " not in target}


def cpu_list(text: str) -> tuple[int, ...]:
    """Expand the kernel's list format (``0-3,8``)."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        low, high = whole(first), whole(last or first)
        if not 0 <= low <= high < 1 << 16:
            raise Unparsable(f"not a list of processors: {text[:80]!r}")
        numbers.extend(range(low, high + 1))
    return tuple(numbers)
