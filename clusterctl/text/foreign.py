"""Parse lines, numbers and JSON that nodes, ranks and other programs wrote, within bounds.

For any text that it rejects, a function raises ``NotUnderstood``, a ValueError, and no other exception. Python's
``int`` rejects more than 4300 digits and returns integers that overflow a float; ``json`` can exhaust the stack.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

MOST_DIGITS = 20
"""The digits of 2**64 - 1: no counter, size or address of a node has more."""
LINE_CHARACTERS = 64 * 1024
"""Longer lines are dropped: no program whose output is parsed line by line writes them."""
JSON_BYTES = 64 << 20
JSON_DEPTH = 100

_DECIMAL = re.compile(r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,3})?")
_WHOLE = {
    10: re.compile(rf"[-+]?0{{0,{MOST_DIGITS}}}[0-9]{{1,{MOST_DIGITS}}}"),
    16: re.compile(rf"(?:0[xX])?0{{0,{MOST_DIGITS}}}[0-9a-fA-F]{{1,16}}"),
}
# The closing quote is optional: without it a failed match would be retried from each quote.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_NO_BRACKET = re.compile(r"[^][{}]+")


class NotUnderstood(ValueError):
    """Report a text that is not the expected number or document, or that exceeds a bound."""


def whole(text: str, base: int = 10) -> int:
    """Return the whole number in a text of ASCII digits, in base 10 or 16.

    White space around it, a sign, and ``0x`` in base 16 are accepted. Raise NotUnderstood for any other text, and for
    more than MOST_DIGITS digits (16 in base 16).
    """
    stripped = text.strip()
    if len(stripped) > 3 * MOST_DIGITS or _WHOLE[base].fullmatch(stripped) is None:
        raise NotUnderstood(f"expected a whole number of at most {MOST_DIGITS} digits, not {text[:40]!r}")
    return int(stripped, base)


def decimal(text: str) -> float:
    """Return a finite decimal number, with white space around it; raise NotUnderstood for any other text."""
    stripped = text.strip()
    value = float(stripped) if _DECIMAL.fullmatch(stripped) else math.nan
    if not math.isfinite(value):
        raise NotUnderstood(f"expected a finite decimal number, not {text[:40]!r}")
    return value


def is_whole(text: str) -> bool:
    """Return whether ``whole`` accepts the text and the text has no sign."""
    return text[:1].isdigit() and _WHOLE[10].fullmatch(text) is not None


def lines(text: str) -> Iterator[str]:
    """Yield the lines of a text without those longer than LINE_CHARACTERS: a shortened line could be misread."""
    return (line for line in text.splitlines() if len(line) <= LINE_CHARACTERS)


def json_value(
    text: str | bytes,
    *,
    most_bytes: int = JSON_BYTES,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
    not_finite: Callable[[str], Any] | None = None,
) -> Any:
    """Return the value of a JSON text (RFC 8259); NaN and Infinity, which JSON lacks, become their names.

    ``pairs`` builds an object from its members (``object_pairs_hook`` of ``json.loads``). ``not_finite`` returns the
    value to use for NaN, Infinity and each decimal number that is too large for a float.

    Raise NotUnderstood for malformed text, more than ``most_bytes`` bytes or characters, more than JSON_DEPTH nested
    arrays and objects, or a number that ``whole`` or ``decimal`` rejects.
    """
    if len(text) > most_bytes:
        raise NotUnderstood(f"expected at most {most_bytes} bytes of JSON, not {len(text)}")
    try:
        decoded = text if isinstance(text, str) else text.decode(json.detect_encoding(text), "surrogatepass")
        _check_depth(decoded)
        return json.loads(
            decoded,
            parse_int=_json_int,
            parse_float=lambda digits: _json_float(digits, not_finite),
            parse_constant=not_finite or str,
            object_pairs_hook=pairs,
        )
    except NotUnderstood:
        raise
    except (ValueError, RecursionError) as error:
        raise NotUnderstood(f"not JSON: {error!s:.200}") from None


def _json_int(digits: str) -> int:
    return int(digits) if len(digits) <= MOST_DIGITS else whole(digits)


def _json_float(digits: str, not_finite: Callable[[str], Any] | None) -> Any:
    value = float(digits)
    if not math.isfinite(value):
        if not_finite is not None:
            return not_finite(digits)
        raise NotUnderstood(f"expected a finite decimal number, not {digits[:40]!r}")
    return value


def _check_depth(text: str) -> None:
    # Most texts have fewer brackets than the limit and cannot exceed it.
    if text.count("[") + text.count("{") <= JSON_DEPTH:
        return
    depth = 0
    for bracket in _NO_BRACKET.sub("", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > JSON_DEPTH:
            raise NotUnderstood(f"expected at most {JSON_DEPTH} nested arrays and objects")
