"""A way through every part of the library under ASan and UBSan, and under TSan; `make core-sanitizers` runs the rest.

The programs are built apart, at -Og and with few of the tests, and are kept between runs as the other build is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SANITIZERS = {"asan": "address,undefined", "tsan": "thread"}
CASES = (
    "cma",
    "cuda-flags",
    "cuda-tuning",
    "failures",
    "fuzz",
    "rdma",
    "registered-memory",
    "rendezvous",
    "seals",
    "tour",
)
# GCC 12 keeps vectors misaligned on the stack that ASan fakes, and stops at them: GCC bug 110027.
OPTIONS = {"ASAN_OPTIONS": "detect_stack_use_after_return=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


def tool(name: str) -> str:
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    assert found, f"{name} is missing: pip install --group dev"
    return found


def run(
    command: tuple[str, ...], timeout_s: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )


# A build of a minute on two idle processors has what others leave (tests/support/worker_groups.py).
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module", params=SANITIZERS)
def program(request: pytest.FixtureRequest) -> Path:
    """The small C++ test program, built with one of the sanitizers."""
    folder = REPOSITORY / "build" / f"sanitizer-{request.param}"
    cmake, ninja = tool("cmake"), tool("ninja")
    # Warnings are the business of the other builds: below -O2 GCC 12 finds some in its own header of AVX-512.
    configure = (
        cmake, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", "-S", str(REPOSITORY / "collective_core"),
        "-B", str(folder), "-DCCORE_BUILD_TESTS=ON", "-DCCORE_BUILD_PERF=OFF", "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_CXX_FLAGS_DEBUG=-Og", f"-DCCORE_SANITIZER={SANITIZERS[request.param]}",
    )  # fmt: skip
    build = (cmake, "--build", str(folder), "--target", "ccore_sanitizer_tests", "--parallel", "2")
    for command in (configure, build):
        done = run(command, 1800)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return folder / "native" / "ccore_sanitizer_tests"


@pytest.mark.parametrize("case", CASES)
def test_it_is_clean(program: Path, case: str) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("CCORE_")}
    done = run((str(program), case), 600, {**clean, **OPTIONS})
    assert done.returncode == 0 and f"{case} passed" in done.stdout, done.stdout + done.stderr
    for word in (
        "WARNING: ThreadSanitizer",
        "ERROR: AddressSanitizer",
        "ERROR: LeakSanitizer",
        "runtime error:",
    ):
        assert word not in done.stderr, done.stderr


def test_every_case_is_run(program: Path) -> None:
    """The program's own list, which it prints when it is asked for another case."""
    done = run((str(program), "no-such-case"), 60)
    assert done.returncode == 2
    assert [line.strip() for line in done.stderr.splitlines()[1:]] == list(CASES)
