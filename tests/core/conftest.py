"""Builds the C++ test program once, finds the library under test, and starts ranks as processes.

The library under test is the installed wheel's if the package has one, else the one built here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import free_ports
import pytest
import warm_python
from native_build import NativeBuild
from warm_python import WarmProcess

import collective_core

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
BUILD_LIMIT_S = 1800
"""For a build of two minutes that runs below the priority of the tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory is of the core tier; the first test that needs the C++ build waits for it."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.core)
            if "build" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.timeout(BUILD_LIMIT_S + 600))


def _tool(name: str) -> str:
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.fail(f"{name} is missing: pip install --group dev")
    return found


@dataclass(frozen=True)
class Build:
    folder: Path
    library: Path
    native_tests: Path
    ctest: str


_native: dict[str, NativeBuild] = {}


def _cmake_of(folder: Path) -> tuple[str, ...]:
    """Return the cmake that configured a directory, as another might compile all of it again, else one with ninja."""
    cache = folder / "CMakeCache.txt"
    recorded = (
        dict(re.findall(r"^(\w+):\w+=(.+)", cache.read_text(), re.MULTILINE)) if cache.is_file() else {}
    )
    cmake = recorded.get("CMAKE_COMMAND", "")
    found = cmake if Path(cmake).is_file() else _tool("cmake")
    if Path(recorded.get("CMAKE_MAKE_PROGRAM", "")).is_file():
        return (found,)
    return found, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}"


def _native_build() -> NativeBuild:
    """The C++ tests, added to the build of the wheel, so that its library is compiled once."""
    if "build" not in _native:
        folder = REPOSITORY / "build" / "wheel"
        cmake = _cmake_of(folder)
        configure = (
            *cmake, "-S", str(REPOSITORY / "collective_core"), "-B", str(folder), "-DCCORE_BUILD_TESTS=ON",
        )  # fmt: skip
        build = (cmake[0], "--build", str(folder), "--parallel", "2", "--target", "all", "ccore_tests")
        _native["build"] = NativeBuild(folder, (configure, build))
    return _native["build"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Begin the build, which takes minutes of one processor, while the tests of other tiers run."""
    wanted = any("build" in getattr(item, "fixturenames", ()) for item in session.items)
    # One of several workers is enough.
    wanted = wanted and os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    if wanted and not session.config.option.collectonly and not session.testsfailed:
        _native_build().begin()


def pytest_sessionfinish() -> None:
    """Leave no compiler behind a session that ends early."""
    for native in _native.values():
        native.abandon()


@pytest.fixture(scope="session")
def build() -> Build:
    """The C++ side, with its tests, built."""
    native = _native_build()
    native.finish(BUILD_LIMIT_S)
    return Build(
        folder=native.folder,
        library=native.folder / "libcollective_core.so",
        native_tests=native.folder / "native" / "ccore_native_tests",
        ctest=_tool("ctest"),
    )


@pytest.fixture(scope="session")
def installed() -> bool:
    """Whether the wheel's own library and program are there to be tested; in CI nothing else counts."""
    try:
        collective_core.library_path()
        collective_core.perf_binary("all_reduce_perf")
    except collective_core.LibraryNotFoundError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"in CI the installed wheel is tested, and it lacks a part: {error}")
        return False
    return True


@pytest.fixture(scope="session")
def library(installed: bool, request: pytest.FixtureRequest) -> Path:
    """The library under test."""
    if installed:
        return collective_core.library_path()
    return Path(request.getfixturevalue("build").library)


@pytest.fixture(scope="session")
def perf(installed: bool, request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Find a perf program under test by its name."""
    if installed:
        return collective_core.perf_binary
    folder = Path(request.getfixturevalue("build").folder)
    return lambda name: folder / name


@pytest.fixture(scope="session")
def all_reduce_perf(perf: Callable[[str], Path]) -> Path:
    """The perf program that most tests take."""
    return perf("all_reduce_perf")


@pytest.fixture(scope="session")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compile one of the C files in ``programs/`` to a library for LD_PRELOAD."""

    def compiled(name: str) -> Path:
        target = tmp_path_factory.mktemp("preload") / f"{name}.so"
        done = subprocess.run(
            ("cc", "-shared", "-fPIC", "-Wall", "-Werror",
             "-I", str(REPOSITORY / "collective_core" / "include"),
             "-o", str(target), str(PROGRAMS / f"{name}.c"), "-ldl"),
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return target

    return compiled


@pytest.fixture
def free_port() -> int:
    """A TCP port for the ranks to meet at."""
    return free_ports.free_port()


@dataclass
class Ended:
    """A finished rank."""

    returncode: int
    output: str


def _without_leaks(output: str) -> str:
    """Remove what Triton's bindings of torch 2.15 print when a rank ends that was forked after the import of torch."""
    noise = ("nanobind: ", " - leaked", " - ... skipped", "See https://nanobind")
    return "\n".join(line for line in output.split("\n") if not line.startswith(noise))


def _imports_torch(command: tuple[str, ...]) -> bool:
    """Whether ``command`` is one of the programs that import torch first of all."""
    program = Path(command[1]) if command[0] == sys.executable and len(command) > 1 else None
    return program is not None and program.parent == PROGRAMS and "\nimport torch" in program.read_text()


class Ranks:
    """Processes of one job; killed at the end of the test whatever happens."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.processes: list[subprocess.Popen[str] | WarmProcess] = []

    def start(
        self, command: tuple[str, ...], size: int, per_rank: Callable[[int], Mapping[str, str]] = lambda _: {}
    ) -> None:
        for rank in range(size):
            own = {"RANK": str(rank), "WORLD_SIZE": str(size), **per_rank(rank)}
            if _imports_torch(command):
                self.processes.append(warm_python.start(command, {**self._environment, **own}, merged=True))
                continue
            self.processes.append(
                subprocess.Popen(
                    command,
                    env={**self._environment, **own},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    text=True,
                )
            )

    def finish(self, timeout_s: float = 300) -> list[Ended]:
        """Wait for all; a rank that hangs fails the test. Four that train by torch take 40 s beside other tests."""
        ended = []
        for rank, process in enumerate(self.processes):
            try:
                output, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                said = process.communicate()[0]
                # Often it waits for one that has failed.
                pytest.fail(f"rank {rank} hangs; it said: {said}; of those before it: {ended}")
            ended.append(Ended(process.returncode, _without_leaks(output)))
        return ended

    def kill(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture
def environment(library: Path, free_port: int) -> dict[str, str]:
    """What every rank gets: the library, and a rendezvous on this machine."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CCORE_", "OMPI_", "PMI", "SLURM_"))}
    return {
        **clean,
        "CCORE_LIBRARY": str(library),
        "CCORE_ROOT_ADDR": "127.0.0.1",
        "CCORE_ROOT_PORT": str(free_port),
        "CCORE_JOB_SECRET": f"test job {free_port}",
        "CCORE_INIT_TIMEOUT_S": "60",
        "CCORE_MEASURE_CACHE": "0",  # what tests measure is for no other job
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port),
        "OMP_NUM_THREADS": "1",
    }


@pytest.fixture
def ranks(environment: dict[str, str]) -> Iterator[Ranks]:
    """Start ranks with ``start`` or ``program``, collect them with ``finish``."""
    started = Ranks(environment)
    yield started
    started.kill()


@pytest.fixture
def program(ranks: Ranks) -> Callable[..., Ranks]:
    """Start one of the programs in ``programs/`` on every rank."""

    def start(
        name: str, *arguments: str, size: int, per_rank: Callable[[int], Mapping[str, str]] = lambda _: {}
    ) -> Ranks:
        ranks.start((sys.executable, str(PROGRAMS / name), *arguments), size, per_rank)
        return ranks

    return start
