"""The ccore backend in real processes: torch's calls, DDP, and a rank that dies."""

from __future__ import annotations

import _ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import warm_python

PROGRAMS = Path(__file__).resolve().parent / "programs"
Program = Callable[..., Any]
RELEASE = tuple(map(int, metadata.version("torch").split(".")[:2]))


def test_collectives(program: Program) -> None:
    ended = program("torch_collectives.py", size=2, per_rank=lambda _: {"CCORE_DEBUG": "VERSION"}).finish()
    for rank, one in enumerate(ended):
        assert one.returncode == 0, one.output
        assert one.output.count("refused:") == 4, one.output
        assert f"ccore backend init rank {rank}/2" in one.output
        assert "transport shm" in one.output


def test_float8_equals_torch_for_every_pair_of_patterns(program: Program) -> None:
    # Of each type: operators, sizes, and what is checked of each; and PREMUL_SUM.
    checks = 2 * (5 * 8 * 3 + 1)
    ended = program("torch_float8.py", "cpu", size=2).finish()
    assert [(one.returncode, one.output.splitlines()[-1]) for one in ended] == [
        (0, f"{checks} checks")
    ] * 2, ended


def test_ddp_equals_a_single_process(program: Program, environment: dict[str, str]) -> None:
    alone = warm_python.run(
        (sys.executable, str(PROGRAMS / "torch_ddp.py"), "alone"), environment, timeout=120
    )
    expected = [value for row in json.loads(alone.stdout) for value in row]
    ended = program("torch_ddp.py", "ccore", size=2).finish()
    assert [one.returncode for one in ended] == [0, 0], ended
    results = [json.loads(one.output.splitlines()[-1]) for one in ended]
    assert results[0] == results[1]  # to the last bit
    assert [value for row in results[0] for value in row] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_ddp_with_uneven_inputs_equals_a_single_process(program: Program) -> None:
    ended = program("torch_join.py", size=2).finish()
    # On torch 2.4 a warning follows, about a temporary directory of torch.
    assert all(one.returncode == 0 and "done" in one.output.splitlines() for one in ended), ended


@pytest.mark.parametrize("api", ["wrapper", "fully_shard"])
def test_sharded_training_equals_a_single_process(
    program: Program, environment: dict[str, str], api: str
) -> None:
    if api == "fully_shard" and RELEASE < (2, 6):
        pytest.skip("fully_shard needs CUDA in torch before 2.6, whatever the backend")
    alone = warm_python.run(
        (sys.executable, str(PROGRAMS / "torch_fsdp.py"), "alone", api), environment, timeout=120
    )
    expected = json.loads(alone.stdout)
    ended = program("torch_fsdp.py", "ccore", api, size=2).finish()
    assert [one.returncode for one in ended] == [0, 0], ended
    for one in ended:
        result = json.loads(one.output.splitlines()[-1])
        assert len(result) == len(expected)
        for got, wanted in zip(result, expected, strict=True):
            assert got == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_a_rank_that_dies_under_ddp(program: Program) -> None:
    ended = program("torch_failure.py", size=2).finish()
    assert ended[1].returncode == 9
    assert ended[0].returncode == 0, ended[0].output
    report = json.loads(ended[0].output.splitlines()[-1])
    assert len(report["told"]) == 2, report
    assert all("rank 1 (host" in text for text in report["told"]), report
    assert report["told"][1].startswith("CcoreBackendError: all_reduce on rank 0: remote")
    assert report["after_s"] < 20


@pytest.mark.parametrize("size", [2, 3])
def test_small_batches_followed_at_once_by_a_collective(program: Program, size: int) -> None:
    ended = program("torch_batches.py", size=size).finish()
    assert [(one.returncode, one.output.splitlines()[-1:]) for one in ended] == [
        (0, ["rounds 100"])
    ] * size, ended


def test_profiles_deadlines_monitored_barriers_and_forks(program: Program) -> None:
    ended = program("torch_group.py", size=3).finish()
    assert [(one.returncode, one.output.splitlines()[-1:]) for one in ended] == [(0, ["done"])] * 3, ended


def test_callbacks_that_call_collectives_and_wait(program: Program) -> None:
    ended = program("torch_callbacks.py", size=2).finish()
    assert [(one.returncode, one.output.splitlines()[-1:]) for one in ended] == [(0, ["done"])] * 2, ended


def test_groups_made_again_with_one_store(program: Program) -> None:
    ended = program("torch_again.py", size=2).finish()
    assert [(one.returncode, one.output.splitlines()[-1:]) for one in ended] == [(0, ["done"])] * 2, ended


def test_checkpoints(program: Program, tmp_path: Path) -> None:
    ended = program("torch_checkpoints.py", str(tmp_path), size=2).finish()
    assert [(one.returncode, one.output.splitlines()[-1:]) for one in ended] == [(0, ["done"])] * 2, ended


AUTOLOAD = """
import torch.distributed as dist
from collective_core.autoload import register
register()
register()
assert "ccore" in dist.Backend.backend_list
import sys
assert "collective_core.torch_backend" not in sys.modules
assert "collective_core._lib" not in sys.modules
"""

AUTOLOAD_BROKEN = """
import torch.distributed as dist
from collective_core.autoload import register
def refuse(*arguments, **named):
    raise TypeError("another signature in a later torch")
dist.Backend.register_backend = refuse
register()
assert "ccore" not in dist.Backend.backend_list
"""

AUTOLOAD_OLD = """
import torch.distributed as dist
from collective_core.autoload import register
del dist.Backend.backend_list  # a torch from before it
register()
"""

AUTOLOAD_NOT_DISTRIBUTED = """
import torch.distributed as dist
from collective_core.autoload import register
dist.is_available = lambda: False  # built without; nothing else is there
dist.Backend = None
register()
"""

AUTOLOAD_FOREIGN = """
import torch.distributed as dist
from collective_core.autoload import register
class Strange:
    def __contains__(self, name):
        raise KeyError(name)
dist.Backend.backend_list = Strange()
register()
"""


@pytest.mark.parametrize(
    "code", [AUTOLOAD, AUTOLOAD_BROKEN, AUTOLOAD_OLD, AUTOLOAD_NOT_DISTRIBUTED, AUTOLOAD_FOREIGN]
)
def test_autoload_is_light_and_never_breaks_torch(environment: dict[str, str], code: str) -> None:
    # Without the installed entry point, which would register before the code does.
    given = {**environment, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(
        (sys.executable, "-c", code), env=given, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


UNUSABLE = """
import torch
import torch.distributed as dist  # by the installed entry point, registered without a look at the library
if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5):  # knows no such entry points
    assert "ccore" not in dist.Backend.backend_list
    import collective_core.torch_backend
assert "ccore" in dist.Backend.backend_list
try:
    dist.init_process_group("ccore", store=dist.HashStore(), rank=0, world_size=1)
except ImportError as error:
    print(error)
"""


def test_a_missing_library_is_an_error_of_the_backend_only(
    environment: dict[str, str], tmp_path: Path
) -> None:
    done = unusable(environment, tmp_path / "missing.so")
    assert f"CCORE_LIBRARY names no library at {tmp_path / 'missing.so'}: install collective_core" in done


def test_a_broken_library_is_an_error_of_the_backend_only(
    environment: dict[str, str], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.so"
    broken.write_text("no ELF file")
    done = unusable(environment, broken)
    assert f"the library at {broken} cannot be used: " in done
    assert "install collective_core" in done


def test_a_library_of_another_version_is_an_error_of_the_backend_only(environment: dict[str, str]) -> None:
    # Any shared library without our symbols.
    other = Path(_ctypes.__file__)
    assert f"the library at {other} cannot be used: " in unusable(environment, other)


def unusable(environment: dict[str, str], library: Path) -> str:
    """Return what a program prints that imports torch and then wants the backend."""
    done = subprocess.run(
        (sys.executable, "-c", UNUSABLE),
        env={**environment, "CCORE_LIBRARY": str(library)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
