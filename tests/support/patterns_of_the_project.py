"""Every regular expression of clusterctl, with the functions that apply it, and lines that cost it the most.

The source is searched for calls of ``re`` (and for what hands a pattern on to one); the catalogue of known errors
holds the others. A pattern that is put together from variables is tried with a short word for each of them.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clusterctl
from clusterctl.report.known_errors import line_readings
from clusterctl.report.known_errors.model import WINDOW_CHARACTERS
from clusterctl.report.known_errors.scan import EXCERPT_CHARACTERS
from clusterctl.report.known_errors.topic_files import load

if sys.version_info >= (3, 11):
    from re import _constants as codes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as codes
    import sre_parse as parser

LINE_CHARACTERS = 64 * 1024
PACKAGE = Path(clusterctl.__file__).parent
_FUNCTIONS = ("match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "split")
HANDED_ON = {"matching": "fullmatch"}
"""Methods of our own that apply the pattern that they are called with."""
OF_DATA = {
    "images/bundle.py": "libraries of our own",
    "report/known_errors/model.py": "of_catalogue() has them",
    "report/known_errors/line_readings.py": "of_catalogue() has them",
    "facts/vendors/tables.py": "names in tables of our own",
}
"""Modules whose patterns stand in files that come with the project, and why they are not looked for here."""
_FLAGS_AT = {"compile": 1, "match": 2, "fullmatch": 2, "search": 2, "findall": 2, "finditer": 2}
_ALL = frozenset({"search", "findall"})


@dataclass(frozen=True, slots=True)
class Used:
    """One pattern: where it stands, the pattern, and the names of the functions that apply it."""

    place: str
    pattern: re.Pattern[Any]
    functions: frozenset[str]
    most_characters: int = LINE_CHARACTERS
    """How long a text it is applied to."""


class _Words(dict[str, Any]):
    """A module's names; what only a function knows is a short word."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, "word1")


def _evaluated(node: ast.expr, names: dict[str, Any]) -> Any:
    """Return the value of an expression; None where only a function's own variables would give it."""
    if isinstance(node, ast.JoinedStr):
        parts = [_evaluated(part, names) for part in node.values]
        return "".join("word1" if part is None else str(part) for part in parts)
    if isinstance(node, ast.FormattedValue):
        return _evaluated(node.value, names)
    code = compile(ast.fix_missing_locations(ast.Expression(node)), "<pattern>", "eval")
    try:
        # A mapping with defaults serves as locals only: globals must be a plain dict.
        return eval(code, {**names}, _Words(names))  # the project's own source
    except (NameError, TypeError, AttributeError, KeyError, ValueError):
        return None


def _uses(trees: list[ast.Module]) -> dict[str, set[str]]:
    """Return the functions by the name of the compiled pattern that they are called on."""
    found: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in _FUNCTIONS:
                held = node.value
                name = getattr(held, "id", None) or getattr(held, "attr", None)
                if name is not None:
                    found.setdefault(name, set()).add(node.attr)
    return found


def _names_of(tree: ast.Module) -> dict[ast.AST, str]:
    """Return the name that a call's result is assigned to, where it is assigned to one."""
    found: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            found[node.value] = getattr(target, "id", None) or getattr(target, "attr", "")
    return found


def _patterns(argument: ast.expr, tree: ast.Module, names: dict[str, Any], place: str) -> list[str | bytes]:
    """Return what a call's pattern may be; nothing for a function's parameter, whose callers are searched for."""
    if isinstance(argument, ast.Name) and argument.id not in names:
        loops = [node for node in ast.walk(tree) if isinstance(node, ast.comprehension)]
        tables = [loop.iter for loop in loops if getattr(loop.target, "id", "") == argument.id]
        return [
            text for table in tables for text in _evaluated(table, names) if isinstance(text, str | bytes)
        ]
    text = _evaluated(argument, names)
    if place in OF_DATA:
        return []
    assert isinstance(text, str | bytes), f"{place}: this pattern cannot be tried"
    return [text]


def of_source() -> list[Used]:
    """Return every pattern of the source; AssertionError for one that cannot be tried."""
    # An installed package holds the templates too: programs for elsewhere, which nothing here imports.
    paths = sorted(
        path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "templates"
    )
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    everywhere = _uses(trees)
    found: dict[tuple[str, Any, int], set[str]] = {}
    for path, tree in zip(paths, trees, strict=True):
        module = ".".join(("clusterctl", *path.relative_to(PACKAGE).with_suffix("").parts))
        names, held, own = None, _names_of(tree), _uses([tree])
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            called = node.func.attr
            of_re = getattr(node.func.value, "id", "") == "re" and called in (*_FUNCTIONS, "compile")
            if not of_re and called not in HANDED_ON:
                continue
            if names is None:
                names = vars(importlib.import_module(module.removesuffix(".__init__")))
            place = str(path.relative_to(PACKAGE))
            given = [keyword.value for keyword in node.keywords if keyword.arg == "flags"]
            given += node.args[_FLAGS_AT.get(called, 99) :]
            flags = int(_evaluated(given[0], names) or 0) if given and of_re else 0
            if called == "compile":
                name = held.get(node, "")
                used = own if name.startswith("_") or not name else everywhere
                # Patterns in tables, and those handed to a function, are applied under the name "pattern" or "allowed".
                functions = used.get(name) or own.get("pattern") or own.get("allowed") or _ALL
            else:
                functions = {HANDED_ON.get(called, called)}
            for text in _patterns(node.args[0], tree, names, place):
                found.setdefault((f"{place}:{node.lineno}", text, flags), set()).update(functions)
    return [Used(place, re.compile(text, flags), frozenset(of)) for (place, text, flags), of in found.items()]


def of_catalogue() -> list[Used]:
    """Return the patterns of the known errors, searched for in a window, and those that read lines as shown."""
    entries = [
        Used(f"{entry.id} ({index})", match.compiled, frozenset({"search"}), 2 * WINDOW_CHARACTERS)
        for entry in load()
        for index, match in enumerate(entry.match)
    ]
    readings = [
        Used(f"{family.family}: {row.texts[0]}", pattern, frozenset({"search"}), EXCERPT_CHARACTERS)
        for family in line_readings.families()
        for row in family.readings
        for pattern in (row.any_text, row.compiled)
        if pattern is not None
    ]
    return entries + readings


# What follows makes lines: an example of what stands before each repeat of a pattern, then what it repeats.


def _example(tree: Any) -> str:
    return "".join(_shown(code, argument) for code, argument in tree)


def _shown(code: Any, argument: Any) -> str:
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.NOT_LITERAL:
        return "a" if argument != ord("a") else "b"
    if code is codes.ANY:
        return "a"
    if code is codes.IN:
        return _of_class(argument)
    if code is codes.BRANCH:
        return _example(argument[1][0])
    if code is codes.SUBPATTERN:
        return _example(argument[-1])
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        return _example(argument[2]) * max(1, argument[0])
    return ""


_TRIED = "a1 \t.:/-_[]()<>=,\"'\\#@;{}%$!|A0zé\n"


def _of_class(items: Any) -> str:
    negated = bool(items) and items[0][0] is codes.NEGATE
    for character in _TRIED:
        if (
            any(_holds(code, argument, character) for code, argument in items if code is not codes.NEGATE)
            != negated
        ):
            return character
    code, argument = items[0]
    return chr(argument) if code is codes.LITERAL else chr(argument[0]) if code is codes.RANGE else "a"


_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d", codes.CATEGORY_NOT_DIGIT: r"\D", codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S", codes.CATEGORY_WORD: r"\w", codes.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def _holds(code: Any, argument: Any, character: str) -> bool:
    if code is codes.LITERAL:
        return bool(argument == ord(character))
    if code is codes.RANGE:
        return bool(argument[0] <= ord(character) <= argument[1])
    return code is codes.CATEGORY and re.match(_CATEGORIES[argument], character) is not None


def _pumps(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """Yield (what leads to a repeat, what it repeats), for every repeat of a pattern, at any depth."""
    for code, argument in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            yield from _pumps(argument[2], before)
            if argument[1] is codes.MAXREPEAT or argument[1] > 8:
                body = _example(argument[2])
                if body:
                    yield before, body
                if len(argument[2]) == 1 and argument[2][0][0] in (codes.ANY, codes.IN, codes.NOT_LITERAL):
                    # Whatever else the class takes: blanks and digits are what other parts of a pattern wait for.
                    for other in (" ", "1", "[", ":", "\n"):
                        if other != body and _shown_by(argument[2][0], other):
                            yield before, other
        elif code is codes.SUBPATTERN:
            yield from _pumps(argument[-1], before)
        elif code is codes.BRANCH:
            for branch in argument[1]:
                yield from _pumps(branch, before)
        before += _shown(code, argument)


def _shown_by(node: Any, character: str) -> bool:
    code, argument = node
    if code is codes.ANY:
        return True
    if code is codes.NOT_LITERAL:
        return bool(argument != ord(character))
    negated = bool(argument) and argument[0][0] is codes.NEGATE
    return any(_holds(c, a, character) for c, a in argument if c is not codes.NEGATE) != negated


def adversarial(pattern: re.Pattern[Any], size: int) -> Iterator[Any]:
    """Yield lines of about ``size`` characters that make a pattern work the most: each ends in what fits nothing."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(
        source, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    )
    lines = dict.fromkeys(character * size for character in " a1.:/-[\"'\n")
    for before, body in dict.fromkeys(_pumps(tree, "")):
        lines[before + body * (size // len(body))] = None
        lines[(before + body) * (size // len(before + body))] = None
        lines[(before + body * 64) * (size // (len(before) + 64 * len(body)))] = None
    whole = _example(tree)
    if whole:
        lines[whole * (size // len(whole))] = None
    for line in lines:
        yield (line + "\x01").encode("utf-8") if isinstance(pattern.pattern, bytes) else line + "\x01"
