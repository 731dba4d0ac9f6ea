"""Read ``dcgmi diag --json`` of DCGM 3 and 4: the result of each test, and its warnings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clusterctl.acceptance.model import MOST_JSON_BYTES, Parsed, RowFinding, RowStatus
from clusterctl.text.foreign import NotUnderstood, json_value
from clusterctl.text.visible import visible

_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_STATUSES = {"fail": RowStatus.FAIL, "warn": RowStatus.WARN, "error": RowStatus.FAIL}


def parse(text: str) -> Parsed:
    """Return failed tests and warnings; raise NotUnderstood if no test of any GPU ran."""
    # Other lines may stand before the document ("Successfully ran diagnostic for group").
    document = json_value(text[text.find("{") :] if "{" in text else text, most_bytes=MOST_JSON_BYTES)
    root = (
        next((document[name] for name in _ROOTS if name in document), None)
        if isinstance(document, dict)
        else None
    )
    if not isinstance(root, dict):
        raise NotUnderstood("dcgmi wrote another document; expected that of DCGM 3 or 4")
    metadata = document.get("metadata")
    version = (metadata if isinstance(metadata, dict) else root).get("version", "")
    if root.get("runtime_error"):
        return Parsed(not_run=_said(root["runtime_error"]))
    findings: list[RowFinding] = []
    passed = 0
    for name, result in _results(root.get("test_categories")):
        status = str(result.get("status", "")).lower()
        said = [_said(one) for one in _warnings(result.get("warnings"))]
        # A test may pass beside a warning that tells that it did not run to its end (out of memory).
        worst = _STATUSES.get(status, RowStatus.WARN if said and status == "pass" else None)
        passed += status == "pass"
        if worst is not None:
            findings.append(RowFinding(worst, f"{name}: {'; '.join(said) or status}"[:300], _device(result)))
    if not passed and not findings:
        raise NotUnderstood("dcgmi ran none of its tests")
    return Parsed(findings=tuple(findings), version=f"DCGM {_said(version)}".strip())


def _said(value: Any) -> str:
    return visible(" ".join(str(value).split()))[:200]


def _results(categories: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the result of each test of each GPU."""
    for category in _objects(categories):
        for test in _objects(category.get("tests")):
            name = _said(test.get("name", ""))
            for result in _objects(test.get("results")):
                yield name, result
            summary = test.get("test_summary")
            # Repeats the worst of the results; without results it is all there is.
            if isinstance(summary, dict) and not test.get("results"):
                yield name, summary


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _warnings(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [value]
    return (
        [one.get("warning", "") if isinstance(one, dict) else one for one in value]
        if isinstance(value, list)
        else []
    )


def _device(result: dict[str, Any]) -> str:
    if "entity_id" in result:
        return f"{_said(result.get('entity_group', ''))} {_said(result['entity_id'])}".strip()[:40]
    return f"GPU {_said(result['gpu_ids'])}"[:40] if result.get("gpu_ids") else ""
