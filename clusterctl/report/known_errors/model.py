"""What the catalogue of known errors may say: one entry per error, with its cited cause and its fix."""

from __future__ import annotations

import re
from enum import Enum
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from clusterctl.inventory.field_types import RequirementName

WINDOW_CHARACTERS = 1000
"""How far around its fixed text a pattern may look: this and bounded repeats keep the cost of a line bounded."""

# A repeat of a group, or of "any character" without an upper bound, may take time beyond all measure on a long line.
_UNBOUNDED = re.compile(r"(?<!\\)\)[*+]|(?<!\\)\)\{\d+,\}|(?<!\\)\.[*+]|(?<!\\)\.\{\d+,\}|\\S[*+]\?\\S[*+]")


class Role(str, Enum):
    """What an error's place is among the others of a log; the order is that of likely root causes."""

    FAULT = "fault"
    """Hardware, driver or kernel says that something broke: before everything else."""
    CAUSE = "cause"
    """A state or setting that ends the run."""
    SLOW_PATH = "slow-path"
    """The run goes on, slower than it could."""
    NOTE = "note"
    """Worth knowing; seldom the reason why a run ended."""
    CONSEQUENCE = "consequence"
    """Follows from something else that failed, on this rank or another."""

    @property
    def rank(self) -> int:
        """The place in the order of causes; 0 first."""
        return list(Role).index(self)


def _safe_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if _UNBOUNDED.search(text):
        raise ValueError("repeats of groups and of '.' need an upper bound, such as .{0,200}")
    return text


Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=8)]
Pattern = Annotated[str, AfterValidator(_safe_pattern)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Match(_Part):
    """A fixed text that lines are searched for, and a pattern that such a line must also match.

    The pattern's named groups ``host`` and ``rank`` tell where it happened, when the line says so.
    """

    text: Annotated[str, StringConstraints(min_length=5)]
    pattern: Pattern | None = None

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern, or the fixed text."""
        return re.compile(re.escape(self.text) if self.pattern is None else self.pattern)


class Entry(_Part):
    """One known error."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    tool: Line | Annotated[str, StringConstraints(min_length=2)]
    """Who says it."""
    role: Role = Role.CAUSE
    match: Annotated[tuple[Match, ...], Field(min_length=1)]
    examples: Annotated[tuple[Line, ...], Field(min_length=1)]
    """Lines as the tool prints them, one for each match."""
    meaning: Line
    cause: Line
    fix: Line
    sources: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^https://\S+$")], ...], Field(min_length=1)
    ]
    requirement: RequirementName | None = None
    """The requirement that `clusterctl check` judges for it."""
    check: Annotated[str, StringConstraints(pattern=r"^[a-z]")] | None = None
    """Another verb of clusterctl that shows or proves it."""

    @model_validator(mode="after")
    def _examples_match(self) -> Entry:
        for match in self.match:
            shown = [line for line in self.examples if match.text in line and match.compiled.search(line)]
            if not shown:
                raise ValueError(f"{self.id}: no example has {match.text!r} and matches its pattern")
        return self

    @property
    def how_to_check(self) -> str | None:
        """The command of clusterctl that tells whether it is so, or None."""
        if self.requirement is not None:
            return f"clusterctl check INVENTORY --only {self.requirement}"
        return None if self.check is None else f"clusterctl {self.check}"


class Topic(_Part):
    """One file of the catalogue."""

    topic: Line | Annotated[str, StringConstraints(min_length=2)]
    entries: Annotated[tuple[Entry, ...], Field(min_length=1)]
