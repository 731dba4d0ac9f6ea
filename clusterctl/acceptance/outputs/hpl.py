"""Read High-Performance Linpack: its rate, and the check of its result."""

from __future__ import annotations

import re

from clusterctl.acceptance.model import Parsed, RowFinding, RowMeasurement, RowStatus
from clusterctl.text.foreign import NotUnderstood, decimal, lines

_VERSION = re.compile(r"HPLinpack ([0-9.]{1,20})")
_RATE = re.compile(
    r"W[RC][0-9A-Z]{3,20}\s+[0-9]{1,12}(?:\s+[0-9]{1,9}){3}\s+[0-9.]{1,20}\s+([-+.0-9eE]{1,20})"
)


def parse(text: str) -> Parsed:
    """Return the best rate in GFLOP/s; raise NotUnderstood without a rate or without a check of the result."""
    rates: list[float] = []
    passed = failed = 0
    version = ""
    for line in lines(text):
        if (found := _RATE.match(line)) is not None:
            rates.append(decimal(found[1]))
        elif line.startswith("||Ax-b||"):
            passed += line.rstrip().endswith("PASSED")
            failed += line.rstrip().endswith("FAILED")
        elif (of_version := _VERSION.match(line)) is not None:
            version = f"HPL {of_version[1]}"
    if not rates or not passed + failed:
        raise NotUnderstood("HPL printed no rate, or did not check its result")
    findings = (RowFinding(RowStatus.FAIL, "the result of HPL is wrong (residual)"),) if failed else ()
    return Parsed(
        (RowMeasurement("gflops", max(rates), "GFLOP/s", True),), findings=findings, version=version
    )
