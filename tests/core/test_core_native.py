"""The cases of the C++ test program: ranks as threads."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

CASES = (
    "aborts",
    "arena",
    "choose",
    "cma",
    "cpu-reduce",
    "cpu-reduce-faulty",
    "cuda-choice",
    "cuda-descriptors",
    "cuda-flags",
    "cuda-nvlink",
    "cuda-segments",
    "cuda-tuning",
    "describe",
    "device-memory",
    "schedules",
    "schedules-all-reduce",
    "topology",
    "reduction",
    "wire",
    "transfers",
    "transfers-faulty",
    "receive-any",
    "receive-any-faulty",
    "siblings",
    "siblings-failures",
    "split",
    "desync",
    "endurance",
    "fuzz",
    "recorder",
    "registered-memory",
    "rendezvous",
    "seals",
    "failures",
    "late-rank",
    "late-readers",
    "lifecycle",
    "memory",
    "n-trees",
    "nccl-plugins",
    "packing",
    "perf-check",
    "rdma",
    "rdma-64",
    "stripes",
    "stripes-faulty",
    "topk",
    "topk-levels",
    "topk-ranks",
    "topk-ranks-faulty",
    "tour",
    "tuner",
    "tuner-cache",
    "tuner-comm",
    *(f"matrix-{transport}-{size}" for transport in ("shm", "tcp") for size in (1, 2, 3, 4)),
    *(f"matrix-{transport}-{size}-faulty" for transport in ("shm", "tcp") for size in (3, 5)),
    "matrix-shm-5",
    "matrix-rdma-3",
    "matrix-rdma-3-faulty",
    "matrix-mixed-4",
    "matrix-cyclic-4",
    *(f"algorithms-mixed-{size}" for size in range(2, 10)),
    "algorithms-cyclic-4",
    "algorithms-cyclic-5-faulty",
    "algorithms-tcp-3-faulty",
    "algorithms-shm-6-faulty",
)


def listed(build: Any) -> list[dict[str, Any]]:
    done = subprocess.run(
        (build.ctest, "--show-only=json-v1"),
        cwd=build.folder, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    tests: list[dict[str, Any]] = json.loads(done.stdout)["tests"]
    return tests


def test_every_case_is_run(build: Any) -> None:
    assert sorted(one["name"] for one in listed(build)) == sorted(CASES)


@pytest.mark.parametrize("case", CASES)
def test_native(build: Any, case: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CCORE_")}
    # By ctest, which knows the arguments and the environment of each case.
    command = (build.ctest, "-V", "-R", f"^{case}$")
    done = subprocess.run(
        command,
        cwd=build.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=450,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"100% tests passed.* out of 1$", done.stdout, re.MULTILINE), done.stdout


def test_the_program_can_fail(build: Any) -> None:
    done = subprocess.run((build.native_tests, "no-such-case"), capture_output=True, timeout=60, check=False)
    assert done.returncode == 2


def test_only_the_c_abi_is_exported(library: Path) -> None:
    done = subprocess.run(
        ("nm", "-D", "--defined-only", str(library)), capture_output=True, text=True, timeout=60, check=True
    )
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    assert names and all(name.startswith("cc_") for name in names), names
