"""``clusterctl bench`` across real sshd nodes through every launcher: results, attribution of output, and faults."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import mpi_wheels
import pytest
from launcher_nodes import LAUNCHERS, NAMES, inventory, ready
from listening import wait_until

SMALL = ("-b", "8", "-e", "4K", "-n", "2")
LIBRARIES = dict.fromkeys(LAUNCHERS, "ccore") | {"torchrun": "gloo"}
"""Ranks of C++ start in a tenth of the time that torch takes; the ranks that are killed are Python's everywhere."""


@pytest.fixture(params=LAUNCHERS)
def launcher(request, tier_unavailable):
    return ready(request, request.param, tier_unavailable)


def run_folder(tmp_path):
    (folder,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    return folder


def faults(document):
    return {fault["kind"]: fault for fault in document["proof"]["failures"]}


def nothing_is_left(tmp_path):
    """Only the watch of a node may still run: it ends some seconds after its connection (``watches_end``)."""
    left = processes_of(tmp_path)
    assert all(b"echo beat" in said or said.endswith(b"sleep\0005\0") for _, said in left), left


def watches_end(tmp_path):
    wait_until(lambda: not processes_of(tmp_path), "a watch is left", 60)


def processes_of(tmp_path):
    """Every process with the token of a launch below this directory's runs in its environment or command line."""
    tokens = {
        Path(word).parts[2].removeprefix("clusterctl-").encode()
        for log in (tmp_path / "runs").glob("*/launch.json")
        for word in log.read_text().replace("=", '"').replace(" ", '"').split('"')
        if word.startswith("/tmp/clusterctl-")
    }
    assert tokens
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            said = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
            if any(token in said for token in tokens):
                found.append((folder.name, said[-200:]))
    return found


def test_four_ranks_on_two_nodes_reduce_together(run_clusterctl, sshd_farm, tmp_path, launcher):
    """Uneven: one rank on the launching node, three on the other."""
    name, settings = launcher
    farm = sshd_farm(2)
    done = run_clusterctl(
        "bench", "-i", inventory(farm, tmp_path, settings, (1, 3)), "--launcher", NAMES[name],
        "--library", LIBRARIES[name], "-np", "4", *SMALL, "--json", env=farm.env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["status"], document["launcher"]) == ("ok", NAMES[name])
    assert [rank["rank"] for rank in document["proof"]["ranks"]] == [0, 1, 2, 3]
    assert all(row["wrong"] == 0 for row in document["variants"][0]["rows"])
    folder = run_folder(tmp_path)
    (launch,) = json.loads((folder / "launch.json").read_text())["launches"]
    assert launch["node_of_rank"] == ["node01", "node02", "node02", "node02"]
    assert "Avg bus bandwidth" in (folder / "logs" / "rank-0.log").read_text()
    if name in mpi_wheels.WHEELS:
        assert str(settings["mpirun"]) in launch["argv"]
    nothing_is_left(tmp_path)
    watches_end(tmp_path)


# Says who it is on both outputs, half a line at a time, and what its node is by the daemon that it came through.
WHO = """
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${RANK:-$SLURM_PROCID}}}
size=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-${WORLD_SIZE:-$SLURM_NTASKS}}}
local=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${LOCAL_RANK:-$SLURM_LOCALID}}}
printf '  stdout of %s' "$rank"; sleep 0.1; printf ' of %s\\n' "$size"
sleep 0.3; echo "stderr of $rank" >&2; sleep 0.3
echo "local $local via ${SSH_CONNECTION:-here} secret ${#CCORE_JOB_SECRET}"
"""


@pytest.mark.parametrize("map_by", ["slot", "node"])
def test_every_line_is_its_ranks(run_clusterctl, sshd_farm, tmp_path, launcher, map_by):
    name, settings = launcher
    farm = sshd_farm(2)
    program = tmp_path / "all_reduce_perf"
    program.write_text(f"#!/bin/sh\n{WHO}")
    program.chmod(0o755)
    path = inventory(farm, tmp_path, {**settings, "all_reduce_perf": program}, (2, 3))
    done = run_clusterctl(
        "bench", "-i", path, "--launcher", NAMES[name], "--library", "ccore", "--map-by", map_by, "--json",
        env=farm.env,
    )  # fmt: skip
    document = json.loads(done.stdout)
    # It prints no table, and that is the only thing wrong with it.
    assert set(faults(document)) <= {"crashed", "unparsable", "fewer-ranks"}, done.stderr
    folder = run_folder(tmp_path)
    (launch,) = json.loads((folder / "launch.json").read_text())["launches"]
    local = dict.fromkeys(("node01", "node02"), 0)
    for rank, node in enumerate(launch["node_of_rank"]):
        lines = (folder / "logs" / f"rank-{rank}.log").read_text().splitlines()
        assert f"  stdout of {rank} of 5" in lines
        assert f"stderr of {rank}" in lines
        (line,) = [line for line in lines if line.startswith("local")]
        assert line.startswith(f"local {local[node]} ") and line.endswith("secret 32"), line
        # The first node runs its ranks below the controller's own connection.
        if name != "srun":
            assert farm.node(node).address in line
        local[node] += 1
        assert len(lines) == 3
    if name not in ("torchrun",):
        assert launch["node_of_rank"][1] == ("node01" if map_by == "slot" else "node02")


def begin(clusterctl, farm, tmp_path, launcher, *arguments, library="gloo"):
    """Start ranks that reduce without end. If one ends, those of ccore end so fast that a launcher may blame them."""
    name, settings = launcher
    return subprocess.Popen(
        [str(clusterctl), "bench", "-i", inventory(farm, tmp_path, settings, (1,) * len(farm.nodes)),
         "--launcher", NAMES[name], "--library", library, "-b", "1M", "-e", "1M", "-n", "1000000", *arguments,
         "--json"],
        env={**os.environ, **farm.env, "CLUSTERCTL_RUNS": str(tmp_path / "runs")}, cwd=tmp_path, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def pid_of_rank(process, tmp_path, rank, timeout_s=90):
    """Wait until the ranks are at work, which rank 0 says in its log; return one's process id."""
    deadline = time.monotonic() + timeout_s
    while True:
        for log in (tmp_path / "runs").glob("*/logs/rank-0.log"):
            for line in log.read_text().splitlines():
                if line.startswith(f"#  Rank {rank:2d} "):
                    return int(line.split("Pid")[1].split()[0])
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise AssertionError(process.communicate())
        time.sleep(0.1)


def finish(process, timeout_s=150):
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        process.kill()
    assert process.returncode == 10, err
    return json.loads(out)


def test_a_rank_that_is_killed_is_named(clusterctl, sshd_farm, tmp_path, launcher):
    process = begin(clusterctl, sshd_farm(2), tmp_path, launcher, "--timeout", "200")
    os.kill(pid_of_rank(process, tmp_path, 1), signal.SIGKILL)
    fault = faults(finish(process))["rank-died"]
    assert (fault["rank"], fault["node"]) == (1, "node02")
    # Open MPI 5 may only report a rank that ended because it lost this one.
    ways = "rank 1 on node02 died of signal 9", "rank 1 on node02 died or cannot be reached, as rank "
    assert fault["message"].startswith(ways)
    nothing_is_left(tmp_path)


def test_a_rank_that_hangs_is_named_at_the_deadline(
    request, clusterctl, sshd_farm, tmp_path, tier_unavailable
):
    """Through every launcher, one begun after the other: what hangs is idle, and all wait together."""
    hanging = {}
    with contextlib.ExitStack() as started:
        for name in LAUNCHERS:
            launcher = ready(request, name, tier_unavailable)
            folder = tmp_path / name
            folder.mkdir()
            process = begin(
                clusterctl, sshd_farm(2), folder, launcher, "--timeout", "50", library=LIBRARIES[name]
            )
            started.enter_context(process)
            started.callback(process.kill)
            pid = pid_of_rank(process, folder, 1)
            os.kill(pid, signal.SIGSTOP)
            hanging[name] = (process, folder, pid)
        for name, (process, folder, pid) in hanging.items():
            fault = faults(finish(process))["deadline"]
            assert (name, fault["rank"], fault["node"]) == (name, 1, "node02")
            assert f"(pid {pid}) is stopped" in fault["message"], name
            nothing_is_left(folder)


def test_a_node_that_goes_down_is_named(clusterctl, sshd_farm, tmp_path, launcher):
    farm = sshd_farm(2)
    process = begin(clusterctl, farm, tmp_path, launcher, "--timeout", "200", library=LIBRARIES[launcher[0]])
    pid_of_rank(process, tmp_path, 1)
    farm.node("node02").stop()
    assert faults(finish(process))["node-lost"]["node"] == "node02"
    nothing_is_left(tmp_path)
