"""The program ``device_perf``: start a process for each device, pass on its records, and name what failed.

Every requested row of every device ends with a record: measurements and ``device-row-end``, or ``device-failure``
with a reason, also if the process of a device was killed, ran past the deadline, or lost its GPU.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from clusterctl.workloads import records
from clusterctl.workloads.device import gemm, one_device, overlap
from clusterctl.workloads.device.one_device import OVERLAP, PAIRS, ROWS, DeviceRequest

EXIT_FAILED, EXIT_NO_DEVICE = 1, 4
_NAME = "device_perf"
_ALL = (*ROWS, PAIRS, OVERLAP)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog=_NAME)
    parser.add_argument("--rows", type=_words(_ALL), default=_ALL, metavar="ROW,..")
    parser.add_argument("--types", type=_words(gemm.NAMES), default=gemm.NAMES, metavar="TYPE,..")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--gpus", default="", metavar="INDEX,..", help="the GPUs to measure (default: all)")
    parser.add_argument("--sdc-s", type=float, default=30.0, help="seconds of repeated work to compare")
    parser.add_argument("--sustained-s", type=float, default=60.0, help="seconds of full load")
    parser.add_argument("--timeout-s", type=float, default=600.0, help="deadline of everything")
    parser.add_argument("--child", choices=("device", "pairs"), help=argparse.SUPPRESS)
    parser.add_argument("--lock", type=Path, default=None, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _words(known: Sequence[str]) -> Any:
    def read(text: str) -> tuple[str, ...]:
        words = tuple(word for word in text.split(",") if word)
        unknown = [word for word in words if word not in known]
        if unknown or not words:
            raise argparse.ArgumentTypeError(
                f"unknown: {','.join(unknown) or 'none'}; choose from {','.join(known)}"
            )
        return words

    return read


class _Child:
    """The process of one device, or of the pairs of all devices; passes its records on and remembers its rows."""

    def __init__(
        self, words: Sequence[str], gpu: int | None, rows: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        self.gpu, self.open = gpu, list(rows)
        self.at: str | None = None
        environment = {
            **os.environ,
            # The archive that this program may run from is in the path of this process.
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            # cuBLAS computes the same bits each time only with this setting.
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            # The order of nvidia-smi, so that both mean the same GPU by a number.
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            **(env or {}),
        }
        self.process = subprocess.Popen(
            (sys.executable, "-m", "clusterctl.workloads", _NAME, *words),
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        self._reader = threading.Thread(target=self._pass_on, daemon=True)
        self._reader.start()

    def _pass_on(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if line.startswith(records.MARK):
                record = json.loads(line.removeprefix(records.MARK))
                if record["kind"] == "device-row":
                    self.at = record["row"]
                elif record["kind"] in ("device-row-end", "device-failure"):
                    self.open.remove(record["row"])

    def ended(self, until: float) -> bool:
        """Wait for the end; kill the process at ``until``. Return whether every row was measured."""
        reason = None
        try:
            status = self.process.wait(timeout=max(0.0, until - time.monotonic()))
            if status < 0:
                memory = ", possibly for memory" if status == -9 else ""
                reason = f"the process was ended by signal {-status}{memory}"
            elif status:
                reason = f"the process ended with status {status}; its messages are on stderr"
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
            reason = "the deadline of --timeout-s passed"
        self._reader.join(timeout=10.0)
        for row in list(self.open):
            where = "" if row == self.at else f" in the row {self.at}" if self.at else " before its first row"
            records.emit(
                "device-failure",
                gpu=self.gpu,
                row=row,
                reason=f"{reason or 'the process ended early'}{where}",
            )
        return status == 0 and not self.open


def _child(arguments: argparse.Namespace) -> int:
    """Measure in this process; it ends at the deadline even if the process that started it has been killed."""
    faulthandler.dump_traceback_later(arguments.timeout_s + 5.0, exit=True)
    kind = arguments.device
    indices = [int(word) for word in arguments.gpus.split(",")]
    chosen = one_device.devices(kind, indices)
    if arguments.child == "pairs":
        return one_device.run_pairs(chosen)
    request = DeviceRequest(
        arguments.rows,
        arguments.types,
        arguments.sdc_s,
        arguments.sustained_s,
        arguments.lock,
        arguments.timeout_s,
    )
    return one_device.run(indices[0], chosen[0], request)


def _chosen(arguments: argparse.Namespace) -> tuple[str, list[int]]:
    """Return the kind of device and the indices; raise ValueError for GPUs that this node does not have."""
    kind = arguments.device
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    words = [word for word in arguments.gpus.split(",") if word]
    if not all(word.isdigit() and len(word) < 5 for word in words):
        raise ValueError(f"--gpus takes indices such as 0,1, not {arguments.gpus!r}")
    indices = [int(word) for word in words]
    if kind == "cpu":
        return kind, indices or [0]
    count = torch.cuda.device_count()
    missing = [index for index in indices if index >= count]
    if count == 0 or missing:
        raise ValueError(
            f"torch {torch.__version__} finds {count} GPU(s)" + (f", not GPU {missing[0]}" if missing else "")
        )
    return kind, indices or list(range(count))


def _measure(arguments: argparse.Namespace, kind: str, indices: list[int], lock: Path) -> bool:
    until = time.monotonic() + arguments.timeout_s
    common = ("--device", kind, "--timeout-s", f"{arguments.timeout_s:g}")
    rows = [row for row in ROWS if row in arguments.rows]
    complete = True
    if rows:
        words = (
            *common, "--child", "device", "--rows", ",".join(rows), "--types", ",".join(arguments.types),
            "--sdc-s", f"{arguments.sdc_s:g}", "--sustained-s", f"{arguments.sustained_s:g}", "--lock", str(lock),
        )  # fmt: skip
        children = [_Child((*words, "--gpus", str(index)), index, rows) for index in indices]
        complete &= _all_ended(children, until)
    together = [row for row in (PAIRS, OVERLAP) if row in arguments.rows]
    if len(indices) == 1:
        for row in together:
            records.emit("device-skipped", gpu=None, row=row, reason="it needs several GPUs")
        return complete
    if PAIRS in together:
        pairs = (*common, "--child", "pairs", "--gpus", ",".join(map(str, indices)))
        complete &= _Child(pairs, None, [PAIRS]).ended(until)
    if OVERLAP in together:
        alike = (*common, "--child", "device", "--rows", OVERLAP)
        with tempfile.TemporaryDirectory(prefix="clusterctl-device-") as folder:
            children = [
                _Child(
                    (*alike, "--gpus", str(index)),
                    index,
                    [OVERLAP],
                    overlap.environment(rank, len(indices), Path(folder, "meeting")),
                )
                for rank, index in enumerate(indices)
            ]
            complete &= _all_ended(children, until)
    return complete


def _all_ended(children: Sequence[_Child], until: float) -> bool:
    """Wait for all processes; return whether all rows were measured."""
    ended = [child.ended(until) for child in children]
    return all(ended)


def main(argv: list[str] | None = None) -> int:
    """Measure all devices of this node; return 1 if a row failed, 4 if this node lacks the devices."""
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    if arguments.child:
        return _child(arguments)
    try:
        kind, indices = _chosen(arguments)
    except ValueError as error:
        sys.stderr.write(f"{_NAME}: {error}\n")
        return EXIT_NO_DEVICE
    records.emit("device-start", devices=indices, device=kind, rows=list(arguments.rows))
    started = time.monotonic()
    with tempfile.NamedTemporaryFile(prefix="clusterctl-device-") as lock:
        complete = _measure(arguments, kind, indices, Path(lock.name))
    records.emit("device-end", complete=complete, seconds=round(time.monotonic() - started, 3))
    return 0 if complete else EXIT_FAILED
