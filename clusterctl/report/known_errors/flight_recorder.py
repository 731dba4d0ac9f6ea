"""Dumps of torch's flight recorder: the first collective in which ranks differ, as lines that the catalogue knows.

torch writes one pickle per rank, or JSON on request. A pickle is a program, so it is not loaded: its opcodes are read
one by one, and one that could name or call anything ends the reading.
"""

from __future__ import annotations

import pickletools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

from clusterctl.text.foreign import json_value

MOST_BYTES = 64 << 20
"""torch keeps 2,000 collectives by default, with stacks about 4 MB."""
PICKLE = b"\x80"
_RANK_AT_END = re.compile(r"(\d{1,7})(?:\.json)?$")
_MOST_OPCODES = 20_000_000
_MOST_SIZES = 32
_MOST_CHARACTERS = 200
_OPENERS: dict[str, type[list[object]] | type[dict[object, object]]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
_CONSTANTS: dict[str, object] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = ("BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT")
_IGNORED = ("PROTO", "FRAME")


class DumpError(ValueError):
    """A dump that cannot be read, or holds more than plain values."""


def _beginning(value: object) -> object:
    if isinstance(value, str):
        return value[:_MOST_CHARACTERS]
    return value[:_MOST_SIZES] if isinstance(value, list) else value


# A pickle may repeat one value in many places, so that the bound of the file is not that of its values.
_Text = Annotated[str, BeforeValidator(_beginning)]
_Whole = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
_Sizes = Annotated[list[Annotated[list[_Whole], BeforeValidator(_beginning)]], BeforeValidator(_beginning)]


class _Entry(BaseModel):
    process_group: tuple[_Text, _Text]
    collective_seq_id: _Whole
    profiling_name: _Text
    is_p2p: bool = False
    input_sizes: _Sizes = []


class _Dump(BaseModel):
    entries: list[object] = Field(max_length=20_000)


@dataclass(frozen=True, slots=True)
class RankDump:
    """What one rank called: the collectives of each group by their numbers."""

    rank: int
    calls: dict[str, dict[int, str]]


def rank_of(name: str) -> int | None:
    """Return the rank at the end of a dump's file name (``nccl_trace_rank_3``), None without one."""
    match = _RANK_AT_END.search(name)
    return None if match is None else int(match[1])


def looks_like_dump(beginning: bytes) -> bool:
    """Return whether a file begins as a dump, in either form."""
    if beginning.startswith(PICKLE):
        return b"nccl_version" in beginning or b"comm_lib_version" in beginning or b"entries" in beginning
    return beginning.lstrip().startswith(b"{") and (
        b'"comm_lib_version"' in beginning or b'"profiling_name"' in beginning or b'"pg_config"' in beginning
    )


def read(rank: int, content: bytes) -> RankDump:
    """Read the dump of one rank; raise DumpError."""
    try:
        plain = (
            plain_values(content)
            if content.startswith(PICKLE)
            else json_value(content, most_bytes=MOST_BYTES)
        )
        dump = TypeAdapter(_Dump).validate_python(plain)
        # One by one, so that the first invalid entry ends it: pydantic collects the errors of a whole list.
        entries = [_Entry.model_validate(entry) for entry in dump.entries]
    except (ValidationError, ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, DumpError) else "it is not a dump of the flight recorder"
        raise DumpError(reason) from error
    calls: dict[str, dict[int, str]] = {}
    for entry in entries:
        if entry.is_p2p:
            continue
        number, name = entry.process_group
        group = f"{number[:20]} ({name[:40]})"
        call = f"{entry.profiling_name.partition(':')[2] or entry.profiling_name} {entry.input_sizes}"
        calls.setdefault(group, {})[entry.collective_seq_id] = call[:120]
    return RankDump(rank, calls)


def plain_values(content: bytes) -> object:
    """Return the value of a pickle of plain values only; raise DumpError for one that names or calls anything."""
    stack: list[object] = []
    marks: list[int] = []
    memo: dict[int, object] = {}
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(content)):
            name = opcode.name
            if number > _MOST_OPCODES:
                raise DumpError("it has too many values")
            if name in _OPENERS:
                stack.append(_OPENERS[name]())
            elif name in _CONSTANTS:
                stack.append(_CONSTANTS[name])
            elif name in _VALUES:
                stack.append(argument)
            elif name == "MARK":
                marks.append(len(stack))
            elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
                memo[len(memo) if name == "MEMOIZE" else _whole(argument)] = stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                stack.append(memo[_whole(argument)])
            elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
                count = int(name[-1])
                stack[-count:] = [tuple(stack[-count:])]
            elif name in ("APPENDS", "SETITEMS", "TUPLE", "APPEND", "SETITEM"):
                one = {"APPEND": 1, "SETITEM": 2}.get(name)
                at = marks.pop() if one is None else len(stack) - one
                items = stack[at:]
                del stack[at:]
                _put(stack, name, items)
            elif name == "STOP":
                return stack.pop()
            elif name not in _IGNORED:
                raise DumpError(f"it holds more than plain values ({name})")
    except DumpError:
        raise
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise DumpError("its pickle is damaged") from error
    raise DumpError("its pickle is cut off")


def _put(stack: list[object], name: str, items: list[object]) -> None:
    if name == "TUPLE":
        stack.append(tuple(items))
        return
    target = stack[-1]
    if isinstance(target, list) and name.startswith("APPEND"):
        target.extend(items)
    elif (
        isinstance(target, dict)
        and name.startswith("SETITEM")
        # The hash of a tuple of tuples may take forever.
        and all(isinstance(key, str) for key in items[::2])
    ):
        target.update(zip(items[::2], items[1::2], strict=True))
    else:
        raise DumpError("its pickle is damaged")


def _whole(argument: object) -> int:
    if not isinstance(argument, int):
        raise DumpError("its pickle is damaged")
    return argument


def first_divergences(dumps: Sequence[RankDump]) -> list[str]:
    """Return the first call of each group in which the ranks differ, with the ranks; empty if they agree.

    The ranks of a group are those that have a call of it, of the default group all. The recorder keeps the last calls
    only, so the comparison begins where each rank has one. Numbers that no rank has are skipped: torch also counts
    groups of sends and receives.
    """
    return [
        line for group in sorted({name for one in dumps for name in one.calls}) for line in _of(group, dumps)
    ]


def _of(group: str, dumps: Sequence[RankDump]) -> Iterator[str]:
    everyone = group.endswith("(default_pg)")
    calls = {one.rank: one.calls.get(group, {}) for one in dumps if everyone or group in one.calls}
    begin = max(min(own) for own in calls.values() if own)
    for number in sorted({one for own in calls.values() for one in own if one >= begin}):
        made = {rank: own[number] for rank, own in calls.items() if number in own}
        absent = sorted(set(calls) - set(made))
        usual = Counter(made.values()).most_common(1)[0][0]
        alike = [rank for rank, call in made.items() if call == usual]
        others = {rank: call for rank, call in made.items() if call != usual}
        place = f"flight recorder: group {group}, call {number}:"
        if others:
            first, *more = sorted(others)
            rest = "most ranks" if 2 * len(alike) > len(made) else f"rank {alike[0]}"
            yield f"{place} rank {first} called {others[first]}, {rest} {usual}"
            yield from (f"  rank {rank} called {others[rank]}" for rank in more)
        elif absent:
            first, *more = absent
            yield f"{place} rank {first} did not call {usual}, {len(made)} other ranks did"
            yield from (f"  rank {rank} did not call it" for rank in more)
        if others or absent:
            return
