"""Search for known errors in logs: streams of any length, read in pieces with constant memory."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from clusterctl.report.known_errors.model import WINDOW_CHARACTERS, KnownError
from clusterctl.report.known_errors.origin import origin_of
from clusterctl.visible import ACTING

PIECE_BYTES = 1 << 20
"""The size of one read. A longer line is searched in pieces."""
EXCERPT_CHARACTERS = 400
PLACES_KEPT = 4096
"""Hosts, ranks and GPUs kept per error; more than any supported fleet has."""
LEFT_OVER_LINES = 5
"""How many unexplained lines are kept from the beginning of the logs, and as many from their end."""
_LINES_TRIED = 200

# Terminal colours and cursor movements (ECMA-48), and operating system commands such as window titles.
_ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])"
)
_LOOKS_WRONG = (
    *(b"error", b"fatal", b"failed", b"failure", b"abort", b"exception", b"traceback"),
    *(b"denied", b"refused", b"killed", b"cannot ", b"segfault", b"panic"),
    *(
        b"warn",
        b" fault",
        b"_fault",
        b"timed out",
        b"stuck",
        b"stall",
        b"unable",
        b"could not",
        b"not found",
        b"missing",
    ),
    *(b"expired", b"restricted", b"no devices", b"mismatch", b"unreachable"),
)
_LOOKS_FINE = re.compile(
    r"\b(?:0|no) (?:errors?|failures?|failed)\b|errors?[=:] ?0\b|error_?(?:handler|log|file)"
    # Of a Python traceback, only the line of the exception names the cause.
    r"|Traceback \(most recent call last\):$|^\s*File \"|^\s*raise ",
    re.I,
)
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log: the file name as given, the line's number from 1, and its text."""

    file: str
    number: int
    text: str


@dataclass(slots=True)
class Occurrence:
    """One known error in the logs: its first and last line, its count, and its hosts, ranks and GPUs."""

    entry: KnownError
    first: LogLine
    last: LogLine
    count: int = 0
    hosts: dict[str, None] = field(default_factory=dict)
    ranks: set[int] = field(default_factory=set)
    gpus: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log that was read completely."""

    name: str
    lines: int
    size_bytes: int


class Scan:
    """The findings in the logs read so far."""

    def __init__(self, entries: Sequence[KnownError]) -> None:
        # Many entries share a fixed text and differ in their patterns: each text is searched only once.
        self._patterns: dict[bytes, list[tuple[int, re.Pattern[str]]]] = {}
        for index, entry in enumerate(entries):
            for match in entry.match:
                self._patterns.setdefault(match.text.encode(), []).append((index, match.compiled))
        self._entries = entries
        self._findings: dict[int, Occurrence] = {}
        self._first_left_over: dict[str, LogLine] = {}
        self._last_left_over: deque[LogLine] = deque(maxlen=LEFT_OVER_LINES)
        self._node: str | None = None
        self.files: list[LogFile] = []

    @property
    def findings(self) -> list[Occurrence]:
        """Return the known errors, likely root causes first: by role, then by first occurrence."""
        return sorted(self._findings.values(), key=lambda found: found.entry.role.rank)

    @property
    def left_over(self) -> list[LogLine]:
        """Return the first and the last lines that look like errors and are not in the catalogue.

        The first ones are more likely the cause of a failure than its consequence. Of lines that differ in numbers
        only, the first is returned.
        """
        kinds = dict(self._first_left_over)
        for line in self._last_left_over:
            kinds.setdefault(_kind(line.text), line)
        return list(kinds.values())

    def read(
        self,
        name: str,
        stream: BinaryIO,
        first: int = 1,
        most_bytes: int | None = None,
        node: str | None = None,
    ) -> int:
        """Read one log to its end, or ``most_bytes`` of it, from its line ``first``; return the number of bytes.

        ``node``: the only node that wrote the log, so that its errors concern that node, whatever hosts it names;
        empty if it is one whose name is unknown.
        """
        number, size, rest, self._node = first, 0, b"", node
        while block := stream.read(
            PIECE_BYTES if most_bytes is None else min(PIECE_BYTES, most_bytes - size)
        ):
            size += len(block)
            data = rest + block
            cut = data.rfind(b"\n") + 1
            if not cut and len(data) < PIECE_BYTES:
                rest = data
                continue
            cut = cut or len(data)
            piece, rest = data[:cut], data[cut:]
            self._take(name, number, piece)
            number += piece.count(b"\n")
        if rest:
            self._take(name, number, rest)
            number += 1
        self.files.append(LogFile(name, number - first, size))
        return size

    def _take(self, name: str, number: int, piece: bytes) -> None:
        if b"\x1b" in piece:
            piece = _ESCAPES.sub(b"", piece)
        lines = piece.replace(b"\r", b"\n")
        hits: dict[int, tuple[int, str, re.Match[str]]] = {}
        for text, patterns in self._patterns.items():
            at = piece.find(text)
            while at >= 0:
                start, end = _line_around(lines, at)
                window = piece[max(start, at - WINDOW_CHARACTERS) : min(end, at + WINDOW_CHARACTERS)]
                shown = window.decode(errors="replace")
                for index, compiled in patterns:
                    if start in hits and hits[start][0] <= index:
                        break
                    if match := compiled.search(shown):
                        line = piece[start : min(end, start + 2 * WINDOW_CHARACTERS)]
                        hits[start] = (index, line.decode(errors="replace"), match)
                        break
                at = piece.find(text, max(end, at + 1))
        if len(self._first_left_over) < LEFT_OVER_LINES:
            for start, shown in _first_wrong_lines(lines, hits):
                kind = _kind(shown)
                if len(self._first_left_over) < LEFT_OVER_LINES and kind not in self._first_left_over:
                    line_number = number + piece.count(b"\n", 0, start)
                    self._first_left_over[kind] = LogLine(name, line_number, shown)
        for start, shown in _last_wrong_lines(lines, hits):
            self._last_left_over.append(LogLine(name, number + piece.count(b"\n", 0, start), shown))
        counted, at = 0, 0
        for start in sorted(hits):
            counted += piece.count(b"\n", at, start)
            at = start
            index, line_text, match = hits[start]
            self._note(index, LogLine(name, number + counted, _shown(line_text)), line_text, match)

    def _note(self, index: int, line: LogLine, text: str, match: re.Match[str]) -> None:
        found = self._findings.get(index)
        if found is None:
            found = self._findings[index] = Occurrence(self._entries[index], line, line)
        found.count += 1
        found.last = line
        origin = origin_of(text)
        groups = match.groupdict()
        host = groups.get("host") if self._node is None else None
        if host is None and not found.entry.about_others:
            host = origin.host if self._node is None else self._node or None
        rank = int(groups["rank"]) if groups.get("rank") else origin.rank
        if host is not None and len(found.hosts) < PLACES_KEPT:
            found.hosts.setdefault(host)
        if rank is not None and len(found.ranks) < PLACES_KEPT:
            found.ranks.add(rank)
        if origin.gpu is not None and len(found.gpus) < PLACES_KEPT:
            found.gpus.setdefault(origin.gpu)


def _line_around(lines: bytes, at: int) -> tuple[int, int]:
    """Return start and end of the line around a position.

    Carriage returns must have become line ends: they start a new line (progress bars), and a search for either of
    two characters would pass over the whole text where only the other one stands.
    """
    end = lines.find(b"\n", at)
    return lines.rfind(b"\n", 0, at) + 1, len(lines) if end < 0 else end


def _first_wrong_lines(lines: bytes, explained: Container[int]) -> list[tuple[int, str]]:
    """Return start and text of the first lines that look like errors and are not explained, one of each kind."""
    lower = lines.lower()
    found: dict[int, str] = {}
    for word in _LOOKS_WRONG:
        at = lower.find(word)
        kinds: set[str] = set()
        for _ in range(_LINES_TRIED):
            if at < 0 or len(kinds) == LEFT_OVER_LINES:
                break
            start, end = _line_around(lines, at)
            shown = _looks_wrong(lines[start:end])
            if start not in explained and shown is not None:
                found[start] = shown
                kinds.add(_kind(shown))
            at = lower.find(word, max(end, at + 1))
    return sorted(found.items())


def _last_wrong_lines(lines: bytes, explained: Container[int]) -> list[tuple[int, str]]:
    """Return start and text of the last lines that look like errors and are not explained."""
    lower = lines.lower()
    found: dict[int, str] = {}
    for word in _LOOKS_WRONG:
        at, kept = lower.rfind(word), 0
        for _ in range(_LINES_TRIED):
            if at < 0 or kept == LEFT_OVER_LINES:
                break
            start, end = _line_around(lines, at)
            shown = _looks_wrong(lines[start:end])
            if start not in explained and shown is not None:
                found[start] = shown
                kept += 1
            at = lower.rfind(word, 0, start)
    return sorted(found.items())[-LEFT_OVER_LINES:]


def _kind(line: str) -> str:
    """Return a line without its numbers: the same message of other ranks, times and steps."""
    return _DIGITS.sub("#", line)


def _looks_wrong(line: bytes) -> str | None:
    """Return a line with a word of an error as it is shown; None if it reports something else."""
    shown = _shown(line[: 2 * WINDOW_CHARACTERS].decode(errors="replace"))
    return shown if shown and not _LOOKS_FINE.search(shown) else None


def _shown(line: str) -> str:
    """Return a line for a terminal: without unprintable characters, and truncated."""
    text = ACTING.sub("", line.replace("\t", " ")).strip()
    return text if len(text) <= EXCERPT_CHARACTERS else text[: EXCERPT_CHARACTERS - 3] + "..."
