"""Published figures with their provenance, measured by others on similar hardware; they judge no run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from clusterctl import resources
from clusterctl.documents.baseline import Published

_FILE = Path(__file__).with_name("published.yaml")


@cache
def rows() -> tuple[Published, ...]:
    """Return the catalogue."""
    return tuple(TypeAdapter(list[Published]).validate_python(resources.table(_FILE)))


def like(key: Mapping[str, str]) -> tuple[Published, ...]:
    """Return the rows for a key's benchmark, hardware, ranks and nodes; empty for mixed hardware."""
    return tuple(
        row
        for row in rows()
        if row.collective == key.get("benchmark")
        and (str(row.np), str(row.nodes)) == (key.get("np"), key.get("nodes"))
        and re.search(rf"(?<![A-Z0-9]){row.hardware}(?![0-9])", key.get("hardware", ""))
        and " + " not in key.get("hardware", "")
    )
