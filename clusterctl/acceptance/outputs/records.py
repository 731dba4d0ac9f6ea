"""Read the records of ``device_perf``: the values of each GPU, the hashes to compare, and the rows that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusterctl.acceptance.model import (
    MOST_VALUES,
    Parsed,
    RowFinding,
    RowFingerprint,
    RowMeasurement,
    RowStatus,
)
from clusterctl.facts.vendors import tables
from clusterctl.text.foreign import NotUnderstood, json_value, lines
from clusterctl.text.visible import one_line, one_line_texts
from clusterctl.workloads.records import MARK

_TEXT_CHARACTERS = 300
# Of each row of device_perf: the name of the field, its unit, and whether a higher value is better.
_FIELDS: Mapping[str, Mapping[str, tuple[str, bool]]] = {
    "gemm": {name: (f"{name}_tflops", True) for name in ("fp32", "tf32", "bf16", "fp16", "fp8")},
    "hbm": {"copy": ("copy_gb_per_s", True)},
    "host-link": {"h2d": ("h2d_gb_per_s", True), "d2h": ("d2h_gb_per_s", True)},
    "pattern": {"wrong": ("wrong_values", False)},
    "sdc": {name: (f"{name}_differing", False) for name in ("gemm", "convolution", "attention")},
    "training": {
        "llama": ("llama_tokens_per_s", True),
        "bert": ("bert_tokens_per_s", True),
        "resnet50": ("resnet50_images_per_s", True),
    },
    "overlap": {"hidden": ("hidden_share", True)},
    "sustained": {
        "rate": ("sustained_tflops", True),
        "clock": ("clock_mhz", True),
        "memory-clock": ("memory_clock_mhz", True),
        "power": ("power_w", False),
        "temperature": ("temperature_c", False),
        "memory-temperature": ("memory_temperature_c", False),
        "throttled": ("throttled_share", False),
    },
}
_HARDWARE_SLOWDOWN = ("hw-slowdown", "hw-thermal", "hw-power-brake")


def parse(text: str) -> Parsed:
    """Return the values of all GPUs; raise NotUnderstood if the program did not write its last record."""
    records = _records(text)
    if not any(record.get("kind") == "device-end" for record in records):
        raise NotUnderstood("the last record of device_perf is missing: it was cut off")
    names = {record.get("gpu"): record for record in records if record.get("kind") == "device"}
    reader = _Reader(names)
    for record in records:
        reader.read(record)
    torch = next((str(one.get("torch")) for one in names.values()), "")
    skipped = [record for record in records if record.get("kind") == "device-skipped"]
    not_run = ""
    if skipped and not (reader.measurements or reader.findings):
        not_run = _short(skipped[0].get("reason"))
    return Parsed(
        tuple(reader.measurements), tuple(reader.fingerprints), tuple(reader.findings),
        f"torch {one_line(torch, 40)}" if torch else "", not_run,
    )  # fmt: skip


def _records(text: str) -> list[dict[str, Any]]:
    found = []
    for line in lines(text):
        if line.startswith(MARK):
            record = one_line_texts(json_value(line.removeprefix(MARK)))
            if isinstance(record, dict):
                found.append(record)
        if len(found) > MOST_VALUES:
            raise NotUnderstood(f"expected at most {MOST_VALUES} records")
    return found


def _short(value: object) -> str:
    return one_line(str(value), _TEXT_CHARACTERS)


def device(gpu: object) -> str:
    """Return how a GPU is named: ``GPU 3``, or the pair ``GPU 0-1``; empty for the node."""
    return "" if gpu is None else f"GPU {_short(gpu)[:20]}"


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise NotUnderstood(f"expected a number, not {str(value)[:40]!r}")
    return float(value)


class _Reader:
    """Collect what the records of all GPUs state."""

    def __init__(self, names: Mapping[object, Mapping[str, Any]]) -> None:
        self._names = names
        self.measurements: list[RowMeasurement] = []
        self.fingerprints: list[RowFingerprint] = []
        self.findings: list[RowFinding] = []

    def _hardware(self, gpu: object) -> str:
        own = self._names.get(gpu) or next(iter(self._names.values()), {})
        return _short(own.get("name", ""))[:80]

    def read(self, record: Mapping[str, Any]) -> None:
        """Read one record."""
        gpu, kind = record.get("gpu"), record.get("kind")
        if kind == "device":
            others = record.get("other_processes", 0)
            if _number(others) > 0:
                text = f"{others} other process(es) use this GPU, which lowers its rates"
                self.findings.append(RowFinding(RowStatus.WARN, text, device(gpu)))
        elif kind == "device-failure":
            text = f"{_short(record.get('row'))}: {_short(record.get('reason'))}"
            self.findings.append(RowFinding(RowStatus.FAIL, text, device(gpu)))
        elif kind == "device-measured":
            self._measured(record, gpu)

    def _measured(self, record: Mapping[str, Any], gpu: object) -> None:
        row, name, value = str(record.get("row")), str(record.get("name")), record.get("value")
        detail = record.get("detail")
        detail = detail if isinstance(detail, dict) else {}
        if value is None:
            return  # the GPU lacks it, such as fp8 before Ada
        unit = _short(record.get("unit"))[:40]
        if row == "nvlink":
            self._pair(name, _number(value), unit, detail)
            return
        if name.endswith("-loss"):
            self._equal(f"{name.removesuffix('-loss')}_losses", detail, gpu)
        field = _FIELDS.get(row, {}).get(name)
        if field is None:
            return
        hardware = self._hardware(gpu)
        if row == "host-link" and isinstance(detail.get("link"), str):
            hardware = _short(detail["link"])[:40]
        self.measurements.append(
            RowMeasurement(field[0], _number(value), unit, field[1], device(gpu), hardware)
        )
        if row == "pattern" and _number(value) > 0:
            text = f"{value:g} values in its memory changed after they were written"
            self.findings.append(RowFinding(RowStatus.FAIL, text, device(gpu)))
        if row == "training":
            self._utilization(name, detail, gpu)
        if row == "sdc":
            self._twice(name, _number(value), detail, gpu)
        if name == "throttled":
            self._throttled(detail, gpu)

    def _utilization(self, name: str, detail: Mapping[str, Any], gpu: object) -> None:
        """Compare the arithmetic of a model with the GPU's published peak, if it is known."""
        peak = tables.gpu_peak(self._hardware(gpu))
        if peak is not None and "tflops" in detail:
            share = _number(detail["tflops"]) / peak.bf16_tflops
            self.measurements.append(
                RowMeasurement(f"{name}_mfu", share, "of peak", True, device(gpu), self._hardware(gpu))
            )

    def _pair(self, name: str, value: float, unit: str, detail: Mapping[str, Any]) -> None:
        self.measurements.append(
            RowMeasurement(
                "pair_gb_per_s", value, unit, True, device(name), self._hardware(detail.get("from"))
            )
        )
        if detail.get("peer_access") is False:
            text = "these GPUs cannot access each other's memory, so that copies go through the host"
            self.findings.append(RowFinding(RowStatus.WARN, text, device(name)))

    def _twice(self, name: str, value: float, detail: Mapping[str, Any], gpu: object) -> None:
        if value > 0:
            text = f"{value:g} of {_short(detail.get('runs'))} equal computations ({name}) had another result"
            self.findings.append(RowFinding(RowStatus.FAIL, text, device(gpu)))
        self._equal(f"{name}_sha256", detail, gpu)

    def _equal(self, field: str, detail: Mapping[str, Any], gpu: object) -> None:
        if isinstance(detail.get("sha256"), str):
            text, hardware = _short(detail["sha256"])[:64], _short(detail.get("comparable", ""))
            self.fingerprints.append(RowFingerprint(field, text, device(gpu), hardware))

    def _throttled(self, detail: Mapping[str, Any], gpu: object) -> None:
        reasons = detail.get("reasons")
        for reason, share in (reasons if isinstance(reasons, dict) else {}).items():
            hardware = reason in _HARDWARE_SLOWDOWN
            if (hardware or reason == "sw-thermal") and _number(share) > 0:
                status = RowStatus.FAIL if hardware else RowStatus.WARN
                text = f"the clock was lowered ({_short(reason)}) in {_number(share):.0%} of the samples"
                self.findings.append(RowFinding(status, text, device(gpu)))
