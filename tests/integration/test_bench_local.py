"""``clusterctl bench`` on this machine with real ranks: through mpirun and without it, and when they fail."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clusterctl.benchmarks import perf_output
from clusterctl.cli.main import main

CASES = Path(__file__).parents[1] / "unit" / "benchmarks" / "cases"
SMALL = (
    "--collective",
    "all_reduce",
    "--library",
    "gloo",
    "-np",
    "2",
    "-b",
    "8",
    "-e",
    "4K",
    "-n",
    "2",
    "--json",
)
# Runs for minutes unless something ends it.
ENDLESS = (
    "--collective",
    "all_reduce",
    "--library",
    "gloo",
    "-np",
    "2",
    "-b",
    "1M",
    "-e",
    "1M",
    "-n",
    "100000",
)


@pytest.fixture(autouse=True)
def _mpirun(tier_unavailable):
    if shutil.which("mpirun") is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")


def inventory(tmp_path, **settings):
    settings = {"python": sys.executable, "connection": "local", "address": "localhost", **settings}
    path = tmp_path / "inventory.yaml"
    node = ", ".join(f"{key}: {json.dumps(value)}" for key, value in settings.items())
    path.write_text(f"version: 1\nnodes:\n  - {{name: here, {node}}}\n")
    return str(path)


def script(tmp_path, text):
    path = tmp_path / "all_reduce_perf"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def run_folder(tmp_path):
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    return folder


def failures(done):
    return {fault["kind"]: fault for fault in json.loads(done.stdout)["proof"]["failures"]}


def launch_processes(tmp_path):
    """Every process that this test's launches left behind, by the marker that all of them carry.

    Other tests' launches, of the other worker too, are recognised by the directory of runs, which all on this machine
    inherit.
    """
    runs = f"CLUSTERCTL_RUNS={tmp_path / 'runs'}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes()
        except OSError:
            continue
        if b"CLUSTERCTL_LAUNCH=" in environ and runs in environ.split(b"\0"):
            found.append(int(folder.name))
    return found


def pid_of_rank(tmp_path, rank, timeout_s=60):
    """Wait until a rank is at work (its log names its process), then return its process id."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for pid in launch_processes(tmp_path):
            try:
                environ = (Path("/proc") / str(pid) / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            logs = list((tmp_path / "runs").glob("*/logs/rank-0.log"))
            if (
                f"OMPI_COMM_WORLD_RANK={rank}".encode() in environ
                and logs
                and "Rank  1" in logs[0].read_text()
            ):
                return pid
        time.sleep(0.2)
    raise AssertionError(f"rank {rank} never came")


def start(clusterctl, tmp_path, *arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CLUSTERCTL_")}
    return subprocess.Popen(
        [str(clusterctl), "bench", *arguments, "--json"],
        env={**environment, "CLUSTERCTL_RUNS": str(tmp_path / "runs")}, cwd=tmp_path, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process, tmp_path, timeout_s=120):
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        # Its pipes and its ranks would be counted as what later tests leave behind.
        process.kill()
        process.communicate(timeout=timeout_s)
        for pid in launch_processes(tmp_path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def nothing_is_left(tmp_path):
    assert launch_processes(tmp_path) == []
    used = (run_folder(tmp_path) / "launch.json").read_text() if (tmp_path / "runs").exists() else ""
    for word in used.split('"'):
        if word.startswith("/tmp/clusterctl-"):
            assert not Path(word).parent.exists() or Path(word).parent == Path("/tmp")


@pytest.mark.parametrize("launcher", ["openmpi", "local"])
def test_two_ranks_reduce_on_this_machine(run_clusterctl, tmp_path, launcher):
    done = run_clusterctl("bench", "-i", inventory(tmp_path), *SMALL, "--launcher", launcher)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["schema"], document["status"]) == ("clusterctl.bench/1", "ok")
    assert (document["variants"][0]["library"], document["launcher"]) == ("gloo", launcher)
    (only,) = document["variants"]
    assert [row["size_bytes"] for row in only["rows"]] == [8, 32, 128, 512, 2048]
    assert all(row["wrong"] == 0 and row["time_us"]["median"] > 0 for row in only["rows"])
    ranks = document["proof"]["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1]
    assert {rank["host"] for rank in ranks} == {os.uname().nodename.split(".")[0]}
    assert len({rank["pid"] for rank in ranks}) == 2
    folder = run_folder(tmp_path)
    assert document["run"] == folder.name
    assert json.loads((folder / "results.json").read_text()) == document
    (launch,) = json.loads((folder / "launch.json").read_text())["launches"]
    (command,) = json.loads((folder / "artifacts.json").read_text())["commands"]
    assert shlex.split(command["line"]) == launch["argv"]
    assert "Avg bus bandwidth" in (folder / "logs" / "rank-0.log").read_text()
    nothing_is_left(tmp_path)


def test_a_machine_without_mpi_trains_all_the_same(run_clusterctl, tmp_path):
    """PATH without mpirun: the local launcher is chosen by itself, and the scaling curve is drawn."""
    programs = tmp_path / "bin"
    programs.mkdir()
    names = "sh env uname nproc id mkdir cat sed tr cut head ls rm mv grep sort chmod sleep timeout dd wc ip mktemp"
    for name in (*names.split(), "dirname", "stat"):
        found = shutil.which(name)
        if found:
            (programs / name).symlink_to(found)
    done = run_clusterctl(
        "bench", "-i", inventory(tmp_path), "--model", "resnet18", "--library", "gloo", "--scaling", "1,2",
        "--batch-size", "2", "--image-size", "32", "-n", "1", "--windows", "2", "--json", env={"PATH": str(programs)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["benchmark"], document["launcher"]) == ("resnet18", "local")
    one, two = document["variants"][0]["points"]
    assert (one["np"], one["efficiency"], two["np"], two["nodes"]) == (1, 1.0, 2, 1)
    assert two["efficiency"] == pytest.approx(
        two["samples_per_s"]["median"] / one["samples_per_s"]["median"] / 2
    )
    assert document["proof"]["settings"]["parameters"] == 11_689_512
    assert set(document["variants"][0]["keys"]) == {"1", "2"}
    assert document["variants"][0]["keys"]["2"]["batch_per_rank"] == "2"
    assert document["variants"][0]["keys"]["2"]["hardware"] != "-"
    assert (run_folder(tmp_path) / "logs" / "np-2" / "rank-1.log").is_file()
    nothing_is_left(tmp_path)


def test_a_rank_that_is_killed_is_named(clusterctl, tmp_path):
    process = start(clusterctl, tmp_path, "-i", inventory(tmp_path), *ENDLESS)
    os.kill(pid_of_rank(tmp_path, 1), signal.SIGKILL)
    done = finish(process, tmp_path)
    assert done.returncode == 10, done.stderr
    fault = failures(done)["rank-died"]
    assert (fault["rank"], fault["node"]) == (1, "here")
    assert "signal 9" in fault["message"]
    assert json.loads(done.stdout)["status"] == "failed"
    nothing_is_left(tmp_path)


def test_a_rank_that_hangs_is_named_at_the_deadline(clusterctl, tmp_path):
    process = start(clusterctl, tmp_path, "-i", inventory(tmp_path), *ENDLESS, "--timeout", "30")
    pid = pid_of_rank(tmp_path, 1)
    os.kill(pid, signal.SIGSTOP)
    done = finish(process, tmp_path)
    assert done.returncode == 10, done.stderr
    fault = failures(done)["deadline"]
    assert fault["rank"] == 1
    assert f"rank 1 on here (pid {pid}) is stopped" in fault["message"]
    nothing_is_left(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_takes_the_ranks_along(clusterctl, tmp_path, number):
    process = start(clusterctl, tmp_path, "-i", inventory(tmp_path), *ENDLESS)
    pid_of_rank(tmp_path, 1)
    process.send_signal(number)
    done = finish(process, tmp_path)
    assert done.returncode == 130, done.stderr
    assert "All ranks were ended, and no result is stored." in done.stderr
    assert launch_processes(tmp_path) == []


def test_an_interrupt_keeps_the_finished_points(run_clusterctl, clusterctl, tmp_path):
    words = ("--model", "resnet18", "--library", "gloo", "--launcher", "local", "--scaling", "1,2")
    small = ("--batch-size", "2", "--image-size", "32", "-n", "1", "--windows", "2")
    with start(clusterctl, tmp_path, "-i", inventory(tmp_path, slots=2), *words, *small) as process:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "runs").glob("*/logs/np-2/rank-*.log")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "What was measured before is kept: clusterctl runs show " in said
    document = json.loads((run_folder(tmp_path) / "results.json").read_text())
    assert [point["np"] for point in document["variants"][0]["points"]] == [1]
    assert [fault["kind"] for fault in document["proof"]["failures"]] == ["interrupted"]
    listed = json.loads(run_clusterctl("runs", "list", "--json").stdout)["runs"]
    assert [one["outcome"] for one in listed] == ["interrupted"]
    assert launch_processes(tmp_path) == []


def test_a_loss_that_is_no_number_fails(run_clusterctl, tmp_path):
    done = run_clusterctl(
        "bench", "-i", inventory(tmp_path), "--model", "resnet18", "--library", "gloo", "--scaling", "2",
        "--batch-size", "2", "--image-size", "32", "-n", "2", "--windows", "2", "--learning-rate", "1e30", "--json",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "rank " in failures(done)["nan-loss"]["message"]
    assert set(failures(done)) == {"nan-loss"}


def test_processes_that_are_all_rank_0_are_found_out(run_clusterctl, tmp_path):
    """What a build of nccl-tests without MPI does under mpirun, replayed from a recorded run of one process."""
    program = script(tmp_path, f"cat {CASES}/layout-with-root-only.txt")
    done = run_clusterctl("bench", "-i", inventory(tmp_path, all_reduce_perf=program), "-np", "2", "--json")
    assert done.returncode == 10, done.stderr
    assert set(failures(done)) == {"duplicate-ranks"}


def test_fewer_ranks_than_asked_for_never_pass(run_clusterctl, tmp_path):
    log = CASES / "h200-x4-all_reduce_perf-mpirun-np2-g1.txt"
    program = script(tmp_path, f'[ "$OMPI_COMM_WORLD_RANK" = 0 ] && cat {log}; exit 0')
    done = run_clusterctl("bench", "-i", inventory(tmp_path, all_reduce_perf=program, slots=4), "--json")
    assert done.returncode == 10, done.stderr
    assert "2 of 4 ranks reported; missing: 2, 3" in failures(done)["fewer-ranks"]["message"]


def test_a_reader_that_fails_still_leaves_a_result(tmp_path, monkeypatch, capsys):
    """The fault is injected: no output is known that ends a reader (contract/test_parsers_never_raise.py)."""

    def fail(*_):
        raise TypeError("injected")

    monkeypatch.setattr(perf_output, "_judge", fail)
    monkeypatch.setenv("CLUSTERCTL_RUNS", str(tmp_path / "runs"))
    program = script(tmp_path, f"cat {CASES}/layout-with-root-only.txt")
    words = ["bench", "-i", inventory(tmp_path, all_reduce_perf=program, slots=2), "-np", "2", "--json"]
    assert main(words) == 11
    capsys.readouterr()
    result = json.loads((run_folder(tmp_path) / "results.json").read_text())
    assert result["status"] == "failed"
    (fault,) = result["proof"]["failures"]
    assert fault["message"] == "the output of the ranks cannot be read: TypeError: injected"


def test_output_that_breaks_off_is_not_a_result(run_clusterctl, tmp_path):
    program = script(tmp_path, f"cat {CASES}/crashed-without-summary.txt")
    done = run_clusterctl("bench", "-i", inventory(tmp_path, all_reduce_perf=program, slots=2), "--json")
    assert done.returncode != 0
    assert "crashed" in failures(done)


@pytest.mark.parametrize(
    ("settings", "arguments", "words"),
    [
        ({"mpirun": "/nowhere/mpirun"}, (), "mpirun not found (/nowhere/mpirun)"),
        ({"all_reduce_perf": "/nowhere/perf"}, (), "all_reduce_perf not found (/nowhere/perf)"),
        ({"python": "/nowhere/python"}, ("--library", "gloo"), "/nowhere/python not found"),
        ({"socket_ifname": "bond7"}, (), "network interface bond7 not found"),
    ],
)
def test_what_is_missing_is_named_before_anything_starts(
    run_clusterctl, tmp_path, settings, arguments, words
):
    done = run_clusterctl(
        "bench",
        "-i",
        inventory(tmp_path, **settings),
        "-np",
        "2",
        "--launcher",
        "openmpi",
        *arguments,
        "--json",
    )
    assert done.returncode == 10, done.stderr
    assert words in failures(done)["missing-program"]["message"]
    assert failures(done)["missing-program"]["node"] == "here"


def test_a_point_that_the_nodes_cannot_serve_is_refused_before_the_first_is_launched(
    run_clusterctl, tmp_path
):
    done = run_clusterctl(
        "bench", "-i", inventory(tmp_path, slots=2), "--model", "resnet18", "--library", "gloo", "--launcher", "local",
        "--scaling", "1,4",
    )  # fmt: skip
    assert done.returncode == 10 and "-np asks for 4 ranks, but the nodes have 2 slots" in done.stderr
    assert "Trained" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--collective", "all_reduce", "--model", "resnet50"),
        ("--model", "resnet51"),
        ("--collective", "all_to_none"),
        ("--model", "resnet50", "--scaling", "1,x"),
        ("--scaling", "1,2"),
        ("--model", "resnet50", "-b", "8"),
        ("-b", "8Q"),
        ("--launcher", "prterun"),
        ("--library", "mpi"),
        ("--map-by", "core"),
        ("--launcher", "local"),
    ],
)
def test_contradictions_are_a_usage_error_before_a_node_is_contacted(run_clusterctl, tmp_path, arguments):
    with socket.create_server(("", 0)) as server:
        path = tmp_path / "inventory.yaml"
        port = server.getsockname()[1]
        a, b = (f"{{name: n{i}, address: 127.0.0.{i}, port: {port}}}" for i in (1, 2))
        path.write_text(f"version: 1\nnodes:\n  - {a}\n  - {b}\n")
        done = run_clusterctl("bench", "-i", str(path), *arguments)
        assert done.returncode == 2, done.stderr
        server.setblocking(False)
        with pytest.raises(BlockingIOError):  # no process has connected
            server.accept()
    assert not (tmp_path / "runs").exists()


def test_a_node_that_refuses_is_exit_5(run_clusterctl, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    path = tmp_path / "inventory.yaml"
    path.write_text(f"version: 1\nnodes:\n  - {{name: a, address: 127.0.0.1, port: {port}}}\n")
    assert run_clusterctl("bench", "-i", str(path), "--library", "gloo").returncode == 5
