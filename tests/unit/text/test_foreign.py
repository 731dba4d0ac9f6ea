"""Numbers, lines and JSON of others: what is beyond a bound is refused by one error, before it costs anything."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path

import pytest

import clusterctl
from clusterctl.text import foreign, json_text
from clusterctl.text.foreign import NotUnderstood

PACKAGE = Path(clusterctl.__file__).parent


@pytest.mark.parametrize(
    ("text", "base", "value"),
    [
        *(("12", 10, 12), (" -7\n", 10, -7), ("007", 10, 7), (str(2**64 - 1), 10, 2**64 - 1)),
        *(("0x1F90", 16, 8080), ("f" * 16, 16, 2**64 - 1)),
    ],
)
def test_whole_numbers(text: str, base: int, value: int) -> None:
    assert foreign.whole(text, base) == value


@pytest.mark.parametrize(
    "text", ["", "²", "٣", "1_0", "--5", "1.5", "9" * 21, "9" * 400, "9" * 5000, "0" * 5000]
)
def test_other_texts_are_no_whole_numbers(text: str) -> None:
    with pytest.raises(NotUnderstood):
        foreign.whole(text)


@pytest.mark.parametrize(
    "text", ["", "nan", "inf", "-Infinity", "1e999", "1.2.3", ".", "1_0.5", "9" * 400, "٣.5"]
)
def test_other_texts_are_no_decimal_numbers(text: str) -> None:
    with pytest.raises(NotUnderstood):
        foreign.decimal(text)


@pytest.mark.parametrize(
    ("text", "value"), [("1.5", 1.5), ("-3", -3.0), (".5", 0.5), ("2.", 2.0), ("1e-3", 0.001)]
)
def test_decimal_numbers(text: str, value: float) -> None:
    assert foreign.decimal(text) == value


def test_a_line_that_is_too_long_is_left_out_whole() -> None:
    assert list(foreign.lines(f"a\n{'1' * (foreign.LINE_CHARACTERS + 1)}\nb")) == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1,]", "1" * 5000, "1e999", '{"a": ' + "9" * 400 + "}", b"\xff\xfe\x00"),
        *("[" * 200_000, '{"a":' * 200_000, "[" * (foreign.JSON_DEPTH + 1) + "]" * (foreign.JSON_DEPTH + 1)),
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_json_that_is_malformed_or_beyond_a_bound_is_refused_by_one_error(text: str | bytes) -> None:
    with pytest.raises(NotUnderstood):
        foreign.json_value(text)


def test_json_is_bounded_in_bytes() -> None:
    with pytest.raises(NotUnderstood):
        foreign.json_value("[1, 2]", most_bytes=5)


def test_brackets_in_strings_are_no_depth() -> None:
    text = json.dumps(["[" * 500 + '"\\', {"{" * 500: 1}])
    assert foreign.json_value(text) == json.loads(text)


def test_what_json_does_not_have_is_read_as_its_name() -> None:
    assert foreign.json_value('{"loss": NaN, "best": -Infinity}') == {"loss": "NaN", "best": "-Infinity"}


@pytest.mark.parametrize("extra", [{}, {"name": "half a pair \ud800"}])
def test_no_document_holds_nan_or_infinity(extra: dict[str, str]) -> None:
    document = {"rate": math.inf, "loss": [math.nan, 1.5], **extra}
    found = json.loads(json_text.indented(document), parse_constant=pytest.fail)
    assert found == {"rate": None, "loss": [None, 1.5], **extra}
    assert json.loads(json_text.in_ascii(document)) == found


def test_one_reader_reads_json() -> None:
    """``json.loads`` runs out of stack, and takes numbers that overflow later: it is called in one place."""
    # Run by path, without the rest of clusterctl: what clusterctl wrote, and lines of a program's own child.
    allowed = {
        "text/foreign.py",
        "launch/launchers/agents.py",
        "launch/rate_search.py",
        "workloads/device/perf.py",
    }
    callers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in ("load", "loads")
        and getattr(node.value, "id", "") == "json"
    }
    assert callers <= allowed
