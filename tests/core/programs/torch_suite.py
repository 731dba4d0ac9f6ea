"""Runs torch's own tests of a distributed backend and prints one JSON line per test.

    torch_suite.py BACKEND [--as NAME] [--world-size N] [--part K/N] [TEST...]

BACKEND is gloo, nccl or ccore. Without TEST, all tests of torch's class run. The tests decide by the backend's name
which of them apply, and do not have the name ccore. They therefore decide for NAME (default: gloo), and the groups are
created with BACKEND: ccore runs every test that NAME runs.

As nccl, the tests use CUDA tensors. Where there are fewer devices than ranks, all ranks use device 0 (one_gpu.py).

Ranks are forked from this process, which has imported torch and started nothing: 0.1 s instead of 3 s for each. Those
that use CUDA are spawned.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import unittest
from datetime import timedelta
from typing import Any

TEST_TIMEOUT_S = 150
# Tests that check NCCL itself, and do not apply to another backend.
OF_NCCL = {
    "test_ddp_profiling_execution_trace": "counts the records that NCCL's group adds to an execution trace",
    "test_nccl_high_priority_stream": "makes an NCCL group of its own, and finds its spans by the backend's name",
}
# Tests that need a second device, and fail where rank 1 uses device 0.
OF_TWO_DEVICES = {"test_ddp_device": "expects the tensors of rank 1 on device 1"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("backend", choices=("gloo", "nccl", "ccore"))
    parser.add_argument("--as", dest="posed", default="gloo", choices=("gloo", "mpi", "nccl"))
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--part", default="0/1", help="run the tests whose index is K modulo N: K/N")
    parser.add_argument("tests", nargs="*")
    return parser.parse_intermixed_args()


ARGUMENTS = _arguments()
# torch's module reads these at its import. It needs the file: form of INIT_METHOD there to let the tests run that make
# a second default group, and a fresh file for each of them later, which a spawned rank finds in its environment.
os.environ.update(
    {
        "BACKEND": ARGUMENTS.posed,
        "WORLD_SIZE": str(ARGUMENTS.world_size),
        "MASTER_ADDR": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        # torch's extension tools ask at their import whether there is a GPU; NVML answers without initialising CUDA.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(TEST_TIMEOUT_S),
    }
)
os.environ.setdefault("INIT_METHOD", f"file://{tempfile.gettempdir()}/replaced_by_every_test")

import collective_core.torch_backend  # noqa: E402, F401  # registers ccore
import one_gpu  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402

# A fork cannot use CUDA if the imports have initialised it, which depends on the release of torch.
START = "spawn" if ARGUMENTS.posed == "nccl" else "fork"


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """As torch.distributed.monitored_barrier, which refuses every backend but gloo by its name."""
    group = dist.group.WORLD if group is None else group
    if group == dist.GroupMember.NON_GROUP_MEMBER:
        return
    if isinstance(timeout, float):
        timeout = timedelta(seconds=timeout)
    group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)


get_backend = dist.get_backend


class Posing(str):
    """A backend's name that also equals the name it poses as, for tests that compare names while they run."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other == ARGUMENTS.posed or str(self) == other

    __hash__ = str.__hash__


class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    """torch's tests; each in processes started from this one."""

    def setUp(self) -> None:
        super().setUp()
        distributed_test.INIT_METHOD = os.environ["INIT_METHOD"]
        self._start_processes(torch.multiprocessing.get_context(START).Process)

    @classmethod
    def _run(cls, rank: int, *arguments: Any, **more: Any) -> None:
        pose()
        if ARGUMENTS.posed == "nccl" and on_one_device():
            one_gpu.use_device_zero(ARGUMENTS.world_size)
            one_gpu.use_a_host_per_rank(rank)
        super()._run(rank, *arguments, **more)


def print_line(test: str, outcome: str, text: str = "", seconds: float = 0.0) -> None:
    """Print the end of a test."""
    line = {"test": test, "outcome": outcome, "seconds": round(seconds, 2), "text": text}
    print(json.dumps(line), flush=True)


def exclusions() -> dict[str, str]:
    """Return the tests that do not apply to this backend on these devices, with the reason."""
    if ARGUMENTS.posed != "nccl" or ARGUMENTS.backend != "ccore":
        return {}
    return {**OF_NCCL, **(OF_TWO_DEVICES if on_one_device() else {})}


def on_one_device() -> bool:
    """Return whether ranks share a device, because there are too few."""
    return torch.cuda.device_count() < ARGUMENTS.world_size


class Lines(unittest.TestResult):
    """Prints the end of each test as a line."""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._began = time.monotonic()

    def _say(self, test: unittest.TestCase, outcome: str, text: str = "") -> None:
        print_line(test.id().rpartition(".")[2], outcome, text, time.monotonic() - self._began)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._say(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._say(test, "skipped", reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._say(test, "failed", self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._say(test, "failed", self.errors[-1][1])


def pose() -> None:
    """Make the tests treat the backend as the one that it poses as."""
    os.environ["BACKEND"] = ARGUMENTS.backend
    distributed_test.BACKEND = Posing(ARGUMENTS.backend)
    if ARGUMENTS.backend == "ccore":
        dist.monitored_barrier = monitored_barrier
    # Profiler tests expect asynchronous spans from gloo. ccore's spans are synchronous if the caller waits.
    if ARGUMENTS.backend == "ccore" and ARGUMENTS.posed == "nccl":
        dist.get_backend = lambda group=None: Posing(get_backend(group))


def main() -> None:
    pose()
    there = unittest.defaultTestLoader.getTestCaseNames(Suite)
    excluded = exclusions()
    first, every = (int(word) for word in ARGUMENTS.part.split("/"))
    for name in (ARGUMENTS.tests or there)[first::every]:
        if name in excluded:
            print_line(name, "excluded", excluded[name])
        elif name in there:
            unittest.TestSuite([Suite(name)]).run(Lines())
        else:
            print_line(name, "absent")


if __name__ == "__main__":
    main()
