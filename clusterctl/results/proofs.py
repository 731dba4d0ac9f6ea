"""The evidence in a result: GPUDirect, the share of the expected bandwidth, stragglers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from clusterctl.launch.measured import Measured
from clusterctl.trust import expectation, slow_neighbours, stragglers, usage
from clusterctl.trust.expectation import Inputs
from clusterctl.trust.nccl_log_model import NcclLog


def of_measured(measured: Measured) -> dict[str, Any]:
    """Return the entries of ``proof`` that ``measured`` allows, such as gpudirect, expected and paths."""
    found: dict[str, Any] = {} if measured.health is None else {"health": measured.health.document()}
    trust = measured.trust
    if trust is not None and trust.gpudirect is not None and trust.log is not None:
        found["gpudirect"] = trust.gpudirect.document()
        found["nccl"] = _nccl(trust.log)
    if measured.paths:
        found["paths"] = [path.document() for path in measured.paths]
    elif measured.library == "nccl+ccore" and not measured.faults:
        found["paths"] = []
    if measured.usage or measured.proven:
        found["usage"] = _usage(measured)
    if shared := measured.settings.get("ranks_per_gpu"):
        found["sharing"] = shared
    if measured.sweep is not None and measured.sweep.rows:
        rows = [
            (row.size_bytes, max(speeds))
            for row in measured.sweep.rows
            if (
                speeds := [h.busbw_gbps for h in (row.out_of_place, row.in_place) if h.busbw_gbps is not None]
            )
        ]
        found |= expected(measured, rows)
    slow = {
        str(entry.point.np): [
            straggler.document() for straggler in stragglers.find(stragglers.rates_of(entry.run))
        ]
        for entry in measured.points
    }
    if measured.neighbours.ranks:
        found["neighbours"] = measured.neighbours.document()
        slow[str(len(measured.ranks))] = _unless_cleared(slow_neighbours.find(measured.neighbours), measured)
    if measured.slow:
        found["slow"] = [one.document() for one in measured.slow]
    if any(slow.values()):
        found["stragglers"] = {np: listed for np, listed in slow.items() if listed}
    return found


def _unless_cleared(stragglers_: list[dict[str, Any]], measured: Measured) -> list[dict[str, Any]]:
    """Return the stragglers without those that pairs of nodes did not confirm."""
    if measured.slow is None:
        return stragglers_
    nodes = {node for one in measured.slow for node in one.nodes}
    return [one for one in stragglers_ if one["host"] in nodes]


def expected(measured: Measured, rows: Sequence[tuple[int, float]]) -> dict[str, Any]:
    """Return the entry ``expected`` for these rows of bytes and busbw (GB/s); empty if the library has no bound."""
    trust = measured.trust
    if trust is None or not _bounded(measured):
        return {}
    inputs = Inputs(
        measured.request.collective,
        len(measured.ranks),
        trust.nodes,
        trust.links,
        trust.in_network,
        trust.nvlink_between_nodes,
    )
    return {"expected": expectation.document(expectation.judge(inputs, rows))}


def health_of_all(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entry ``health`` of several measurements together."""
    unread = {(one["node"], one["reason"]): one for entry in entries for one in entry["unread"]}
    return {
        "doubtful": any(entry["doubtful"] for entry in entries),
        "events": [event for entry in entries for event in entry["events"]],
        "unread": list(unread.values()),
    }


def _nccl(log: NcclLog) -> dict[str, Any]:
    """Return what NCCL logged: versions, networks, plugins, graphs, and algorithms if it logs them."""
    processes = log.processes
    return {
        "versions": list(log.versions),
        "networks": sorted({name for process in processes for name in process.networks}),
        "plugins": sorted({line for process in processes for line in process.plugins}),
        "connected": sorted({name for process in processes for name in process.connected}),
        "graphs": [
            asdict(graph) for graph in dict.fromkeys(g for process in processes for g in process.graphs)
        ],
        "algorithms": [asdict(choice) for choice in log.choices],
    }


def _usage(measured: Measured) -> dict[str, Any]:
    """Return the variables that every rank read, what proves the variant's settings, and rank 0's algorithms."""
    read = [one.read for one in measured.usage]
    # The least of all ranks; 0: not used.
    used = {
        name: min(one.mechanisms.get(name, 0) for one in measured.usage)
        for name in sorted({name for one in measured.usage for name in one.mechanisms})
    }
    return {
        "read": {
            name: value
            for name, value in (read[0].items() if read else ())
            if all(name in one for one in read)
        },
        "proven": dict(measured.proven),
        "mechanisms": used,
        "algorithms": [asdict(calls) for calls in usage.algorithms(measured.usage)],
    }


def _bounded(measured: Measured) -> bool:
    """Tell whether the data uses GPU and NIC links; not true for gloo, for ranks on CPUs, and if ranks share a GPU."""
    nccl = measured.library in ("nccl", "nccl+ccore")
    return nccl and not measured.settings.get("ranks_per_gpu")
