"""NCCL's plugins: what the library exports, the table that Python writes and C++ reads, and the printed variables.

The C++ case `nccl-plugins` (test_core_native.py) plays NCCL's part against the net plugin.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from collective_core.errors import LibraryNotFoundError
from collective_core.nccl_table import Choice, Measured, candidates, ranges, table_text, write_table

from collective_core import nccl_plugins

REPOSITORY = Path(__file__).resolve().parents[2]
ALL_GATHER, ALL_REDUCE = 2, 4
TREE_LL = Choice(algorithm=0, protocol=0, channels=1)
RING_LL = Choice(algorithm=1, protocol=0, channels=0)
UNKNOWN = "gpu=unknown; ranks=2; nodes=2; nccl=0; net=own"
"""The key without a GPU and NCCL."""


def measured(size_bytes: int, choice: Choice | None, collective: int = ALL_REDUCE) -> Measured:
    return Measured(collective, size_bytes, own_us=100.0, choice=choice, us=50.0)


def plugins(build: Any) -> Path:
    folder: Path = build.folder
    return folder / "nccl_plugins"


def test_neighbours_with_one_choice_are_one_range() -> None:
    rows = [
        measured(1024, TREE_LL), measured(4096, TREE_LL), measured(16384, RING_LL), measured(65536, None),
        measured(2048, RING_LL, ALL_GATHER),
    ]  # fmt: skip
    assert ranges(rows) == [
        "choice all_gather 0 2048 ring ll 0",
        "choice all_reduce 0 8192 tree ll 1",
        "choice all_reduce 8193 32768 ring ll 0",
    ]
    assert ranges([measured(1024, None)]) == []


def test_candidates_are_the_pairs_of_the_mask() -> None:
    assert candidates(0b100_001, channels=(0, 2)) == [
        Choice(0, 0, 0), Choice(0, 0, 2), Choice(1, 2, 0), Choice(1, 2, 2),
    ]  # fmt: skip


ASK = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
pointers = (ctypes.c_void_p * 4).in_dll(library, "ncclTunerPlugin_v5")
init = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_size_t,
                        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(pointers[1])
choose = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p,
                          ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(pointers[2])
context, channels = ctypes.c_void_p(), ctypes.c_int()
assert init(ctypes.byref(context), 1, 2, 2, None, None, None) == 0
for size in map(int, sys.argv[2:]):
    costs = (ctypes.c_float * 21)(*[9.0] * 6, *[-1.0] * 15)
    channels.value = 7
    assert choose(context, 4, size, 1, costs, 7, 3, 0, ctypes.byref(channels)) == 0
    print(size, [index for index, cost in enumerate(costs) if cost == 0], channels.value)
"""


def test_the_plugin_reads_what_python_writes(build: Any, tmp_path: Path) -> None:
    """Under the name by which NCCL_TUNER_PLUGIN=ccore finds it."""
    path = tmp_path / "new" / "table.txt"
    write_table(path, table_text(UNKNOWN, [measured(1024, TREE_LL), measured(4096, RING_LL)]))
    done = subprocess.run(
        (sys.executable, "-c", ASK, str(plugins(build) / "libnccl-tuner-ccore.so"), "1024", "4096", "4097"),
        env={**os.environ, "CCORE_NCCL_TABLE": str(path)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["1024 [0] 1", "4096 [3] 7", "4097 [] 7"]
    assert [one.name for one in path.parent.iterdir()] == ["table.txt"]


def test_only_the_interface_is_exported(build: Any) -> None:
    done = subprocess.run(
        ("nm", "-D", "--defined-only", str(plugins(build) / nccl_plugins.LIBRARY_NAME)),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    assert names == {
        *(f"ncclNetPlugin_v{version}" for version in range(6, 13)),
        *(f"ncclTunerPlugin_v{version}" for version in range(2, 7)),
        *(f"ccore_nccl_{name}" for name in ("force", "last_question", "table_key", "table_path")),
    }


def test_the_variables_are_printed_for_a_shell(
    build: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CCORE_LIBRARY", str(plugins(build) / nccl_plugins.LIBRARY_NAME))
    path = nccl_plugins.plugin_path()
    assert ctypes.CDLL(str(path)).ccore_nccl_force
    assert nccl_plugins.main(["--no-tuner"]) == 0
    assert capsys.readouterr().out == f"export NCCL_NET_PLUGIN={path}\nexport NCCL_TUNER_PLUGIN=none\n"
    assert nccl_plugins.main(["--no-net"]) == 0
    assert capsys.readouterr().out == f"export NCCL_TUNER_PLUGIN={path}\n"


def test_a_missing_library_is_named(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_LIBRARY", str(build.library))
    with pytest.raises(
        LibraryNotFoundError, match=r"no NCCL plugins at .*libnccl-net-ccore\.so: install collective_core"
    ):
        nccl_plugins.plugin_path()


def test_the_declarations_are_those_of_nccl() -> None:
    """Against NCCL's source at $NCCL_SOURCE, built so far that src/include/nccl.h exists, and CUDA's headers."""
    source = os.environ.get("NCCL_SOURCE")
    if not source:
        pytest.skip("NCCL_SOURCE names no source of NCCL")
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    done = subprocess.run(
        ("g++", "-std=c++17", "-fsyntax-only", "-I", str(REPOSITORY / "collective_core" / "nccl_plugins"),
         "-I", f"{source}/src/include", "-I", f"{cuda}/include",
         str(REPOSITORY / "tests" / "core" / "programs" / "nccl_abi.cc")),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_ranks_of_the_tuning_program_agree_without_running_what_is_sent(program) -> None:
    for one in program("rank_0_values.py", size=2).finish():
        assert one.returncode == 0, one.output
        assert one.output.splitlines()[-1] == "shared"
