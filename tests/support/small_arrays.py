"""A stress-ng with small arrays, for the row ``cpu-memory`` of ``accept`` on a busy machine.

Its own arrays are four times the cache, and guests and containers see that of the host: 300 MB. Filling them takes
longer there than the row measures, so that a node has no rate. A round with small arrays takes milliseconds.
"""

from __future__ import annotations

OPTIONS = "--stream-l3-size 2M"


def script(stress_ng: str = "/usr/bin/stress-ng") -> str:
    """Return the program to be put before the real one on a node's path."""
    return f'#!/bin/sh\nexec {stress_ng} {OPTIONS} "$@"\n'
