"""The model of the catalogue of known errors: one entry per error, with its cited cause and its fix."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from clusterctl.documents.kinds import ErrorRole
from clusterctl.inventory.field_types import RequirementName
from clusterctl.text.typed_inventory import filled

WINDOW_CHARACTERS = 1000
"""How far around its fixed text a pattern is applied; with bounded repeats, this bounds the cost of a line."""

# An unbounded repeat of a group or of "any character" can take exponential time on a long line.
_UNBOUNDED = re.compile(r"(?<!\\)\)[*+]|(?<!\\)\)\{\d+,\}|(?<!\\)\.[*+]|(?<!\\)\.\{\d+,\}|\\S[*+]\?\\S[*+]")


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
    """A fixed text to search for, and a pattern that a line with this text must also match.

    The pattern's optional named groups ``host``, ``rank`` (or ``ranks``: several, with commas) and ``gpu`` capture
    where the error occurred.
    """

    text: Annotated[str, StringConstraints(pattern=r"^(?:[0-9]*[^0-9]){5}")]
    """At least five characters besides digits, because lines are searched without their digits."""
    pattern: Pattern | None = None

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """Return the pattern, or the escaped fixed text."""
        return re.compile(re.escape(self.text) if self.pattern is None else self.pattern)


class KnownError(_Part):
    """One known error."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    tool: Line | Annotated[str, StringConstraints(min_length=2)]
    """The program that prints it."""
    role: ErrorRole = ErrorRole.CAUSE
    match: Annotated[tuple[Match, ...], Field(min_length=1)]
    examples: Annotated[tuple[Line, ...], Field(min_length=1)]
    """Lines as the tool prints them, one for each match."""
    meaning: Line
    cause: Line
    fix: Line
    sources: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^(?:https://|collective_core/docs/)\S+$")], ...],
        Field(min_length=1),
    ]
    about_others: bool = False
    """Whether the line reports other ranks, so that the node that prints it is not at fault and is not named.

    The pattern may capture the ``host`` at fault.
    """
    below: Pattern | None = None
    """A line directly below one that matches; it belongs to it and may capture further places."""
    requirement: RequirementName | None = None
    """The requirement of `clusterctl check` that covers it."""
    check: Annotated[str, StringConstraints(pattern=r"^[a-z]")] | None = None
    """Another command of clusterctl that shows or proves it."""

    @model_validator(mode="after")
    def _examples_match(self) -> KnownError:
        for match in self.match:
            shown = [line for line in self.examples if match.text in line and match.compiled.search(line)]
            if not shown:
                raise ValueError(f"{self.id}: no example contains {match.text!r} and matches its pattern")
        return self

    @cached_property
    def compiled_below(self) -> re.Pattern[str] | None:
        """Return the pattern of the lines below, None if there is none."""
        return None if self.below is None else re.compile(self.below)

    @property
    def how_to_check(self) -> str | None:
        """Return the clusterctl command that confirms the cause, or None."""
        if self.requirement is not None:
            return filled(f"clusterctl check INVENTORY --only {self.requirement}")
        return None if self.check is None else f"clusterctl {self.check}"


class Topic(_Part):
    """One file of the catalogue."""

    topic: Line | Annotated[str, StringConstraints(min_length=2)]
    entries: Annotated[tuple[KnownError, ...], Field(min_length=1)]
