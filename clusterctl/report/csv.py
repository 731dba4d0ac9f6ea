"""Lines of figures as CSV (RFC 4180), for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from clusterctl.text.visible import visible

# Spreadsheets read a cell with one of these first characters as a formula (https://owasp.org/www-community/attacks/CSV_Injection).
_FORMULA = ("=", "+", "-", "@", "\t")


def render(heads: Sequence[str], lines: Iterable[Mapping[str, object]]) -> str:
    """Return the lines below a header; what a line lacks is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, heads, restval="", lineterminator="\r\n")
    writer.writeheader()
    for line in lines:
        writer.writerow({name: _cell(value) for name, value in line.items()})
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str):
        shown = visible(value)
        return f"'{shown}" if shown.startswith(_FORMULA) else shown
    return "" if value is None else value
