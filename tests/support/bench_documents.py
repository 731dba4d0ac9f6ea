"""Figures of ``bench`` as a test writes them: rows, points and variants of a ``clusterctl.bench/1`` document."""

from __future__ import annotations

from clusterctl.results import variants


def spread(*values):
    """Return a figure and its repeats."""
    return variants.spread(values).model_dump(mode="json")


def row(size_bytes, time_us, busbw_gbps=None, **more):
    """Return one message size; a figure is a number or the tuple of its repeats."""
    busbw = None if busbw_gbps is None else _spread(busbw_gbps)
    return {
        "size_bytes": size_bytes, "time_us": _spread(time_us), "algbw_gbps": busbw, "busbw_gbps": busbw, "wrong": 0,
        "ratio": 1.0, **more,
    }  # fmt: skip


def point(np, samples_per_s, *, nodes=1, sample="image", efficiency=None, **more):
    """Return one point of a scaling curve; the rate is a number or the tuple of its repeats."""
    speed = _spread(samples_per_s)
    return {
        "np": np, "nodes": nodes, "sample": sample, "samples_per_s": speed, "efficiency": efficiency, "ratio": 1.0,
        **more,
    }  # fmt: skip


def variant(name="default", *, rows=(), points=(), repeats=1, library="nccl", keys=None, **more):
    """Return one variant."""
    return {
        "name": name, "library": library, "environment": {}, "repeats": repeats, "rows": list(rows),
        "points": list(points), "keys": keys or {}, **more,
    }  # fmt: skip


def document(run, *found, benchmark="all_reduce", status="ok", **proof):
    """Return the document of a run with these variants."""
    return {
        "schema": "clusterctl.bench/1", "run": run, "benchmark": benchmark, "launcher": "openmpi",
        "status": status, "proof": proof, "variants": list(found),
    }  # fmt: skip


def with_rows(whole, rows):
    """Return a document whose only variant has these rows."""
    return {**whole, "variants": [{**whole["variants"][0], "rows": list(rows)}]}


def _spread(values):
    return spread(*values) if isinstance(values, tuple) else spread(values)
