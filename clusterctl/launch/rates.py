"""Read the rates that a program of the user printed, within a limited time whatever the pattern is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from clusterctl.benchmarks.user_program import RateLine
from clusterctl.errors import ResultError
from clusterctl.launch import rate_search
from clusterctl.text.foreign import NotUnderstood, json_value

_TIMEOUT_S = 20.0


def matches(rate: RateLine, texts: Mapping[int, str]) -> dict[int, dict[str, str]]:
    """Return the groups in the last line of each rank that has a rate; raise ResultError if the pattern is too slow."""
    if not rate.is_given:
        return rate_search.last_matches(rate.pattern, texts)
    command = (sys.executable, "-I", "-S", str(Path(rate_search.__file__)))
    asked = json.dumps({"pattern": rate.pattern, "texts": {str(rank): text for rank, text in texts.items()}})
    try:
        done = subprocess.run(
            command, input=asked.encode(), capture_output=True, timeout=_TIMEOUT_S, check=False
        )
        found = json_value(done.stdout.decode())
    except subprocess.TimeoutExpired:
        raise ResultError(
            f"--rate {rate.pattern!r:.80} took more than {_TIMEOUT_S:g} s on the output of the ranks",
            hint="use a simpler pattern, without repetitions inside repetitions: 'samples/s: ([0-9.]+)'",
        ) from None
    except (NotUnderstood, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict):
        raise ResultError(
            f"--rate {rate.pattern!r:.80} could not be searched for", hint="use a simpler pattern"
        )
    return {int(rank): groups for rank, groups in found.items()}
