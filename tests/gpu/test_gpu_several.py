"""Ranks on several GPUs: hidden and visible devices, uneven layouts, groups on different GPUs, and faults.

Every test needs two GPUs and is skipped on machines with fewer. The expected path depends on the machine:
`kernel` between GPUs with peer access, else `host`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from collective_core.locations import library_path

GPUS = torch.cuda.device_count()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.gpu_slow,
    pytest.mark.skipif(GPUS < 2, reason=f"needs two GPUs, and this machine has {GPUS}"),
]

World = Callable[..., list[str]]
PROGRAM = library_path().parents[1] / "bin" / "cuda_perf"
# Seconds of random calls by layout. A layout that resembles another one gets less time.
RANDOM_S = {"hidden": 20, "mixed": 20, "visible": 5, "threads": 5, "mixed-threads": 5}

# CUDA's names of the first two devices that the tests may use.
NAMES = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")[:2]
# The variables of each rank.
LAYOUTS = {
    "hidden": [{"CUDA_VISIBLE_DEVICES": name, "LOCAL_RANK": "0"} for name in NAMES],
    "visible": [{"LOCAL_RANK": "0"}, {"LOCAL_RANK": "1"}],
    "mixed": [{"LOCAL_RANK": "0"}, {"LOCAL_RANK": "0"}, {"LOCAL_RANK": "1"}],
}
# The same for cuda_perf.
NATIVE = {
    "hidden": ("ranks=2", "devices=0,1", "hidden=1"),
    "visible": ("ranks=2", "devices=0,1"),
    "mixed": ("ranks=3", "devices=0,0,1"),
    "threads": ("ranks=2", "devices=0,1", "threads=1"),
    "mixed-threads": ("ranks=3", "devices=0,0,1", "threads=1"),
}
layouts = pytest.mark.parametrize("layout", LAYOUTS)
native_layouts = pytest.mark.parametrize("layout", NATIVE)


def paths_of(layout: str) -> set[str]:
    """Return the paths that are right for a layout on this machine."""
    if not torch.cuda.can_device_access_peer(0, 1):
        return {"host"}
    # Streams wait for another GPU only where the GPU orders its writes.
    return {"stream", "host"} if layout == "mixed" else {"kernel"}


def check_proof(texts: list[str], layout: str) -> None:
    """Fail unless all ranks report the same right path, and what links their GPUs."""
    found = {re.findall(r"path (\w+) \(", text)[-1] for text in texts}
    assert len(found) == 1, texts
    assert found <= paths_of(layout), texts
    assert all("NVLink" in text for text in texts), texts


@pytest.fixture(autouse=True)
def _default_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CCORE_CUDA_PATH", raising=False)


@layouts
def test_every_call_of_torch_on_the_default_path(world: World, layout: str) -> None:
    each = LAYOUTS[layout]
    outputs = world("cuda_collectives.py", size=len(each), each=each, timeout_s=240)
    assert all(output.splitlines()[-1] == "done" for output in outputs)
    check_proof([output.splitlines()[-2] for output in outputs], layout)


def test_every_call_of_torch_is_staged_if_requested(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", "staged")
    outputs = world("cuda_collectives.py", each=LAYOUTS["visible"], timeout_s=240)
    assert all(output.splitlines()[-1] == "done" for output in outputs)
    assert all("staged through pinned host memory" in output.splitlines()[-2] for output in outputs), outputs


def test_every_call_of_torch_through_the_host(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", "host")
    outputs = world("cuda_collectives.py", each=LAYOUTS["hidden"], timeout_s=240)
    assert all(output.splitlines()[-1] == "done" for output in outputs)
    assert all("path host (as requested)" in output for output in outputs)


@layouts
def test_two_groups_with_random_calls(world: World, layout: str) -> None:
    each = LAYOUTS[layout]
    seconds = RANDOM_S[layout]
    outputs = world("cuda_several.py", str(seconds), size=len(each), each=each, timeout_s=seconds + 120)
    assert all(output.splitlines()[-1] == "done" for output in outputs)
    for number in range(2):
        check_proof(re.findall(rf"group {number} on cuda.*", "\n".join(outputs)), layout)


@pytest.mark.parametrize("layout", ["hidden", "visible"])
def test_random_calls_on_expandable_segments(
    world: World, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    outputs = world("cuda_several.py", "3", each=LAYOUTS[layout])
    assert all(output.splitlines()[-1] == "done" for output in outputs)
    # Whether the driver imports memory of a device that is hidden from the process is not documented.
    if layout == "visible" and paths_of(layout) == {"kernel"}:
        assert all(
            re.search(r"buffers of all ranks: (by cudaIpc, )?by descriptors", output) for output in outputs
        ), outputs


@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_training_equals_a_single_process(world: World, kind: str) -> None:
    (alone,) = world("cuda_training.py", "alone", kind, size=1)
    outputs = world("cuda_training.py", "ccore", kind, each=LAYOUTS["visible"], timeout_s=240)
    one, other, wanted = (json.loads(output.splitlines()[-1])["parameters"] for output in (*outputs, alone))
    assert one == other  # to the last bit
    for got, want in zip(one, wanted, strict=True):
        assert got == pytest.approx(want, rel=1e-9, abs=1e-12)


@layouts
def test_a_killed_rank_is_named_within_the_deadline(world: World, layout: str) -> None:
    each = LAYOUTS[layout]
    outputs = world("cuda_faults.py", "killed", "3000000", size=len(each), each=each, ends={1: -9})
    for rank in {0, len(each) - 1} - {1}:
        assert "rank 1" in outputs[rank], outputs
        # The deadline of the program is 3 s.
        assert float(re.findall(r"after ([\d.]+) s", outputs[rank])[-1]) < 8, outputs


def cuda_perf(*arguments: str, timeout_s: float = 120) -> str:
    """Run the C program and return what it printed; it fails on a wrong element."""
    done = subprocess.run(
        (str(PROGRAM), *arguments), capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@native_layouts
def test_every_collective_type_and_operator(layout: str) -> None:
    # Ranks that share a GPU without MPS take turns, at milliseconds for a kernel that waits.
    sizes = "sizes=1000" if layout == "mixed" else "sizes=1000,3000000"
    output = cuda_perf("collectives", *NATIVE[layout], sizes, "bytes=4000000", timeout_s=300)
    assert "wrong 0" in output
    check_proof([output], layout)


@native_layouts
def test_random_sizes_on_three_communicators_with_another_device_current(layout: str) -> None:
    seconds = RANDOM_S[layout]
    soak = ("operations=1000000", f"limit={seconds}", "elsewhere=1", f"epoch={2**32 - 3}")
    output = cuda_perf("soak", *NATIVE[layout], *soak, timeout_s=seconds + 120)
    assert "3 handles" in output
    assert "wrong 0" in output


@pytest.mark.parametrize("layout", ["hidden", "visible", "threads"])
def test_captured_graphs(layout: str) -> None:
    output = cuda_perf("graph", *NATIVE[layout], "sizes=1024,1048576,16777216")
    assert "wrong 0" in output


def test_freed_buffers_are_given_back() -> None:
    output = cuda_perf("churn", *NATIVE["hidden"], "operations=1000", "limit=5")
    assert "wrong 0" in output
    assert float(re.findall(r"([-\d.]+) MB missing at the end", output)[0]) < 100


@pytest.mark.parametrize("layout", ["hidden", "visible"])
def test_faults_are_named_in_time(layout: str) -> None:
    lines = cuda_perf("faults", *NATIVE[layout], "timeout=300").splitlines()
    missing = [line for line in lines if line.startswith("missing: rank 1")]
    assert len(missing) == 2
    for line in missing:
        assert "waited for rank 0" in line
        assert 295 < float(re.findall(r"after ([\d.]+) ms", line)[0]) < 340
    assert any("called all_reduce of" in line for line in lines if line.startswith("counts:"))


@pytest.mark.parametrize("layout", ["hidden", "visible", "mixed"])
def test_a_killed_rank_ends_the_others(layout: str) -> None:
    output = cuda_perf("killed", *NATIVE[layout], "timeout=2000")
    survivors = [line for line in output.splitlines() if line.startswith("killed: rank")]
    ranks = int(NATIVE[layout][0].partition("=")[2])
    assert len(survivors) == ranks - 1, output
    for line in survivors:
        assert "remote error" in line or "timeout" in line, output
        assert float(re.findall(r"after ([\d.]+) ms", line)[0]) < 3000, output
    assert any(f"rank {ranks - 1}" in line.partition("CUDA")[2] for line in survivors), output


def test_the_command_names_the_path_of_each_rank(tmp_path: Path) -> None:
    node = {"name": "here", "address": "localhost", "connection": "local", "python": sys.executable}
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(json.dumps({"version": 1, "nodes": [node]}))
    words = (
        sys.executable, "-m", "clusterctl.cli.main", "bench", "-i", str(inventory), "--json", "--launcher", "local",
        "-np", "2",
        "--library", "ccore", "-b", "4K", "-e", "1M", "-f", "16", "-n", "5", "-w", "2", "--runs", str(tmp_path),
    )  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    paths = document["variants"][0]["proof"]["paths"]
    assert [path["rank"] for path in paths] == [0, 1]
    check_proof([path["path"] for path in paths], "visible")
