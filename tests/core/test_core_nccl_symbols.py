"""libcollective_core_nccl.so in front of NCCL, without a GPU: NCCL, the driver and the CUDA library are fakes.

The ranks are processes, and meet through the real collective_core.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from collective_core.errors import LibraryNotFoundError
from fake_libraries import compile_fake

PROGRAMS = Path(__file__).parent / "programs"
FLOAT32, E4M3, SUM = 1, 10, 0  # of collective_core


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the libraries under test and the fakes."""
    from collective_core.locations import library_path

    folder = tmp_path_factory.mktemp("libraries")
    front = library_path().parent / "libcollective_core_nccl.so"
    if not front.is_file():
        raise LibraryNotFoundError(f"{front} is not built")
    (folder / front.name).symlink_to(front)
    (folder / "libcollective_core.so").symlink_to(library_path())
    for name, source in (
        ("libnccl.so.2", "fake_nccl.c"), ("libcuda.so.1", "fake_cuda.c"),
        ("libcollective_core_cuda.so", "fake_core_cuda.c"),
    ):  # fmt: skip
        compile_fake(source, folder / name)
    return folder


def preload(libraries: Path, *names: str) -> dict[str, str]:
    paths = [str(libraries / name) for name in ("libcollective_core_nccl.so", *names)]
    return {**os.environ, "LD_PRELOAD": " ".join(paths)}


class World:
    """Two ranks of nccl_caller.py, what they reported, and the calls that reached the CUDA library."""

    def __init__(
        self,
        libraries: Path,
        folder: Path,
        *,
        everywhere: Mapping[str, str] = MappingProxyType({}),
        **of_rank_1: str,
    ) -> None:
        folder.mkdir(exist_ok=True)
        common = {
            **preload(libraries, "libnccl.so.2", "libcuda.so.1"),
            "FAKE_BOARD": str(folder / "board"), "CCORE_SOCKET_ADDR": "127.0.0.1", "CCORE_INIT_TIMEOUT_S": "30",
            "CCORE_NCCL": "all", "CCORE_AUTOTUNE": "0", **everywhere,
        }  # fmt: skip
        started = []
        for rank in (0, 1):
            own = {"CCORE_NCCL_REPORT": str(folder / f"report{rank}"), "FAKE_LOG": str(folder / f"log{rank}")}
            words = (sys.executable, str(PROGRAMS / "nccl_caller.py"), str(rank), "2")
            environment = {**common, **own, **(of_rank_1 if rank == 1 else {})}
            started.append(subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True))
        for process in started:
            _, said = process.communicate(timeout=60)
            assert process.returncode == 0, said
        self.reports: list[dict[str, Any]] = [
            json.loads((folder / f"report{rank}").read_text()) for rank in (0, 1)
        ]
        logs = [folder / f"log{rank}" for rank in (0, 1)]
        self.calls = [log.read_text().splitlines() if log.exists() else [] for log in logs]


def test_each_function_of_nccl_is_taken_or_left_on_purpose(libraries: Path) -> None:
    done = subprocess.run(
        ("nm", "-D", "--defined-only", str(libraries / "libcollective_core_nccl.so")),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    exported = {line.split()[-1] for line in done.stdout.splitlines()}
    lines = (PROGRAMS / "nccl_functions.txt").read_text().splitlines()
    decided = dict(line.split() for line in lines if not line.startswith("#"))
    assert set(decided.values()) == {"taken", "left"}
    assert {name for name, by in decided.items() if by == "taken"} == {
        name for name in exported if name.startswith("nccl")
    }


def test_both_ranks_take_the_same_calls_in_the_same_order(libraries: Path, tmp_path: Path) -> None:
    world = World(libraries, tmp_path, FAKE_LATE="1")
    for rank, report in enumerate(world.reports):
        assert (report["communicators_taken"], report["communicators_passed"]) == (2, 0)
        assert report["communicators"][0] == {
            "ranks": 2,
            "rank": rank,
            "path": "the fake's path",
            "why": None,
        }
        counts = report["functions"]
        # The program's own operator is NCCL's.
        assert counts["ncclAllReduce"] == {"taken": 4, "taken_bytes": 1220, "passed": 1, "passed_bytes": 16}
        assert (counts["ncclSend"]["taken"], counts["ncclRecv"]["taken"]) == (2, 2)
        assert world.calls[rank][:3] == [
            f"0 all_reduce 4 {FLOAT32} {SUM}",
            f"0 all_reduce 4 {E4M3} {SUM}",
            f"0 all_gather 3 {E4M3}",
        ]
        assert world.calls[rank][-1] == "1 abort"
    grouped = [calls[3:-1] for calls in world.calls]
    other = {0: "exchange to1:8 from1:8", 1: "exchange to0:8 from0:8"}
    # The ranks named the communicators in different orders, and each first its transfers.
    assert [line.replace(other[1], other[0]) for line in grouped[1]] == grouped[0]
    assert sorted(grouped[0]) == sorted(
        [
            f"0 all_reduce 100 {FLOAT32} {SUM}",
            f"1 all_reduce 200 {FLOAT32} {SUM}",
            f"0 {other[0]}",
            f"1 {other[0]}",
        ]
    )
    assert [line.split()[1] for line in grouped[0]] == ["all_reduce", "exchange"] * 2


def test_what_no_gpu_has_proven_is_nccls_by_default(libraries: Path, tmp_path: Path) -> None:
    differing = World(libraries, tmp_path / "differing", CCORE_NCCL="1")
    assert differing.reports[0]["communicators"][0]["why"] == "rank 1: CCORE_NCCL differs from that of rank 0"
    world = World(libraries, tmp_path / "same", everywhere={"CCORE_NCCL": "1"})
    counts = world.reports[0]["functions"]
    sends = counts["ncclSend"]
    assert (counts["ncclAllReduce"]["taken"], sends["taken"], sends["passed"]) == (4, 0, 2)


def test_calls_compete_with_nccl(libraries: Path, tmp_path: Path) -> None:
    world = World(libraries, tmp_path, everywhere={"CCORE_AUTOTUNE": "1"})
    for rank, report in enumerate(world.reports):
        # The fake carries out the first and the third call, and NCCL the second; groups cannot be measured.
        assert world.calls[rank][:5] == [
            "0 add_rival nccl 0", "1 add_rival nccl 0", f"0 compete 0 4 {FLOAT32}", f"0 compete 0 4 {E4M3}",
            f"0 compete 2 3 {E4M3}",
        ]  # fmt: skip
        assert f"0 all_reduce 100 {FLOAT32} {SUM}" in world.calls[rank]
        counts = report["functions"]
        assert (counts["ncclAllReduce"]["taken"], counts["ncclAllReduce"]["passed"]) == (3, 2)
        assert (counts["ncclAllGather"]["taken"], counts["ncclAllGather"]["passed"]) == (1, 0)
        assert report["without_tuner"] is None
        assert report["choices"] == [
            {
                "collective": "all_reduce", "types": "any", "size_class": 4, "by": "packets", "us": 3.14,
                "first_us": 12.5, "kept": False,
            }
        ]  # fmt: skip


@pytest.mark.parametrize(("choice", "taken"), [("nccl", 0), ("packets", 4)])
def test_a_choice_holds_for_all_calls_grouped_or_not(
    libraries: Path, tmp_path: Path, choice: str, taken: int
) -> None:
    world = World(libraries, tmp_path, everywhere={"CCORE_AUTOTUNE": "1", "FAKE_CHOICE": choice})
    for report, calls in zip(world.reports, world.calls, strict=True):
        assert report["functions"]["ncclAllReduce"]["taken"] == taken
        assert report["functions"]["ncclAllReduce"]["passed"] == 5 - taken
        assert report["functions"]["ncclSend"]["taken"] == 2
        assert not [call for call in calls if "compete" in call]


def test_rank_0_decides_whether_calls_compete(libraries: Path, tmp_path: Path) -> None:
    world = World(libraries, tmp_path / "off", CCORE_AUTOTUNE="1")
    assert not [call for calls in world.calls for call in calls if "add_rival" in call]
    assert world.reports[0]["choices"] == world.reports[1]["choices"] == []


def test_without_a_tuner_the_table_decides(libraries: Path, tmp_path: Path) -> None:
    world = World(libraries, tmp_path, everywhere={"CCORE_AUTOTUNE": "1", "FAKE_NO_TUNER": "1"})
    for report in world.reports:
        assert report["functions"]["ncclAllReduce"]["taken"] == 4
        assert report["without_tuner"] == "the fake fails as requested"


def test_a_rank_that_cannot_leaves_all_ranks_to_nccl(libraries: Path, tmp_path: Path) -> None:
    world = World(libraries, tmp_path, FAKE_FAILS="1")
    for report in world.reports:
        assert (report["communicators_taken"], report["communicators_passed"]) == (0, 2)
        assert report["communicators"][0]["why"] == "rank 1: the fake fails as requested"
        assert report["functions"]["ncclAllReduce"]["taken"] == 0
    assert world.calls == [[], []]


# Calls NCCL as a linked program does; argv: the library to take its functions from.
ALONE = """
import ctypes, sys
nccl = ctypes.CDLL(sys.argv[1] or None)
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
comm = ctypes.c_void_p()
assert nccl.ncclCommInitRank(ctypes.byref(comm), 1, Id(), 0) == 0 and comm.value
call = lambda count: nccl.ncclAllReduce(None, None, ctypes.c_size_t(count), 7, 0, comm, None)
assert nccl.ncclGroupStart() == 0 and call(4) == 0 and nccl.ncclGroupEnd() == 0
assert [call(count) for count in (1, 13)] == [0, 4]
nccl.ncclGetLastError.restype = ctypes.c_char_p
assert nccl.ncclGetLastError(comm) == b"the fake's own text"
assert nccl.ncclReduceScatter(None, None, ctypes.c_size_t(1), 7, 0, comm, None) == 2  # the fake has none
"""


def run(program: str, *arguments: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        (sys.executable, "-c", program, *arguments), env=environment, timeout=60, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_driver_it_passes_and_each_process_adds_a_line(libraries: Path, tmp_path: Path) -> None:
    written = tmp_path / "report.json"
    environment = {**preload(libraries, "libnccl.so.2"), "CCORE_NCCL_REPORT": str(written)}
    for _ in range(2):
        run(ALONE, "", environment=environment)
    run("pass", environment=environment)  # a process that never calls NCCL
    one, other = [json.loads(line) for line in written.read_text().splitlines()]
    assert one["functions"] == other["functions"]
    assert one["functions"]["ncclAllReduce"] == {
        "taken": 0,
        "taken_bytes": 0,
        "passed": 3,
        "passed_bytes": 72,
    }
    assert (one["schema"], one["communicators"]) == ("collective_core.nccl/1", [])


def test_imported_it_is_in_front_of_a_nccl_that_is_loaded_later(libraries: Path) -> None:
    program = f"""
from collective_core import nccl_shim
{ALONE}
print(nccl_shim.report()["functions"]["ncclAllReduce"]["passed"])
"""
    environment = {**os.environ, "CCORE_NCCL_PATH": str(libraries / "libnccl.so.2")}
    assert run(program, "", environment=environment).split() == ["3"]


TOO_LATE = """
import sys
sys.modules["torch"] = sys
try:
    import collective_core.nccl_shim
except ImportError as error:
    print(error)
"""
WITHOUT_NCCL = """
import ctypes
from collective_core import nccl_shim
print(ctypes.CDLL(str(nccl_shim.library_path())).ncclGroupStart())
"""


@pytest.mark.parametrize(
    ("program", "said"), [(TOO_LATE, "has no effect after `import torch`"), (WITHOUT_NCCL, "2\n")]
)
def test_too_late_and_without_nccl(program: str, said: str) -> None:
    environment = {**os.environ, "CCORE_NCCL_PATH": "/nonexistent/libnccl.so.2"}
    assert said in run(program, environment=environment)
