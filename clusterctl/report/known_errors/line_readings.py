"""Read what a line states by itself: the name of an error, a status, a signal, an exit code."""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from clusterctl import resources
from clusterctl.report.known_errors.model import Line, Pattern

_TABLE = Path(__file__).with_name("line_readings.yaml")
GROUP = re.compile(r"\{([a-z]{1,20})\}")
"""Where a text has a group of the pattern."""

Text = Annotated[str, StringConstraints(pattern=r"^[^0-9A-Z*]{5,}\*?$")]
"""A text in small letters and without digits, because lines are searched without their digits.

It is a word of its own, or with ``*`` at its end, the beginning of one.
"""


_ADVICE = re.compile(
    r"(?:^|[.:;,!?(\])] |[\"'-] )(?P<advice>"
    r"(?:please (?:upgrade|update|install|check|set|unset|remove|increase|decrease|raise|lower|verify|run|use|try"
    r"|restart|reboot|enable|disable|rebuild|reinstall|specify|configure|add|make sure|ensure|reduce|export|download)\b"
    r"|try (?:to |using |setting |running |adding |increasing |updating |reducing |again |'|`|-)"
    r"|consider (?:using |setting |increasing |updating |adding )|make sure (?:that |you |the )?|did you mean "
    r"|you (?:may|might|can|should|need to|must|have to) (?:want to |also )?(?:run|set|use|install|try|increase|add"
    r"|specify|update|upgrade|enable|disable|need|have to|consider)\b)[^\n]{4,200}?)(?:[.!] |[.!]?$)",
    re.I,
)
"""The sentence of a line that names the next step: documented words of advice with what follows them."""
_CAUSE = re.compile(
    r"\b(?:(?:typically|usually|often|most likely|probably|possibly|commonly|generally) (?:be )?(?:caused|triggered) by"
    r"|(?:can|may|might|could) (?:also )?be (?:caused|due to|the result of)(?: by)?"
    r"|(?:usually|typically|probably|often|most likely|generally) (?:means|indicates|due to|because)(?: that)?"
    r"|(?:can|may|might|will) (?:happen|occur) (?:if|when|because)"
    r"|(?:possible|likely|probable|common) (?:causes?|reasons?)(?: (?:is|are|include))?:?)"
    r" (?P<cause>[^\n]{6,240}?)(?:[.!] |[.!]?$)",
    re.I,
)
"""The sentence of a line that names a possible cause: documented words of hedging with what follows them."""
_NAMES_A_STEP = "The line itself has advice for the next step."
_CHECK_THE_CAUSE = "Check on that node whether this cause applies; errors before the line may name another."
_SENTENCES = "https://www.gnu.org/prep/standards/html_node/Errors.html"

_NO_QUOTES = str.maketrans('"`', "''")
_SHELL = {126: "cannot execute", 127: "command not found"}
"""Exit codes of shells, by the text of their row."""


class LineReading(NamedTuple):
    """What a line states, and the next check; ``follows`` if it is the outcome of an earlier error."""

    says: str
    next: str
    source: str
    follows: bool


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Row(_Part):
    """Lines that state the same: with one of the texts, and with the pattern if there is one."""

    texts: Annotated[tuple[Text, ...], Field(min_length=1)]
    pattern: Pattern | None = None
    says: str
    next: Line
    follows: bool = False
    example: Line | None = None

    @model_validator(mode="after")
    def _example_matches(self) -> _Row:
        if (self.pattern is None) != (self.example is None):
            raise ValueError(f"{self.texts[0]}: a reading with a pattern, and no other, has an example")
        if self.example is not None and self.match(self.example) is None:
            raise ValueError(f"{self.texts[0]}: does not match its example")
        return self

    @cached_property
    def beginnings(self) -> tuple[str, ...]:
        """Return the texts without the mark of those that begin a word."""
        return tuple(text.removesuffix("*") for text in self.texts)

    @cached_property
    def any_text(self) -> re.Pattern[str]:
        """Return the pattern of all texts."""
        # The name of a constant may be the end of a longer one (NVML_ERROR_GPU_IS_LOST).
        words = (
            ("(?<![a-z0-9])" if "_" in text else "(?<![a-z0-9_])")
            + re.escape(text.removesuffix("*"))
            + (r"(?![a-z0-9_])" if text[-1].isalpha() else "")
            for text in self.texts
        )
        return re.compile("|".join(words), re.I)

    @cached_property
    def compiled(self) -> re.Pattern[str] | None:
        """Return the pattern that a line with one of the texts must match, None if there is none."""
        return None if self.pattern is None else re.compile(self.pattern, re.I)

    def match(self, line: str) -> re.Match[str] | None:
        """Return the match of the pattern, or of a text if there is no pattern; None if the line states another."""
        lower = line.lower()
        # Plain searches rule out nearly all lines at a tenth of the time.
        found = self.any_text.search(line) if any(text in lower for text in self.beginnings) else None
        return found if found is None or self.compiled is None else self.compiled.search(line)

    def reading(self, match: re.Match[str], source: str) -> LineReading:
        """Return what the line states, with the groups of its pattern."""
        groups = match.groupdict()
        if number := groups.get("errno"):
            return _of_number(int(number), self.next, source)
        if number := groups.get("kernel"):
            says = f"The kernel or a driver failed with {_named(int(number))}."
            return LineReading(says, self.next, source, self.follows)
        if found := _of_exit_code(int(groups.get("exit") or 0)):
            return found

        def named(group: re.Match[str]) -> str:
            return (groups.get(group[1]) or "it").strip()

        def pasted(group: re.Match[str]) -> str:
            # The step may be a command to paste, and the line that of a rank.
            return shlex.quote(named(group)).replace("`", "'")

        return LineReading(GROUP.sub(named, self.says), GROUP.sub(pasted, self.next), source, self.follows)


class _Family(_Part):
    """Readings with the document that defines the names."""

    family: Line | Annotated[str, StringConstraints(min_length=3)]
    source: Annotated[str, StringConstraints(pattern=r"^https://\S+$")]
    readings: Annotated[tuple[_Row, ...], Field(min_length=1)]


@cache
def families() -> tuple[_Family, ...]:
    """Return the families of readings, the narrower ones first."""
    return tuple(map(_Family.model_validate, resources.table(_TABLE)))


@cache
def _rows_of() -> dict[bytes, tuple[_Row, ...]]:
    rows: dict[bytes, list[_Row]] = {}
    for family in families():
        for row in family.readings:
            for text in row.beginnings:
                rows.setdefault(text.encode(), []).append(row)
    return {text: tuple(found) for text, found in rows.items()}


def texts() -> tuple[bytes, ...]:
    """Return the texts of all readings, in small letters."""
    return tuple(_rows_of())


def is_read(line: str, text: bytes) -> bool:
    """Return whether a reading with this text applies to a line."""
    return any(row.match(line) for row in _rows_of()[text])


def read(line: str) -> LineReading | None:
    """Return what a line states by itself, with the cause and the advice that it names; None if it has none of them."""
    reading, advice, cause = _of_tables(line), _ADVICE.search(line), _CAUSE.search(line)
    # A program wrote it, not clusterctl: a rank may print anything in the form of advice.
    steps = [f"The line advises (a quotation): {_quoted(advice['advice'])}."] if advice else []
    says = [f"Possible cause, as the line puts it: {_quoted(cause['cause'])}."] if cause else []
    if reading is not None:
        says, steps = [reading.says, *says], [*steps, reading.next]
        return reading._replace(says=" ".join(says), next=" ".join(steps))
    if not says and not steps:
        return None
    return LineReading(
        says[0] if says else _NAMES_A_STEP, steps[0] if steps else _CHECK_THE_CAUSE, _SENTENCES, follows=True
    )


def _quoted(text: str) -> str:
    """Return a text of a line in quotation marks, without further ones and without backticks."""
    return f'"{text.strip().translate(_NO_QUOTES)}"'


def _of_tables(line: str) -> LineReading | None:
    """Return what a line states by the tables, None if no table has it."""
    for family in families():
        for row in family.readings:
            if match := row.match(line):
                return row.reading(match, family.source)
    return None


def _of_number(number: int, check: str, source: str) -> LineReading:
    """Return the reading of the errno of a number: that of its text, if a table has it."""
    found = read(os.strerror(number)) if number in errno.errorcode else None
    if found is None:
        return LineReading(f"The call failed with {_named(number)}.", check, source, follows=False)
    return found._replace(says=f"The error number {number} is {found.says}")


def _of_exit_code(code: int) -> LineReading | None:
    """Return the reading of an exit code that a shell or a launcher gives by itself, None for that of a program."""
    if code in _SHELL:
        return read(_SHELL[code])
    try:
        return read(signal.Signals(-code if code < 0 else code - 128).name)
    except ValueError:
        return None


def _named(number: int) -> str:
    """Return an error number with its name and text."""
    name = errno.errorcode.get(number)
    return f"the error number {number}" + (f", {name} ({os.strerror(number)})" if name else "")
