"""Runs Horovod's own tests for PyTorch on collective_core, unchanged, all in one world.

    mpirun -np 2 python tests/core/programs/horovod_suite.py TREE [PYTEST ARGUMENT...]

TREE is a checkout of github.com/horovod/horovod. Of Horovod's own code only `horovod/runner/util/threads.py` is used,
which the helpers of the tests import. Needs pytest, cloudpickle and mock. With HOROVOD_RANK and HOROVOD_SIZE set, the
tests end their world after each test, and two more of them run. Two things are kept from the tests that
Horovod itself would fail at:

- Muon, which torch 2.9 added. Three tests try every optimizer of torch on a model with biases, which Muon's constructor
  refuses.
- float16 in `UNROUNDED`, unless the number of ranks is a power of two. These tests expect a multiple that was not
  rounded to float16; at 3 ranks no float16 equals 7 of 10 of their numbers.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import collective_core.horovod.torch as hvd
import pytest
import torch

from collective_core import aliases

UNROUNDED = frozenset(
    f"test_horovod_{call}_prescale" for call in ("allreduce", "reducescatter", "grouped_reducescatter")
)


class WithoutHalf:
    """A plugin that leaves float16 out of the tests of `UNROUNDED`, by the switch that the tests have for oneCCL."""

    def __init__(self, size: int) -> None:
        self._is_exact = size & (size - 1) == 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Set the switch during such a test."""
        if item.name in UNROUNDED and not self._is_exact:
            os.environ["CCL_ROOT"] = ""
        try:
            return (yield)
        finally:
            os.environ.pop("CCL_ROOT", None)


def provide_threads(tree: Path) -> None:
    """Load Horovod's module of threads under its own name, which the alias does not provide."""
    name = "horovod.runner.util.threads"
    for package in ("horovod.runner", "horovod.runner.util"):
        sys.modules[package] = ModuleType(package)
    spec = importlib.util.spec_from_file_location(name, tree / "horovod/runner/util/threads.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


def main() -> int:
    """Return pytest's exit status."""
    tree = Path(sys.argv[1]).resolve()
    hvd.init()
    aliases.install(["horovod"])
    provide_threads(tree)
    if hasattr(torch.optim, "Muon"):
        torch.optim.Muon.__module__ = "muon"  # the tests take the classes of modules named torch.optim
    # Without the configuration of this project, whose plugins and limits are for its own tests.
    options = ("-c", "/dev/null", f"--rootdir={tree}", "-p", "no:cacheprovider", "-p", "no:xdist")
    tests = str(tree / "test/parallel/test_torch.py")
    return int(pytest.main([*options, tests, *sys.argv[2:]], plugins=[WithoutHalf(hvd.size())]))


if __name__ == "__main__":
    sys.exit(main())
