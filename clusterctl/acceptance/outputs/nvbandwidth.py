"""Read the JSON of nvbandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clusterctl.acceptance.model import MOST_JSON_BYTES, Parsed, RowFinding, RowMeasurement, RowStatus
from clusterctl.text.foreign import NotUnderstood, decimal, json_value
from clusterctl.text.visible import visible

# Of each test case: the field, and how its matrix names devices.
TESTS = {
    "device_local_copy": ("local_copy_gb_per_s", "each"),
    "host_to_device_memcpy_ce": ("h2d_gb_per_s", "each"),
    "device_to_host_memcpy_ce": ("d2h_gb_per_s", "each"),
    "device_to_device_memcpy_read_ce": ("pair_read_gb_per_s", "pairs"),
    "device_to_device_memcpy_write_ce": ("pair_write_gb_per_s", "pairs"),
}
_MOST_GPUS = 64


def parse(text: str) -> Parsed:
    """Return the bandwidths of all test cases; raise NotUnderstood for another document."""
    document = json_value(text[text.find("{") :] if "{" in text else text, most_bytes=MOST_JSON_BYTES)
    root = document.get("nvbandwidth") if isinstance(document, dict) else None
    if not isinstance(root, dict):
        raise NotUnderstood("nvbandwidth wrote another document; versions before 0.3 have no JSON")
    measurements: list[RowMeasurement] = []
    findings: list[RowFinding] = []
    seen: set[str] = set()
    if root.get("error"):
        findings.append(RowFinding(RowStatus.FAIL, _said(root["error"])))
    cases = root.get("testcases")
    for case in cases if isinstance(cases, list) else ():
        if not isinstance(case, dict):
            raise NotUnderstood("a test case of nvbandwidth is not an object")
        name, status = str(case.get("name")), case.get("status")
        # A case may be "Passed" and hold an error.
        if case.get("error") or status in ("Error", "Not Found", "Running"):
            findings.append(
                RowFinding(RowStatus.FAIL, f"{_said(name)}: {_said(case.get('error') or status)}")
            )
        if status == "Passed" and name in TESTS:
            if name in seen:
                raise NotUnderstood(f"the test case {name} comes twice")
            seen.add(name)
            measurements += _cells(name, case.get("bandwidth_matrix"))
    if not measurements and not findings:
        raise NotUnderstood("nvbandwidth ran none of its test cases")
    version = _said(root.get("version", ""))
    return Parsed(tuple(measurements), findings=tuple(findings), version=f"nvbandwidth {version}".strip())


def _said(value: Any) -> str:
    return visible(" ".join(str(value).split()))[:200]


def _cells(name: str, matrix: Any) -> Iterator[RowMeasurement]:
    field, shape = TESTS[name]
    if not isinstance(matrix, list) or len(matrix) > _MOST_GPUS:
        raise NotUnderstood(f"{name} has no matrix")
    for row, cells in enumerate(matrix):
        if not isinstance(cells, list) or len(cells) > _MOST_GPUS:
            raise NotUnderstood(f"the matrix of {name} has a row that is not a list")
        for column, cell in enumerate(cells):
            if cell == "N/A":
                continue
            value = decimal(str(cell))
            if not value > 0:
                raise NotUnderstood(f"{name} measured {value:g} GB/s")
            device = f"GPU {row}-{column}" if shape == "pairs" else f"GPU {column}"
            yield RowMeasurement(field, value, "GB/s", True, device)
