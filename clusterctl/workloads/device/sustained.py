"""Keep a device busy with matrix products, and sample its clocks, power and temperature once per second."""

from __future__ import annotations

import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from clusterctl.workloads.device.gemm import lacks, product
from clusterctl.workloads.device.measured import DeviceMeasured, short
from clusterctl.workloads.device.sensors import Sample, Sensors
from clusterctl.workloads.device.timing import CPU_EFFORT, GPU_EFFORT, median_s, timing_event

_GPU_SIDE, _CPU_SIDE = 8192, 256
_CHUNK_S = 0.1
# The first seconds, in which the GPU raises its clocks and heats up, do not count.
_SETTLE_SHARE, _SETTLE_MOST_S = 0.2, 5.0


def measure(
    device: torch.device,
    seconds: float,
    sensors: Sensors | None,
    report: Callable[..., None],
    interval_s: float = 1.0,
) -> Iterator[DeviceMeasured]:
    """Load the device for so long; pass each second's sample to ``report`` by name, then yield what the load showed."""
    gpu = device.type == "cuda"
    kind = "bf16" if lacks("bf16", device) is None and gpu else "fp32"
    side = _GPU_SIDE if gpu else _CPU_SIDE
    work = product(kind, (side, side, side), device)
    calls = max(1, round(_CHUNK_S / median_s(device, work, GPU_EFFORT if gpu else CPU_EFFORT)))
    samples: list[Sample] = []
    queued: deque[Callable[[], object]] = deque()
    started = last = time.monotonic()
    chunks = 0
    while True:
        for _ in range(calls):
            work()
        queued.append(_end(device))
        chunks += 1
        # One more chunk is always queued, so that the device does not idle while this process samples.
        if len(queued) > 1:
            queued.popleft()()
        now = time.monotonic()
        ended = now - started >= seconds
        # A part of a second at the end counts only if it is all there is.
        if now - last < interval_s and (not ended or samples):
            if ended:
                break
            continue
        rate = 2.0 * side**3 * calls * chunks / (now - last) / 1e12
        sample = {"at_s": round(now - started, 2), "tflops": short(rate)}
        sample |= sensors.sample() if sensors is not None else {}
        samples.append(sample)
        report(**sample)
        last, chunks = now, 0
        if ended:
            break
    while queued:
        queued.popleft()()
    yield from summary(samples, kind)


def _end(device: torch.device) -> Callable[[], object]:
    """Return a call that waits for the work queued so far."""
    if device.type != "cuda":
        return lambda: None
    event = timing_event()
    event.record(torch.cuda.current_stream(device))
    return event.synchronize


def summary(samples: Sequence[Sample], kind: str) -> Iterator[DeviceMeasured]:
    """Yield the rate, and what the sensors reported, of the samples after the device has settled."""
    end_s = samples[-1]["at_s"]
    settle_s = min(_SETTLE_MOST_S, _SETTLE_SHARE * end_s)
    counted = [sample for sample in samples if sample["at_s"] > settle_s]
    rates = [sample["tflops"] for sample in counted]
    span: dict[str, Any] = {"seconds": end_s, "samples": len(counted), "type": kind}
    yield DeviceMeasured(
        "rate", short(statistics.median(rates)), "TFLOP/s", detail={**span, "lowest": min(rates)}
    )
    for name, field, unit, worst in (
        ("clock", "clock_mhz", "MHz", min),
        ("memory-clock", "memory_clock_mhz", "MHz", min),
        ("power", "power_w", "W", max),
        ("temperature", "temperature_c", "C", max),
        ("memory-temperature", "memory_temperature_c", "C", max),
    ):
        values = [sample[field] for sample in counted if field in sample]
        if values:
            detail = {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}
            yield DeviceMeasured(name, float(worst(values)), unit, detail=detail)
    named = [sample["throttle"] for sample in counted if "throttle" in sample]
    if named:
        counts = Counter(reason for reasons in named for reason in reasons)
        shares = {reason: round(count / len(named), 4) for reason, count in sorted(counts.items())}
        slowed = sum(any(reason in _SLOWED for reason in reasons) for reasons in named) / len(named)
        yield DeviceMeasured("throttled", round(slowed, 4), "share of samples", detail={"reasons": shares})


# The power cap of the software is normal at full load; these are not.
_SLOWED = ("hw-slowdown", "sw-thermal", "hw-thermal", "hw-power-brake")
