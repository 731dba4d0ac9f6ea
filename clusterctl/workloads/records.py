"""Write a workload's results for clusterctl: one marked JSON object per line."""

from __future__ import annotations

import json
import sys
from typing import Any

MARK = "clusterctl-record "


def emit(kind: str, **fields: Any) -> None:
    """Write one record to stdout in a single write, so that other ranks' lines cannot split it."""
    sys.stdout.flush()
    sys.stdout.write(MARK + json.dumps({"kind": kind, **fields}) + "\n")
    sys.stdout.flush()
