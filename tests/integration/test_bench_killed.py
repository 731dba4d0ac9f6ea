"""``clusterctl bench`` killed at any moment: the next run removes what it left, and nothing of it holds a secret."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SECRET = "hunter2-of-the-killed-run"
# A seed says when each dies; a longer run by hand: CLUSTERCTL_KILLS=50.
KILLS = int(os.environ.get("CLUSTERCTL_KILLS", "6"))
OTHERS_S = 90


def directories():
    return set(Path("/tmp").glob("clusterctl-*"))


def processes(tokens):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            said = (folder / "environ").read_bytes()
        except OSError:
            continue
        if any(f"CLUSTERCTL_LAUNCH={token}".encode() in said for token in tokens):
            found.append((folder / "cmdline").read_bytes())
    return found


@pytest.fixture
def bench(clusterctl, sshd_farm, tmp_path):
    farm = sshd_farm(2)
    inventory = farm.inventory(
        tmp_path, socket_ifname="lo", python=sys.executable, env=f"{{HF_TOKEN: {SECRET}}}"
    )
    command = [str(clusterctl), "bench", "-i", str(inventory), "--launcher", "openmpi", "--library", "ccore"]
    env = {**os.environ, **farm.env, "CLUSTERCTL_RUNS": str(tmp_path / "runs")}

    def start(*words):
        return subprocess.Popen(
            [*command, "-np", "2", *words], env=env, cwd=tmp_path, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    return start


def test_killed_runs_leave_nothing_after_the_next(bench):
    rng = random.Random(9)
    before = directories()
    leftover = set()
    for _ in range(KILLS):
        process = bench("-b", "1M", "-e", "1M", "-n", "1000000")
        time.sleep(rng.uniform(0.3, 6.0))
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
        process.stdout.close()
        made = directories() - before
        leftover |= made
        for path in made:
            for file in path.rglob("*"):
                assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
    assert leftover, "no run was killed with a directory made"
    with bench("-b", "8", "-e", "8", "-n", "1") as last:
        said = last.communicate(timeout=300)[0]
    assert last.returncode == 0, said
    # Runs of other tests have such directories too, as long as they last.
    until = time.monotonic() + OTHERS_S
    while leftover & directories() and time.monotonic() < until:
        time.sleep(0.5)
    assert not leftover & directories()
    assert processes(path.name.removeprefix("clusterctl-") for path in leftover) == []
