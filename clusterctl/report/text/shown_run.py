"""One run for people, from the documents in its run folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clusterctl.documents.locate import Locate
from clusterctl.documents.runs import ListedRun
from clusterctl.grouping import grouped
from clusterctl.inventory import nodeset
from clusterctl.report.text import locate
from clusterctl.report.text.run_list import named, said
from clusterctl.report.text.table import columns

_BAD_VERDICTS = ("unmet", "unknown")


def head(one: ListedRun) -> str:
    """Return what the list shows of a run, one line each."""
    lines = {
        "run": one.run,
        "began": (one.started_at or "-").replace("T", " ").replace("Z", " UTC"),
        "outcome": said(one),
        "nodes": named(one),
        "label": one.label or "",
        "folder": one.folder,
    }
    return columns(("", ""), [[name, text] for name, text in lines.items() if text], left=(0, 1)).lstrip("\n")


def summary(verb: str, document: Mapping[str, Any]) -> str:
    """Return what happened on the nodes of a check, bootstrap, undo, locate or up; empty for other runs."""
    lines: Iterable[str] = ()
    if verb in ("check", "bootstrap", "undo"):
        lines = [*_unreachable(document["nodes"]), *_steps(document["nodes"]), *_verdicts(document["nodes"])]
    elif verb == "up":
        lines = [f"{one['name']}  {one['address']}:{one['port']}" for one in document.get("nodes") or ()]
        lines += [f"{one['name']}  {one['error']}" for one in document.get("failed") or ()]
    elif verb == "locate":
        lines = [locate.text(Locate.model_validate(document))]
    elif verb == "preflight":
        lines = [f"{one['status']}  {one['name']}  {one['detail']}" for one in document["rungs"]]
    return "\n".join(lines)


def _unreachable(nodes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    found = (
        (node["name"], (node["error"]["kind"], _message(node["name"], node["error"])))
        for node in nodes
        if node["error"]
    )
    for (kind, message), names in _folded(found):
        yield f"{kind}  {names}" + (f"  {message}" if message else "")


def _message(name: str, error: Mapping[str, Any]) -> str:
    return " ".join(str(error.get("message") or "").removeprefix(f"{name}: ").split())


def _steps(nodes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    found = (
        (node["name"], (step["status"], step["requirement"], step["description"], step.get("reason") or ""))
        for node in nodes
        for step in node.get("steps", ())
    )
    for (status, requirement, description, reason), names in _folded(found):
        yield f"{status}  {names}  {requirement}: {description}" + (f" ({reason})" if reason else "")


def _verdicts(nodes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    found = (
        (node["name"], (verdict["status"], verdict["requirement"], verdict["reason"]))
        for node in nodes
        for verdict in node.get("verdicts", ())
        if verdict["status"] in _BAD_VERDICTS
    )
    for (status, requirement, reason), names in _folded(found):
        yield f"{status}  {names}  {requirement}: {reason}"


def _folded(found: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each distinct text once, with the names of its nodes."""
    alike = grouped((texts, name) for name, texts in found)
    for texts, names in alike.items():
        yield texts, nodeset.fold_counted(names)
