"""The Horovod API in real processes: collectives against oracles, its promises, training, and unchanged scripts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).resolve().parent / "programs"
Program = Callable[..., Any]


@pytest.mark.parametrize("size", [2, 3])
def test_every_collective_on_every_type(program: Program, size: int) -> None:
    ended = program("horovod_matrix.py", size=size).finish()
    for one in ended:
        assert one.returncode == 0, one.output
        assert int(one.output.split()[-2]) > 2000, one.output


@pytest.mark.parametrize("size", [2, 3])
def test_behaviour(program: Program, size: int, tmp_path: Path) -> None:
    for one in program("horovod_behaviour.py", str(tmp_path), size=size).finish():
        assert one.returncode == 0, one.output
        assert one.output.splitlines()[-1] == "ended"


def test_training_equals_a_single_process_with_the_whole_batch(program: Program) -> None:
    for one in program("horovod_optimizer.py", size=2).finish():
        assert one.returncode == 0, one.output
        assert one.output.splitlines()[-1] == "trained"


@pytest.mark.gpu
def test_tensors_of_a_gpu(program: Program) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("torch sees no NVIDIA GPU")  # nor has CI one
    for one in program("horovod_cuda.py", size=2).finish():
        assert one.returncode == 0, one.output
        assert one.output.splitlines()[-1].startswith("cuda node")


def test_a_rank_that_does_not_call_is_named(program: Program) -> None:
    per_rank = {"CCORE_TIMEOUT_S": "4", "HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "CCORE_CYCLE_MS": "20"}
    ended = program("horovod_stall.py", size=2, per_rank=lambda _: per_rank).finish()
    for rank, one in enumerate(ended):
        assert one.returncode == 0, one.output
        waiting = "allreduce.one waits for rank 1; allreduce.other waits for rank 0"
        assert f"no call was made by all ranks: {waiting}" in one.output, (rank, one.output)
        # At the first look after 1 s, which a busy machine takes when it can.
        warning = r"WARNING:collective_core:for \d+ s, no call was made by all ranks"
        assert len(re.findall(warning, one.output)) == 1, one.output


def test_a_rank_that_makes_no_call_at_all_is_warned_of_by_the_others(
    program: Program, tmp_path: Path
) -> None:
    """It calls only after another rank has warned, so the job ends only if one does."""
    per_rank = {"CCORE_STALL_WARNING_S": "0.5", "STALL_WARNED": str(tmp_path / "warned")}
    ended = program("horovod_stall.py", "absent", size=3, per_rank=lambda _: per_rank).finish()
    assert [one.returncode for one in ended] == [0, 0, 0], [one.output for one in ended]
    warning = (
        r"WARNING:collective_core:for \d+ s, a rank has made no call at all: allreduce.late waits for it"
    )
    assert [len(re.findall(warning, one.output)) for one in ended][2] == 0
    assert sum(len(re.findall(warning, one.output)) for one in ended) >= 1


def test_a_stall_may_end_the_job_before_the_deadline(program: Program) -> None:
    per_rank = {
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "3", "HOROVOD_STALL_CHECK_TIME_SECONDS": "1",
        "HOROVOD_STALL_CHECK_DISABLE": "1", "CCORE_CYCLE_MS": "20",
    }  # fmt: skip
    for one in program("horovod_stall.py", size=2, per_rank=lambda _: per_rank).finish():
        assert one.returncode == 0, one.output
        assert re.search(r"after \d+ s, no call was made by all ranks", one.output), one.output
        assert "WARNING" not in one.output


def test_a_rank_that_another_one_ends_in_a_stall_is_told_what_was_missing(program: Program) -> None:
    """No two ranks have the same clock: the one whose patience ends first ends it for all."""

    def per_rank(rank: int) -> dict[str, str]:
        return {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "60" if rank else "3", "CCORE_CYCLE_MS": "20"}

    first, second = program("horovod_stall.py", size=2, per_rank=per_rank).finish()
    assert (first.returncode, second.returncode) == (0, 0), first.output + second.output
    waiting = (
        "no call was made by all ranks: allreduce.one waits for rank 1; allreduce.other waits for rank 0"
    )
    assert re.search(rf"^after \d+ s, {waiting}$", first.output, re.MULTILINE), first.output
    assert re.search(rf"^remote: rank 0 \(host .*; after \d+ s, {waiting}$", second.output, re.MULTILINE), (
        second.output
    )


@pytest.fixture
def unled(environment: dict[str, str]) -> dict[str, str]:
    """The environment without a rendezvous: what a launcher gives must do."""
    led = ("CCORE_ROOT", "CCORE_JOB", "MASTER_")
    return {name: value for name, value in environment.items() if not name.startswith(led)}


def launched(launcher: str, size: int, tier_unavailable: Callable[[str], None]) -> tuple[str, ...]:
    if launcher == "torchrun":
        options = ("--standalone", "--no-python", f"--nproc-per-node={size}")
        return (sys.executable, "-m", "torch.distributed.run", *options)
    found = shutil.which("mpirun")
    if found is None:
        tier_unavailable("mpirun is missing: apt-get install openmpi-bin")
    return (str(found), "--allow-run-as-root", "--oversubscribe", "-np", str(size))


SCRIPT = str(PROGRAMS / "horovod_mnist.py")
BY_MODULE = (sys.executable, "-m", "collective_core.run", SCRIPT, "--epochs", "3")
# The entry point is called by hand, as an installed wheel has it called at the end of `import torch`.
AFTER_TORCH = f"""
import runpy, sys, torch
from collective_core.autoload import register
register()
sys.argv = ["script", "--fp16-allreduce"]
runpy.run_path({SCRIPT!r}, run_name="__main__")
"""
BY_TORCH = (sys.executable, "-c", AFTER_TORCH)
# What Tencent Cloud's page has TACO Train's users give to mpirun, all of it.
AS_LIGHTCC_DOCUMENTS = {
    "NCCL_DEBUG": "INFO", "NCCL_IB_DISABLE": "0", "NCCL_SOCKET_IFNAME": "bond0", "NCCL_IB_GID_INDEX": "3",
    "NCCL_NET_GDR_LEVEL": "0", "HOROVOD_FUSION_THRESHOLD": "0", "HOROVOD_CYCLE_TIME": "0", "LIGHT_INTRA_SIZE": "8",
    "LIGHT_2D_ALLREDUCE": "1", "LIGHT_TOPK_ALLREDUCE": "1", "LIGHT_TOPK_THRESHOLD": "2097152",
}  # fmt: skip


@pytest.mark.parametrize(
    ("launcher", "command", "given"),
    [("mpirun", BY_MODULE, AS_LIGHTCC_DOCUMENTS), ("torchrun", BY_TORCH, {"CCORE_RUN": "1"})],
)
def test_an_unchanged_script(
    launcher: str,
    command: tuple[str, ...],
    given: dict[str, str],
    unled: dict[str, str],
    tier_unavailable: Callable[[str], None],
) -> None:
    done = subprocess.run(
        (*launched(launcher, 2, tier_unavailable), *command), env={**unled, **given},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "size 2 loss" in done.stdout
    assert re.search(r"collective_core \[\d+\] version .* rank 1 of 2: .* transport", done.stderr), (
        done.stderr
    )
    accuracy = float(done.stdout.split("accuracy ")[1].split("%")[0])
    assert accuracy > 90, done.stdout


ALIASED = """
import importlib, sys
from collective_core import aliases
aliases.install_if_wanted(of_run=False)
installed = {installed!r}
import horovod.torch as hvd
if installed:
    print(hvd.NAME)
    sys.exit()
import collective_core.horovod.torch as ours
assert hvd is ours
from horovod.torch.mpi_ops import allreduce
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet
assert allreduce is ours.allreduce and ProcessSet is ours.ProcessSet
for name in ("horovod.tensorflow", "horovod.keras", "horovod.torch.nothing", "horovod.run"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name == name and "is not part of collective_core's Horovod API" in str(error), error
    else:
        raise AssertionError(name)
import horovod
assert not hasattr(horovod, "nothing")
try:
    horovod.run(print)
except NotImplementedError as error:
    assert "horovod.run is not part of collective_core's Horovod API" in str(error), error
else:
    raise AssertionError("horovod.run")
print("ours")
"""


@pytest.mark.parametrize(
    ("wanted", "installed", "returncode", "says"),
    [
        ("1", False, 0, "ours"),
        ("0", False, 1, "No module named 'horovod'"),
        ("1", True, 0, "the real one"),
        ("force", True, 0, "ours"),
        ("perhaps", False, 1, "CCORE_ALIAS=perhaps: expected 0 or 1 or force"),
    ],
)
def test_the_alias_never_shadows_horovod_unless_forced(
    tmp_path: Path, wanted: str, installed: bool, returncode: int, says: str
) -> None:
    if installed:
        package = tmp_path / "horovod"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "torch.py").write_text("NAME = 'the real one'\n")
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        (sys.executable, "-c", ALIASED.format(installed=installed and wanted != "force")),
        env={**os.environ, "CCORE_ALIAS": wanted, "PYTHONPATH": paths},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == returncode, done.stdout + done.stderr
    assert says in done.stdout + done.stderr
