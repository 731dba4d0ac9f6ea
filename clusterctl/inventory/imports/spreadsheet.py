"""Detect tables from spreadsheets, which are not an inventory of any tool although their words look like names."""

from __future__ import annotations

import re

from clusterctl.inventory.field_types import is_address
from clusterctl.inventory.imports.found import split_outside

_BETWEEN = re.compile(r"[\s,;|]+")
_WHO = re.compile(
    r"(?:host|node|server|machine|inventory)?[_-]?(?:name|host|node|server|machine)s?"
    r"|(?:host|node|ip|ipv4|ipv6)?[_-]?(?:address|addr|ip)(?:es)?|ipv4|ipv6|fqdn|dns",
    re.IGNORECASE,
)
_WHAT = re.compile(r"gpus?|slots?|cpus?|user|username|port|rack|role|group", re.IGNORECASE)


def problem(text: str) -> str | None:
    """Return the line and reason if the text is such a table; None for lists of names or expressions and hostfiles."""
    lines = [(number, raw.partition("#")[0].strip()) for number, raw in enumerate(text.splitlines(), start=1)]
    lines = [(number, line) for number, line in lines if line]
    if len(lines) > 1 and _is_heading(lines[0][1]):
        return f"{lines[0][0]}: {lines[0][1][:60]!r} looks like the heading of a table"
    for number, line in lines:
        fields = [field.strip() for field in split_outside(line) if field.strip()]
        addresses = sum(map(is_address, fields))
        if len(fields) > 1 and (any(map(str.isdecimal, fields)) or 0 < addresses < len(fields)):
            return f"{number}: {line[:60]!r} looks like fields of one node, not like names of several nodes"
    return None


def _is_heading(line: str) -> bool:
    words = [word.strip("\"'") for word in _BETWEEN.split(line)]
    return any(map(_WHO.fullmatch, words)) and all(_WHO.fullmatch(w) or _WHAT.fullmatch(w) for w in words)
