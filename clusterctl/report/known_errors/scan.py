"""Search for known errors in logs: streams of any length, read in pieces with constant memory."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from clusterctl.documents.kinds import ErrorRole
from clusterctl.report.known_errors import fixed_texts, line_readings
from clusterctl.report.known_errors.model import WINDOW_CHARACTERS, KnownError
from clusterctl.report.known_errors.origin import Origin, origin_of
from clusterctl.report.known_errors.when import Stamp, earliest, stamp_of
from clusterctl.text.visible import ACTING

PIECE_BYTES = 1 << 20
"""The size of one read. A longer line is searched in pieces."""
EXCERPT_CHARACTERS = 400
PLACES_KEPT = 4096
"""Hosts, ranks and GPUs kept per error; more than any supported fleet has."""
LEFT_OVER_LINES = 5
"""How many unexplained lines are kept: the first, the first that state their error themselves, and the last."""
_LINES_TRIED = 200
_LINES_READ = 20
"""Of the lines with a text of a reading, so many are tried in a piece of a log."""
_LINES_BELOW = 64
"""The most lines below a hit that belong to it, as many ranks as a list of them names."""
_LINES_BEFORE = 20
"""A line without a time stamp has the one of the nearest of so many lines before it."""
_ONE_FAILURE_S = 2700
"""Stamps of different files that are further apart are of clocks in unknown time zones, or of other failures."""
_STAMP_CHARACTERS = 120
LEADING = (ErrorRole.FAULT, ErrorRole.CAUSE)
"""The roles of findings that name the cause of a failure."""
_LATER = (ErrorRole.SYMPTOM, ErrorRole.CONSEQUENCE)

# Terminal colours and cursor movements (ECMA-48), and operating system commands such as window titles.
_ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])"
)
_LOOKS_WRONG = (
    *(b"error", b"fatal", b"failed", b"failure", b" fail", b"abort", b"exception", b"traceback"),
    *(b"denied", b"refused", b"rejected", b"killed", b"cannot ", b"can't ", b"segfault", b"panic"),
    *(b" fault", b"_fault", b"faulted", b"crashed", b"corrupt", b"invalid", b"illegal", b"unsupported"),
    *(b"timed out", b"timing out", b"stuck", b" stall", b"blocked for", b"no progress"),
    *(b"unable", b"could not", b"couldn't", b"does not ", b"doesn't", b"was not ", b"unexpected"),
    *(b"not found", b"missing", b"no such", b"no space", b"not enough", b"insufficient", b"exceeded"),
    *(b"expired", b"restricted", b"no devices", b"mismatch", b"unreachable", b"not respon", b"no respon"),
    *(b"not permitted", b"not supported", b"not available", b"unavailable", b"unauthorized", b"forbidden"),
    *(
        b" lost ",
        b"caused by",
        b"not loaded",
        b"not running",
        b"not compatible",
        b"lower than",
        b"retrying",
        b"no longer ",
    ),
    # German, French, Spanish, Italian, Portuguese, Russian, Chinese, Japanese, Korean: messages of the C library.
    *(
        b"fehler",
        b"fehlgeschlagen",
        b"abgebrochen",
        b"kein ",
        b"erreur",
        *(word.encode() for word in ("échec", "Échec")),
        b"refus",
        b"aucun",
    ),
    *(b"fallo", b"no se pudo", b"denegado", b"errore", b"impossibile", b"negad", b"negato", b"falha"),
    *(
        word.encode()
        for word in ("шибка", "удалось", "错误", "失败", "無法", "无法", "エラー", "失敗", "오류", "실패")
    ),
)
_SHORT_LOOKS_WRONG = (b"warn",)
"""Words with fewer than ``fixed_texts.SHORTEST`` bytes."""
_WRONG = frozenset((*_LOOKS_WRONG, *_SHORT_LOOKS_WRONG))
_LOOKS_FINE = re.compile(
    # Not the end of a number, such as that of a job step, nor "no error" as the text of an error.
    r"(?<![\w.,])(?:0 errors?|no errors|no error (?:found|detected|reported)|(?:0|no) (?:failures?|failed))\b"
    r"|errors?[=:] ?0\b"
    r"|(?<![A-Za-z]_)error_?(?:handler|log|file)|^</?[a-z_]{1,40}>|\bnewly installed\b"
    # Optional parts that NCCL looks for.
    r"|/Plugin: Could not find: |NCCL INFO Failed to initialize NET plugin"
    # The kernel loads the module and notes that it is not signed.
    r"|: module verification failed: .{1,80} tainting kernel"
    # Of a Python traceback, only the line of the exception names the cause.
    r"|Traceback \(most recent call last\):$|^\s*File \"|^\s*raise ",
    re.I,
)
_DIGITS = re.compile(r"\d+")
_RANK_NUMBER = re.compile(r"\d{1,7}")
_DIGIT_BYTES = b"0123456789"
_HEX = re.compile(
    rb"(?<![0-9A-Za-z_])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]{9,}|[0-9a-f]{8,})(?![0-9A-Za-z_])"
)
_SAMPLE_BYTES = 1 << 17
"""So much of a piece shows whether hexadecimal numbers tell its lines apart."""


class _Rule(NamedTuple):
    """One match of the catalogue; of the rules that apply to a line, the first explains it."""

    place: int
    entry: int
    text: bytes
    pattern: re.Pattern[str] | None


_Hit = tuple[int, str, re.Match[str] | None]
"""The entry that explains a line, the beginning of the line, and the match of the entry's pattern if it has one."""
_Kept = dict[str, tuple[int, "LogLine"]]
"""Unexplained lines and the places of their files, by the lines without their numbers."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log: the file name as given, the line's number from 1, and its text."""

    file: str
    number: int
    text: str


@dataclass(slots=True)
class Occurrence:
    """One known error in the logs: its first and last line, its count, and its hosts, ranks and GPUs.

    ``when``: the time of the first line, None without a stamp. ``role`` is that of the entry, or ``consequence`` for a
    symptom with a fault or cause before it. ``origin``: the last fault or cause before a symptom or consequence.
    """

    entry: KnownError
    first: LogLine
    last: LogLine
    when: Stamp | None
    role: ErrorRole
    origin: Occurrence | None = None
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
        self._rules: dict[bytes, list[_Rule]] = {}
        matches = ((index, match) for index, entry in enumerate(entries) for match in entry.match)
        for place, (index, match) in enumerate(matches):
            text = match.text.encode()
            rule = _Rule(place, index, text, None if match.pattern is None else match.compiled)
            self._rules.setdefault(text.translate(None, _DIGIT_BYTES).lower(), []).append(rule)
        self._readings = frozenset(line_readings.texts())
        self._words = tuple(dict.fromkeys((*_LOOKS_WRONG, *line_readings.texts())))
        self._texts = fixed_texts.table(tuple(dict.fromkeys((*self._rules, *self._words))))
        self._entries = entries
        self._findings: dict[int, Occurrence] = {}
        self._first_left_over: _Kept = {}
        self._first_read: _Kept = {}
        self._last_left_over: deque[tuple[int, LogLine]] = deque(maxlen=LEFT_OVER_LINES)
        self._node: str | None = None
        self._named: set[tuple[int, Origin]] = set()
        self.files: list[LogFile] = []

    @property
    def findings(self) -> list[Occurrence]:
        """Return the known errors, likely root causes first: by role, then by first occurrence.

        A symptom is a consequence if a fault or cause was logged before it.
        """
        found = _in_time(list(self._findings.values()))
        origins = [one for one in found if one.entry.role in LEADING]
        for one in found:
            if one.entry.role in _LATER:
                before = [origin for origin in origins if _is_before(origin, one)]
                one.origin = before[-1] if before else None
                one.role = ErrorRole.CONSEQUENCE if before else one.entry.role
        return sorted(found, key=lambda one: one.role.rank)

    @property
    def left_over(self) -> list[LogLine]:
        """Return lines that look like errors and are not in the catalogue, in the order of the logs.

        They are the first ones, which are more likely the cause of a failure than its consequence, the first that
        state their error themselves, and the last ones. Of lines that differ in numbers only, the first is returned.
        """
        kinds = dict(self._first_left_over)
        for kind, kept in self._first_read.items():
            kinds.setdefault(kind, kept)
        for kept in self._last_left_over:
            kinds.setdefault(_kind(kept[1].text), kept)
        return [line for _, line in sorted(kinds.values(), key=lambda kept: (kept[0], kept[1].number))]

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
        self._named.clear()
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

    def read_report(self, name: str, lines: Sequence[str], size_bytes: int) -> None:
        """Search the lines that were made from a file with another form than a log."""
        self._node = None
        self._named.clear()
        self._take(name, 1, "\n".join(lines).encode())
        self.files.append(LogFile(name, len(lines), size_bytes))

    def _take(self, name: str, number: int, piece: bytes) -> None:
        if b"\x1b" in piece:
            piece = _ESCAPES.sub(b"", piece)
        lines = piece.replace(b"\r", b"\n")
        hits, words = self._search(lines)
        unexplained = bytearray(lines.lower() if words else b"")
        for start in hits if words else ():
            end = _line_around(lines, start)[1]
            unexplained[start:end] = b" " * (end - start)
        self._keep(name, number, piece, lines, unexplained, words)
        last: dict[int, tuple[int, str]] = {}
        counted, at = number, 0
        for start, (index, text, match) in hits.items():
            counted += piece.count(b"\n", at, start)
            at = start
            entry = self._entries[index]
            below = _below(lines, start, entry)
            whole = "; ".join([text, *(further.string.strip() for further in below)]) if below else text
            if index not in self._findings:
                hit = LogLine(name, counted, _shown(whole))
                self._findings[index] = Occurrence(entry, hit, hit, _when(lines, start), entry.role)
            found = self._findings[index]
            found.count += 1
            last[index] = counted, whole
            origin = origin_of(text)
            if match is not None and match.lastindex:
                self._name_places(found, match.groupdict(), origin)
            elif (index, origin) not in self._named:
                if len(self._named) == PLACES_KEPT:
                    self._named.clear()
                self._named.add((index, origin))
                self._name_places(found, {}, origin)
            for further in below:
                self._name_places(found, further.groupdict(), Origin())
        for index, (line_number, whole) in last.items():
            self._findings[index].last = LogLine(name, line_number, _shown(whole))

    def _keep(
        self,
        name: str,
        number: int,
        piece: bytes,
        lines: bytes,
        unexplained: bytearray,
        words: Sequence[bytes],
    ) -> None:
        """Keep the first and last lines of a piece that look like errors and that no entry explains."""

        def kept(start: int, shown: str) -> tuple[int, LogLine]:
            return len(self.files), LogLine(name, number + piece.count(b"\n", 0, start), shown)

        readings = [word for word in words if word in self._readings]
        for first, looked_for, shown_if in (
            (self._first_left_over, words, _looks_wrong),
            (self._first_read, readings, _states_its_error),
        ):
            if len(first) < LEFT_OVER_LINES:
                for start, shown in _first_wrong_lines(lines, unexplained, looked_for, shown_if):
                    if len(first) < LEFT_OVER_LINES:
                        first.setdefault(_kind(shown), kept(start, shown))
        for start, shown in _last_wrong_lines(lines, unexplained, words):
            self._last_left_over.append(kept(start, shown))

    def _search(self, lines: bytes) -> tuple[dict[int, _Hit], list[bytes]]:
        """Return the lines that an entry explains, by their start, and the words of errors in the other lines."""
        # Most lines of a log differ from others in numbers only: one of each kind is searched.
        folded = _without_numbers(lines)
        kinds = b"\n".join(set(folded))
        lower = kinds.lower()
        rules_of: dict[frozenset[bytes], list[_Rule]] = {}
        known: dict[bytes, tuple[frozenset[bytes], list[_Rule]]] = {}
        for (start, end), found in fixed_texts.by_line(self._texts, lower).items():
            texts = frozenset(found)
            if (rules := rules_of.get(texts)) is None:
                rules = sorted(rule for text in texts for rule in self._rules.get(text, ()))
                rules_of[texts] = rules
            known[kinds[start:end]] = texts, rules
        hits: dict[int, _Hit] = {}
        unexplained: set[bytes] = set()
        start = 0
        for line, kind in zip(lines.split(b"\n") if known else (), folded, strict=False):
            if (there := known.get(kind)) is not None:
                texts, rules = there
                if hit := _first_match(line, rules):
                    hits[start] = hit
                else:
                    unexplained |= texts
            start += len(line) + 1
        words = [word for word in self._words if word in unexplained]
        return hits, words + [word for word in _SHORT_LOOKS_WRONG if word in lower]

    def _name_places(self, found: Occurrence, groups: dict[str, str | None], origin: Origin) -> None:
        host = groups.get("host") if self._node is None else None
        if host is None and not found.entry.about_others:
            host = origin.host if self._node is None else self._node or None
        named = groups.get("rank") or groups.get("ranks")
        ranks = [int(one) for one in _RANK_NUMBER.findall(named)] if named else []
        if not ranks and origin.rank is not None:
            ranks = [origin.rank]
        gpu = groups.get("gpu") or origin.gpu
        if host is not None and len(found.hosts) < PLACES_KEPT:
            found.hosts.setdefault(host)
        if ranks and len(found.ranks) < PLACES_KEPT:
            found.ranks.update(ranks)
        if gpu is not None and len(found.gpus) < PLACES_KEPT:
            found.gpus.setdefault(gpu)


def _in_time(found: list[Occurrence]) -> list[Occurrence]:
    """Return findings in the order of their time stamps; those without one keep their places."""
    stamps = [one.when for one in found if one.when is not None]
    if not stamps:
        return found
    first = earliest(stamps)
    stamped = iter(
        sorted((one for one in found if one.when), key=lambda one: first.until(one.when) if one.when else 0.0)
    )
    return [one if one.when is None else next(stamped) for one in found]


def _is_before(one: Occurrence, other: Occurrence) -> bool:
    """Return whether an error was logged before another, by its place in one file, else by the stamps."""
    if one.first.file == other.first.file:
        return one.first.number < other.first.number
    if one.when is None or other.when is None:
        return False
    return 0 <= one.when.until(other.when) <= _ONE_FAILURE_S


def _below(lines: bytes, start: int, entry: KnownError) -> list[re.Match[str]]:
    """Return the matches of the lines below a hit that belong to it."""
    found: list[re.Match[str]] = []
    pattern = entry.compiled_below
    while pattern is not None and len(found) < _LINES_BELOW:
        start = lines.find(b"\n", start) + 1
        if not start:
            break
        end = lines.find(b"\n", start)
        line = lines[start : len(lines) if end < 0 else end][: 2 * WINDOW_CHARACTERS]
        match = pattern.search(line.decode(errors="replace"))
        if match is None:
            break
        found.append(match)
    return found


def _when(lines: bytes, start: int) -> Stamp | None:
    """Return the time of a line, or of the nearest line before it that has a stamp."""
    for _ in range(_LINES_BEFORE):
        when = stamp_of(lines[start : start + _STAMP_CHARACTERS].decode(errors="replace"))
        if when is not None or not start:
            return when
        start = lines.rfind(b"\n", 0, start - 1) + 1
    return None


def _without_numbers(lines: bytes) -> list[bytes]:
    """Return lines without digits; without addresses, hashes and UUIDs as well where these tell many lines apart.

    A text of the catalogue has no such number, and every hit is proven on the line itself.
    """
    folded = lines.translate(None, _DIGIT_BYTES).split(b"\n")
    if 2 * len(set(folded)) < len(folded):
        return folded
    part = lines[: lines.rfind(b"\n", 0, _SAMPLE_BYTES) + 1]
    without = _HEX.sub(b"", part)
    kinds, fewer = (len(set(text.translate(None, _DIGIT_BYTES).split(b"\n"))) for text in (part, without))
    return (
        _HEX.sub(b"", lines).translate(None, _DIGIT_BYTES).split(b"\n") if 4 * fewer < 3 * kinds else folded
    )


def _first_match(line: bytes, rules: list[_Rule]) -> _Hit | None:
    """Return entry, text and match of the first rule that applies to a line, None if none does."""
    shown = line[: 2 * WINDOW_CHARACTERS].decode(errors="replace") if rules else ""
    for _, entry, text, pattern in rules:
        at = line.find(text)
        if at < 0:
            continue
        if pattern is None:
            return entry, shown, None
        window = shown
        if len(line) > WINDOW_CHARACTERS:
            window = line[max(0, at - WINDOW_CHARACTERS) : at + WINDOW_CHARACTERS].decode(errors="replace")
        if match := pattern.search(window):
            return entry, shown, match
    return None


def _line_around(lines: bytes, at: int) -> tuple[int, int]:
    """Return start and end of the line around a position.

    Carriage returns must have become line ends: they start a new line (progress bars), and a search for either of
    two characters would pass over the whole text where only the other one stands.
    """
    end = lines.find(b"\n", at)
    return lines.rfind(b"\n", 0, at) + 1, len(lines) if end < 0 else end


def _first_wrong_lines(
    lines: bytes, lower: bytearray, words: Sequence[bytes], shown_if: Callable[[bytes, bytes], str | None]
) -> list[tuple[int, str]]:
    """Return start and text of the first lines with words of errors in ``lower``, one of each kind."""
    found: dict[int, str] = {}
    for word in words:
        at = lower.find(word)
        kinds: set[str] = set()
        for _ in range(_tries(word)):
            if at < 0 or len(kinds) == LEFT_OVER_LINES:
                break
            start, end = _line_around(lines, at)
            if shown := shown_if(lines[start:end], word):
                found[start] = shown
                kinds.add(_kind(shown))
            at = lower.find(word, max(end, at + 1))
    return sorted(found.items())


def _last_wrong_lines(lines: bytes, lower: bytearray, words: Sequence[bytes]) -> list[tuple[int, str]]:
    """Return start and text of the last lines with words of errors in ``lower``."""
    found: dict[int, str] = {}
    for word in words:
        at, kept = lower.rfind(word), 0
        for _ in range(_tries(word)):
            if at < 0 or kept == LEFT_OVER_LINES:
                break
            start, end = _line_around(lines, at)
            if shown := _looks_wrong(lines[start:end], word):
                found[start] = shown
                kept += 1
            at = lower.rfind(word, 0, start)
    return sorted(found.items())[-LEFT_OVER_LINES:]


def _tries(word: bytes) -> int:
    return _LINES_TRIED if word in _WRONG else _LINES_READ


def _looks_wrong(line: bytes, word: bytes) -> str | None:
    """Return a line with a word of an error as it is shown; None if it reports something else."""
    if word not in _WRONG:
        return _states_its_error(line, word)
    shown = _shown(line[: 2 * WINDOW_CHARACTERS].decode(errors="replace"))
    return shown if shown and not _LOOKS_FINE.search(shown) else None


def _states_its_error(line: bytes, word: bytes) -> str | None:
    """Return a line as it is shown if a reading with this text applies to it, None if not."""
    shown = _shown(line[: 2 * WINDOW_CHARACTERS].decode(errors="replace"))
    return shown if line_readings.is_read(shown, word) and not _LOOKS_FINE.search(shown) else None


def _kind(line: str) -> str:
    """Return a line without its numbers: the same message of other ranks, times and steps."""
    return _DIGITS.sub("#", line)


def _shown(line: str) -> str:
    """Return a line for a terminal: without unprintable characters, and truncated."""
    text = ACTING.sub("", line.replace("\t", " ")).strip()
    return text if len(text) <= EXCERPT_CHARACTERS else text[: EXCERPT_CHARACTERS - 3] + "..."
