"""``clusterctl bench`` killed at any moment: the next run removes what it left, and nothing of it holds a secret."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from listening import wait_until

SECRET = "hunter2-of-the-killed-run"
# A seed says when each dies; a longer run by hand: CLUSTERCTL_KILLS=50.
KILLS = int(os.environ.get("CLUSTERCTL_KILLS", "6"))


def directories_of(pid):
    """Return the directories that a controller made; other tests' runs make and remove theirs meanwhile."""
    found = set()
    for lease in Path("/tmp").glob("clusterctl-*/lease"):
        with contextlib.suppress(FileNotFoundError):
            if lease.read_text().split()[4:5] == [str(pid)]:
                found.add(lease.parent)
    return found


def texts_below(path):
    """Yield the content of every file; a run of another test may remove the directory at this moment."""
    for folder, _, names in os.walk(path):
        for file in (Path(folder, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                if file.is_file():
                    yield file.read_bytes()


def processes(tokens):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            said, line = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if any(f"CLUSTERCTL_LAUNCH={token}".encode() in said for token in tokens):
            found.append(line)
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
    leftover = set()
    for number in range(KILLS):
        process = bench("-b", "1M", "-e", "1M", "-n", "1000000")
        time.sleep(rng.uniform(0.3, 6.0))
        if number == KILLS - 1:  # On a busy machine none may have come so far.
            wait_until(lambda pid=process.pid: bool(directories_of(pid)), "no directory is made")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
        process.stdout.close()
        made = directories_of(process.pid)
        leftover |= made
        for path in made:
            assert not [text for text in texts_below(path) if SECRET.encode() in text], path
    assert leftover, "no run was killed with a directory made"
    with bench("-b", "8", "-e", "8", "-n", "1") as last:
        said = last.communicate(timeout=300)[0]
    assert last.returncode == 0, said
    wait_until(lambda: not any(path.exists() for path in leftover), "a directory is left")
    tokens = [path.name.removeprefix("clusterctl-") for path in leftover]
    wait_until(lambda: processes(tokens) == [], "a process is left")
