"""Make the proof in a result: where the ranks ran, GPUDirect, the share of the expected bandwidth, stragglers."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl import __version__
from clusterctl.documents.evidence import RankSpeed
from clusterctl.documents.proof import Expected, NcclProof, Proof, SlowRank, UsageProof, VariantProof
from clusterctl.launch.measured import Measured, TrainingPoint
from clusterctl.trust import expectation, slow_neighbours, stragglers, usage
from clusterctl.trust.expectation import Inputs
from clusterctl.trust.nccl_log_model import NcclLog


def of_measured(measured: Measured) -> Proof:
    """Return what one measured request shows of its run."""
    sweep, settings = measured.sweep, measured.settings
    training = measured.points if sweep is None else ()
    losses = {str(one.point.np): tuple(map(rounded, one.run.losses)) for one in training}
    return Proof(
        clusterctl_version=__version__,
        ranks=measured.ranks,
        library=sweep.libraries if sweep else training[-1].run.libraries if training else None,
        transports=sweep.transports if sweep else None,
        spread={str(one.point.np): round(one.point.spread, 3) for one in training} or None,
        rates={str(one.point.np): _rates(one) for one in training} or None,
        losses=losses if any(losses.values()) else None,
        settings={name: value for name, value in settings.items() if value is not None} if settings else None,
        hardware=measured.hardware if settings else None,
        neighbours=measured.neighbours.part() if measured.neighbours.ranks else None,
        slow=measured.slow or None,
        failures=measured.faults or None,
    )


def of_repeat(measured: Measured) -> VariantProof:
    """Return what one repeat of a variant shows about its figures."""
    trust, shared = measured.trust, measured.settings.get("ranks_per_gpu")
    connected = trust is not None and trust.gpudirect is not None and trust.log is not None
    return VariantProof(
        health=measured.health.part() if measured.health else None,
        gpudirect=trust.gpudirect if trust and connected else None,
        nccl=_nccl(trust.log) if trust and trust.log and connected else None,
        paths=measured.paths or (() if measured.library == "nccl+ccore" and not measured.faults else None),
        usage=_usage(measured) if measured.usage or measured.proven else None,
        sharing=str(shared) if shared else None,
        expected=expected(measured, speeds(measured)),
        stragglers=_stragglers(measured),
    )


def rounded(loss: float | None) -> float | None:
    """Return a loss with 6 decimals."""
    return None if loss is None else round(loss, 6)


def _rates(entry: TrainingPoint) -> tuple[RankSpeed, ...]:
    hosts = {rank.rank: rank.host for rank in entry.run.ranks}
    return tuple(
        RankSpeed(rate.rank, hosts.get(rate.rank), round(rate.samples_per_s, 3), round(rate.spread, 3))
        for rate in entry.run.rates
    )


def speeds(measured: Measured) -> list[tuple[int, float]]:
    """Return the bytes and the best busbw (GB/s) of each row."""
    return [
        (row.size_bytes, max(found))
        for row in (measured.sweep.rows if measured.sweep else ())
        if (found := [h.busbw_gbps for h in (row.out_of_place, row.in_place) if h.busbw_gbps is not None])
    ]


def _stragglers(measured: Measured) -> dict[str, tuple[SlowRank, ...]] | None:
    slow = {
        str(entry.point.np): tuple(one.part() for one in stragglers.find(stragglers.rates_of(entry.run)))
        for entry in measured.points
    }
    if measured.neighbours.ranks:
        slow[str(len(measured.ranks))] = _unless_cleared(slow_neighbours.find(measured.neighbours), measured)
    return {np: listed for np, listed in slow.items() if listed} or None


def _unless_cleared(found: tuple[SlowRank, ...], measured: Measured) -> tuple[SlowRank, ...]:
    """Return the stragglers without those that pairs of nodes did not confirm."""
    if measured.slow is None:
        return found
    nodes = {node for one in measured.slow for node in one.nodes}
    return tuple(one for one in found if one.host in nodes)


def expected(measured: Measured, rows: Sequence[tuple[int, float]]) -> Expected | None:
    """Return the entry ``expected`` for these rows of bytes and busbw (GB/s); None without rows or a known bound."""
    trust = measured.trust
    if trust is None or measured.sweep is None or not measured.sweep.rows or not _bounded(measured):
        return None
    inputs = Inputs(
        measured.request.collective,
        len(measured.ranks),
        trust.nodes,
        trust.links,
        trust.in_network,
        trust.nvlink_between_nodes,
    )
    return expectation.judge(inputs, rows)


def _nccl(log: NcclLog) -> NcclProof:
    processes = log.processes
    return NcclProof(
        versions=log.versions,
        networks=tuple(sorted({name for process in processes for name in process.networks})),
        plugins=tuple(sorted({line for process in processes for line in process.plugins})),
        connected=tuple(sorted({name for process in processes for name in process.connected})),
        graphs=tuple(dict.fromkeys(graph for process in processes for graph in process.graphs)),
        algorithms=log.choices,
    )


def _usage(measured: Measured) -> UsageProof:
    read = [one.read for one in measured.usage]
    # The least of all ranks; 0: not used.
    used = {
        name: min(one.mechanisms.get(name, 0) for one in measured.usage)
        for name in sorted({name for one in measured.usage for name in one.mechanisms})
    }
    return UsageProof(
        read={
            name: value
            for name, value in (read[0].items() if read else ())
            if all(name in one for one in read)
        },
        proven=dict(measured.proven),
        mechanisms=used,
        algorithms=usage.algorithms(measured.usage),
    )


def _bounded(measured: Measured) -> bool:
    """Tell whether the data uses GPU and NIC links; not true for gloo, for ranks on CPUs, and if ranks share a GPU."""
    nccl = measured.library in ("nccl", "nccl+ccore")
    return nccl and not measured.settings.get("ranks_per_gpu")
