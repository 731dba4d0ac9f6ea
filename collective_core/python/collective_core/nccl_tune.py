"""Measure which of NCCL's algorithms, protocols and channel counts is fastest here, and write the tuner's table.

Start it on all ranks of the job that the table is for, with the environment of that job:

    torchrun --nnodes 2 --nproc-per-node 8 ... -m collective_core.nccl_tune

Every choice that NCCL offers is forced through the tuner plugin and timed for each size. A choice goes into the table
if it gives right results and is faster than NCCL's own by more than 3 percent in a second measurement, interleaved
with NCCL's own. One rank of each node writes the same file there.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from collective_core.nccl_calls import NcclComm
from collective_core.nccl_plugins import plugin_path
from collective_core.nccl_table import COLLECTIVES, Choice, Measured, candidates, table_text, write_table

GAIN = 0.97
"""A choice must take at most this part of the time of NCCL's own."""
KEPT = 3
_LEAVE_TO_NCCL = -2


class Question(ctypes.Structure):
    """ccore_nccl_question of tuner/measure.h."""

    _fields_ = (
        ("questions", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("collective", ctypes.c_int32),
        ("own_algorithm", ctypes.c_int32),
        ("own_protocol", ctypes.c_int32),
        ("available", ctypes.c_uint32),
    )


class Plugin:
    """The tuner plugin in this process, which NCCL has loaded from the same file."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.ccore_nccl_table_key.restype = ctypes.c_size_t
        self._library.ccore_nccl_table_path.restype = ctypes.c_size_t

    def force(self, choice: Choice) -> None:
        """Make NCCL use the choice wherever it can."""
        self._library.ccore_nccl_force(choice.algorithm, choice.protocol, choice.channels)

    def leave_to_nccl(self) -> None:
        """Let NCCL choose, also where a table exists."""
        self._library.ccore_nccl_force(_LEAVE_TO_NCCL, 0, 0)

    def last_question(self) -> Question:
        """Return what NCCL asked last."""
        question = Question()
        self._library.ccore_nccl_last_question(ctypes.byref(question))
        return question

    def text(self, name: str) -> str:
        """Return the key of the table or the path of its file."""
        room = ctypes.create_string_buffer(4096)
        function = getattr(self._library, name)
        function(room, ctypes.c_size_t(len(room)))
        return room.value.decode()


def from_rank_0(torch: Any, value: Any) -> Any:
    """Return rank 0's value, which JSON can hold, on every rank of the process group, without running what is sent."""
    dist = torch.distributed
    own = json.dumps(value).encode() if dist.get_rank() == 0 else b""
    size = torch.tensor([len(own)], dtype=torch.int64)
    dist.broadcast(size, 0)
    data = (
        torch.frombuffer(bytearray(own), dtype=torch.uint8)
        if own
        else torch.empty(int(size), dtype=torch.uint8)
    )
    dist.broadcast(data, 0)
    return json.loads(ctypes.string_at(data.data_ptr(), data.numel()))


class Measurement:
    """Times choices on all ranks alike. Rank 0 decides; the ranks agree over gloo."""

    def __init__(self, torch: Any, plugin: Plugin, budget_s: float) -> None:
        self.torch, self.dist, self.plugin = torch, torch.distributed, plugin
        self.rank, self.size = self.dist.get_rank(), self.dist.get_world_size()
        self._budget_s = budget_s
        self.comm = NcclComm(self.rank, self.size, lambda own: bytes.fromhex(self.from_rank_0(own.hex())))

    def slowest(self, seconds: float) -> float:
        """Return the largest over the ranks."""
        value = self.torch.tensor([seconds], dtype=self.torch.float64)
        self.dist.all_reduce(value, self.dist.ReduceOp.MAX)
        return float(value.item())

    def from_rank_0(self, value: Any) -> Any:
        """Return rank 0's value on every rank: numbers, texts, and lists of these."""
        return from_rank_0(self.torch, value)

    def choices_of_rank_0(self, choices: Sequence[Choice]) -> list[Choice]:
        """Return rank 0's choices on every rank."""
        return [Choice(*map(int, one)) for one in self.from_rank_0([astuple(one) for one in choices])]

    def time_us(self, run: Callable[[], None], count: int) -> float:
        """Return the microseconds of one call, of `count` in a row, on the slowest rank."""
        self.torch.cuda.synchronize()
        self.dist.barrier()
        begin = time.perf_counter()
        for _ in range(count):
            run()
        self.torch.cuda.synchronize()
        return self.slowest(time.perf_counter() - begin) / count * 1e6

    def use(self, choice: Choice | None) -> None:
        """Switch all ranks to a choice, None for NCCL's own, with nothing in flight."""
        self.torch.cuda.synchronize()
        self.dist.barrier()
        if choice is None:
            self.plugin.leave_to_nccl()
        else:
            self.plugin.force(choice)

    def measure(self, collective: str, size_bytes: int) -> Measured:
        """Find the best choice for one size."""
        run, is_right = self._operation(collective, size_bytes)
        self.use(None)
        before = self.plugin.last_question().questions
        first = self.time_us(run, 3)
        question = self.plugin.last_question()
        if question.questions == before:
            raise SystemExit(
                "NCCL did not ask the tuner plugin: its log with NCCL_DEBUG=INFO shows why (lines with TUNER/)"
            )
        first = self.from_rank_0(min(first, self.time_us(run, 10)))
        count = max(2, min(50, int(self._budget_s * 1e6 / first)))
        offered = self.choices_of_rank_0(candidates(question.available))
        quick: list[tuple[float, Choice]] = []
        for choice in offered:
            self.use(choice)
            self.time_us(run, 2)
            if self.slowest(0.0 if is_right() else 1.0) > 0:
                continue
            quick.append((self.time_us(run, max(2, count // 2)), choice))
        best = self.choices_of_rank_0(
            [choice for _, choice in sorted(quick, key=lambda pair: pair[0])[:KEPT]]
        )
        times: dict[Choice | None, list[float]] = {choice: [] for choice in (None, *best)}
        for _ in range(7):
            for tried, taken in times.items():
                self.use(tried)
                taken.append(self.time_us(run, count))
        medians = {choice: statistics.median(taken) for choice, taken in times.items()}
        own = medians.pop(None)
        winner, us = min(medians.items(), key=lambda pair: pair[1], default=(None, own))
        if winner is None or us > GAIN * own:
            winner, us = None, own
        collective_number, measured_bytes, own_us, fastest_us = self.from_rank_0(
            [question.collective, question.bytes, own, us]
        )
        chosen = self.choices_of_rank_0([winner] if winner is not None else [])
        return Measured(collective_number, measured_bytes, own_us, chosen[0] if chosen else None, fastest_us)

    def _operation(self, collective: str, size_bytes: int) -> tuple[Callable[[], None], Callable[[], bool]]:
        """Return a function that starts the collective, and one that carries it out on known data and checks it."""
        torch, size = self.torch, self.size
        part = max(1, size_bytes // 4 // size)
        count = part * size if collective in ("all_gather", "reduce_scatter") else max(1, size_bytes // 4)
        send = torch.zeros(part if collective == "all_gather" else count, device="cuda")
        receive = torch.zeros(part if collective == "reduce_scatter" else count, device="cuda")
        run = self.comm.operation(collective, send, receive, torch.cuda.current_stream().cuda_stream)
        pattern = (torch.arange(count, device="cuda") % 251).float()
        summed = pattern * (size * (size + 1) // 2)
        expected = {
            "all_reduce": summed,
            "reduce": summed,
            "reduce_scatter": summed[self.rank * part : (self.rank + 1) * part],
            "broadcast": pattern,
            "all_gather": torch.cat([pattern[:part] * (rank + 1) for rank in range(size)])[:count],
        }[collective]

        def is_right() -> bool:
            send.copy_(pattern[: send.numel()] * (self.rank + 1))
            receive.fill_(-1)
            run()
            return bool((collective == "reduce" and self.rank != 0) or torch.equal(receive, expected))

        return run, is_right


def say(line: str) -> None:
    """Print at once: several ranks write to one terminal."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def sizes_between(least: int, most: int) -> list[int]:
    """Return the powers of two from `least` on, up to `most`."""
    return [least << step for step in range(64) if least << step <= most]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m collective_core.nccl_tune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--collectives",
        default="all_reduce,all_gather,reduce_scatter",
        help="comma list (default: %(default)s)",
    )
    parser.add_argument("--min-bytes", type=int, default=1024, help="smallest size (default: %(default)s)")
    parser.add_argument("--max-bytes", type=int, default=16 << 20, help="largest size (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=0.004, help="of each timing (default: %(default)s); more: less noise"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the table, write nothing")
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.collectives.split(",")) - set(COLLECTIVES))
    if unknown:
        parser.error(f"unknown collective {unknown[0]!r} (choose from {', '.join(COLLECTIVES)})")
    if not 4 <= chosen.min_bytes <= chosen.max_bytes:
        parser.error(f"--min-bytes ({chosen.min_bytes}) must be from 4 to --max-bytes ({chosen.max_bytes})")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a line for each size, and write the table."""
    chosen = parse(arguments)
    path = plugin_path()
    os.environ["NCCL_TUNER_PLUGIN"] = str(path)
    for forced in ("NCCL_ALGO", "NCCL_PROTO"):
        if os.environ.get(forced):
            raise SystemExit(f"{forced}={os.environ[forced]} leaves nothing to choose; unset it")
    import torch
    import torch.distributed as dist

    local = int(os.environ.get("LOCAL_RANK", "0"))
    torch.cuda.set_device(local % torch.cuda.device_count())
    cuda: Any = torch.cuda
    cuda.set_stream(cuda.Stream())
    dist.init_process_group("gloo")
    measurement = Measurement(torch, Plugin(path), chosen.seconds)
    rank = dist.get_rank()
    measured: list[Measured] = []
    for collective in chosen.collectives.split(","):
        for size_bytes in sizes_between(chosen.min_bytes, chosen.max_bytes):
            one = measurement.measure(collective, size_bytes)
            measured.append(one)
            if rank == 0:
                choice = one.choice.text() if one.choice else "NCCL's own"
                say(
                    f"{collective} {one.size_bytes} B: {choice}, {one.us:.1f} us instead of {one.own_us:.1f} us"
                )
    key = measurement.from_rank_0(measurement.plugin.text("ccore_nccl_table_key"))
    text = measurement.from_rank_0(table_text(key, measured))
    target = Path(measurement.plugin.text("ccore_nccl_table_path"))
    if chosen.dry_run:
        if rank == 0:
            sys.stdout.write(text)
    elif local == 0:
        write_table(target, text)
        say(f"rank {rank} wrote {target}: digest {text.split()[-1][:12]}, {key}")
    measurement.comm.destroy()
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
