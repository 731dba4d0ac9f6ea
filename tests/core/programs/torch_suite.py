"""Runs torch's own tests of a distributed backend at world size 2 and prints one JSON line per test.

`torch_suite.py BACKEND [TEST...]`: BACKEND is gloo or ccore; without names, all tests of torch's class. The tests
decide by the name in $BACKEND which of them apply, and they know nothing of ccore; so the names are decided as for
gloo, and the groups are then made with BACKEND. What gloo is not excused from, ccore is not either.

Ranks are forked from this process, which has imported torch and started nothing: 0.1 s instead of 3 s for each.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import unittest
from datetime import timedelta
from typing import Any

WORLD_SIZE = 2
TEST_TIMEOUT_S = 150

os.environ.update(
    {
        "BACKEND": "gloo",
        "WORLD_SIZE": str(WORLD_SIZE),
        "MASTER_ADDR": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(TEST_TIMEOUT_S),
        # Read at import to decide whether tests that make a second default group apply; replaced for each test.
        "INIT_METHOD": "file://" + tempfile.gettempdir() + "/unused",
    }
)

import collective_core.torch_backend  # noqa: E402, F401  # registers ccore
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """As torch.distributed.monitored_barrier, which refuses every backend but gloo by its name."""
    group = dist.group.WORLD if group is None else group
    if group == dist.GroupMember.NON_GROUP_MEMBER:
        return
    if isinstance(timeout, float):
        timeout = timedelta(seconds=timeout)
    group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)


class Posing(str):
    """A backend's name that a test takes for gloo's where it asks for that."""

    def __eq__(self, other: object) -> bool:
        return other == "gloo" or str(self) == other

    __hash__ = str.__hash__


class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    """torch's tests; each in two processes forked from this one."""

    def setUp(self) -> None:
        super().setUp()
        distributed_test.INIT_METHOD = os.environ["INIT_METHOD"]
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


class Lines(unittest.TestResult):
    """Prints the end of each test as a line."""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._began = time.monotonic()

    def _say(self, test: unittest.TestCase, outcome: str, text: str = "") -> None:
        line = {
            "test": test.id().rpartition(".")[2],
            "outcome": outcome,
            "seconds": round(time.monotonic() - self._began, 2),
            "text": text,
        }
        print(json.dumps(line), flush=True)

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


def main() -> None:
    backend, names = sys.argv[1], sys.argv[2:]
    os.environ["BACKEND"] = backend
    distributed_test.BACKEND = Posing(backend)
    if backend == "ccore":
        dist.monitored_barrier = monitored_barrier
    for name in names or unittest.defaultTestLoader.getTestCaseNames(Suite):
        unittest.TestSuite([Suite(name)]).run(Lines())


if __name__ == "__main__":
    main()
