"""Show what a step changes in a file: a unified diff of the node's text and the new one, with secrets as stars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from clusterctl.requirements.steps import WriteBlock, WriteFile
from clusterctl.text.secret.scrub import scrubbed, scrubbed_json

LINES = 16
"""The most lines of one diff that are shown."""
_CHARACTERS = 120
_CONTEXT_LINES = 1
_MOST_PAIRS = 1_000_000
"""Above so many pairs of lines, a comparison of all of them takes seconds."""


@dataclass(frozen=True, slots=True)
class Present:
    """A file as a node has it; ``text`` is None if it is not known: too large, not text, or not a regular file."""

    exists: bool
    text: str | None = None
    mode: int | None = None
    size_bytes: int = 0


def after(step: WriteFile | WriteBlock, present: Present | None) -> str:
    """Return the text of a step's file once the step is done; of an unknown file, only what the step writes."""
    if isinstance(step, WriteFile):
        return step.content
    content = step.content if not step.content or step.content.endswith("\n") else f"{step.content}\n"
    begin, end = f"# BEGIN clusterctl {step.name}", f"# END clusterctl {step.name}"
    block = f"{begin}\n{content}{end}\n"
    text = present.text if present is not None else None
    if not text:
        return block
    lines = _lines(text)
    if begin in lines and end in lines[lines.index(begin) :]:
        first = lines.index(begin)
        last = lines.index(end, first)
        return "\n".join([*lines[:first], *_lines(block), *lines[last + 1 :]]) + "\n"
    return "\n".join([*lines, *_lines(block)]) + "\n"


def shown(step: WriteFile | WriteBlock, present: Present | None) -> tuple[str, ...]:
    """Return the lines of a step's diff, cut at ``LINES`` with the number of lines left out."""
    new = after(step, present)
    if present is None or not present.exists:
        return diff(step.path, "", new)
    if present.text is None:
        if isinstance(step, WriteBlock):
            return diff(step.path, "", new)
        return (f"replaces {present.size_bytes} bytes:", *diff(step.path, "", new))
    return diff(step.path, present.text, new)


@lru_cache(maxsize=512)
def diff(path: str, old: str, new: str) -> tuple[str, ...]:
    """Return a unified diff without its file names, secrets as stars; each line begins with ``+``, ``-`` or a blank.

    Texts are compared before their secrets are masked, so that a new secret shows as a changed line.
    """
    masked = _masked(path, old), _masked(path, new)
    sides = [_lines(text) for text in masked]
    raw = [_lines(old), _lines(new)]
    if [len(lines) for lines in sides] != [len(lines) for lines in raw]:
        raw = sides  # JSON with secrets is formatted again
    lines = list(_unified(raw, sides))
    if not lines and old != new:
        return ("only white space or masked secrets differ",)
    if not old and lines:
        del lines[0]  # all lines are new: their numbers show nothing
    left = lines[LINES:]
    if len(left) <= 1:
        return tuple(lines)
    counts = [f"{count} {sign}" for sign in "+-" if (count := sum(line[0] == sign for line in left))]
    return (*lines[:LINES], f"... {len(left)} more lines ({', '.join(counts)})" if counts else "...")


@lru_cache(maxsize=512)
def _masked(path: str, text: str) -> str:
    return scrubbed_json(text) if path.endswith(".json") else scrubbed(text)


def _lines(text: str) -> list[str]:
    """Return lines as diff(1) counts them: only line feeds separate lines."""
    return text.removesuffix("\n").split("\n") if text else []


def _unified(raw: list[list[str]], sides: list[list[str]]) -> Iterator[str]:
    """Yield the diff of two lists of lines; ``sides`` are the lines to show for the compared ``raw`` ones."""
    for group in _hunks(*raw):
        (_, first_old, _, first_new, _), (_, _, last_old, _, last_new) = group[0], group[-1]
        yield f"@@ -{_place(first_old, last_old)} +{_place(first_new, last_new)} @@"
        for tag, from_old, to_old, from_new, to_new in group:
            if tag == "equal":
                yield from (_cut(f"  {line}") for line in sides[0][from_old:to_old])
                continue
            yield from (_cut(f"- {line}") for line in sides[0][from_old:to_old])
            yield from (_cut(f"+ {line}") for line in sides[1][from_new:to_new])


def _hunks(old: list[str], new: list[str]) -> list[list[tuple[str, int, int, int, int]]]:
    """Return groups of (tag, lines of ``old``, lines of ``new``) as difflib does, in bounded time."""
    if len(old) * len(new) <= _MOST_PAIRS:
        found = SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT_LINES)
        return [list(group) for group in found]
    start = end = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    if start == len(old) == len(new):
        return []
    return [[("replace", start, len(old) - end, start, len(new) - end)]]


def _place(first: int, last: int) -> str:
    """Return a range of lines as unified diffs write it: the first line, from 1, and the number of lines."""
    count = last - first
    return str(first + 1) if count == 1 else f"{first + 1 if count else first},{count}"


def _cut(line: str) -> str:
    return line if len(line) <= _CHARACTERS else f"{line[: _CHARACTERS - 3]}..."
