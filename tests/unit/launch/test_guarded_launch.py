"""A launch ends by itself when no controller is left that would end it."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from listening import wait_until

from clusterctl.launch.base import LaunchPlan, Placement, start_script
from clusterctl.launch.launchers.local import SPAWNER, LocalSpawn

# What ranks that hang do at worst: they take no notice of SIGTERM, and neither do their children.
STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.2; done"


def plan(directory, program, np=2):
    return LaunchPlan(
        launcher=LocalSpawn(), token=f"{os.getpid():016x}", mark="f00d", directory=str(directory),
        program=program, env=(), map_by="slot", interfaces=None, timeout_s=20.0, python=sys.executable,
        placements=(Placement("here", "here", "localhost", None, None, np),),
    )  # fmt: skip


def of_launch(token):
    """Return the processes that carry the token of a launch, and their command lines."""
    found = {}
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"CLUSTERCTL_LAUNCH={token}".encode() in environ.read_bytes():
                found[int(environ.parent.name)] = environ.with_name("cmdline").read_text()
        except OSError:
            continue
    return found


def started(directory, program, limit_s):
    """Start a launch as a node does, with nothing that would end it; return it once both ranks are up."""
    launch = plan(directory, program)
    for name, data in LocalSpawn().files(launch).items():
        (directory / name).write_bytes(data)
    process = subprocess.Popen(
        ("sh", "-s"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    process.stdin.write(start_script(launch, limit_s).decode())
    process.stdin.close()
    for _ in range(2):
        assert process.stdout.readline().endswith("<stdout>:up\n")
    return launch, process


def clock_of(process, limit_s):
    """Return the process of timeout(1), the shell's only child, whose limit is the launch's."""
    (pid,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    assert words[:5] == ["timeout", "--foreground", "-k", "15", str(limit_s)]
    return pid


@pytest.mark.parametrize("spawner_dies", [False, True])
def test_ranks_that_ignore_sigterm_end_by_their_deadline(tmp_path, spawner_dies):
    """Also where the spawner is killed before its grace has passed, and with it who knows its children."""
    launch, process = started(tmp_path, ("sh", "-c", STUBBORN), 600)
    assert len(of_launch(launch.token)) >= 3
    clock = clock_of(process, 600)
    os.kill(clock, signal.SIGALRM)  # as its timer does once the limit has passed
    if spawner_dies:
        for pid, words in of_launch(launch.token).items():
            if SPAWNER in words and pid != clock:
                os.kill(pid, signal.SIGKILL)
    with process:
        assert process.wait(60) >= 124
    # A killed process of a loaded machine may need a moment to end.
    wait_until(lambda: of_launch(launch.token) == {}, "ranks are left", 30)


def test_further_signals_do_not_interrupt_the_end_of_the_ranks(tmp_path):
    launch, process = started(tmp_path, ("sh", "-c", STUBBORN), 600)
    clock = clock_of(process, 600)
    spawners = [pid for pid, words in of_launch(launch.token).items() if SPAWNER in words and pid != clock]
    with process:
        os.killpg(process.pid, signal.SIGTERM)
        for _ in range(10):
            for pid in spawners:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            time.sleep(0.05)
    wait_until(lambda: of_launch(launch.token) == {}, "ranks are left", 30)


def test_a_controller_that_is_there_ends_the_launcher_with_its_group(tmp_path):
    launch, process = started(tmp_path, ("sh", "-c", "echo up; exec sleep 60"), 60)
    with process:
        os.killpg(process.pid, signal.SIGTERM)
    wait_until(lambda: of_launch(launch.token) == {}, "ranks are left", 30)


def test_a_launch_that_ends_in_time_says_how(tmp_path):
    launch = plan(tmp_path, ("sh", "-c", "exit 7"))
    for name, data in LocalSpawn().files(launch).items():
        (tmp_path / name).write_bytes(data)
    done = subprocess.run(("sh", "-s"), input=start_script(launch, 60), capture_output=True, check=False)
    assert done.returncode == 7
    assert b"exited with status 7" in done.stdout


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path):
    """200 MB in one line: the spawner hands it on in pieces, each behind its tag."""
    launch = plan(tmp_path, ("head", "-c", str(200 << 20), "/dev/zero"), np=1)
    for name, data in LocalSpawn().files(launch).items():
        (tmp_path / name).write_bytes(data)
    measured = (
        "import runpy, sys; sys.argv[0] = sys.argv.pop(1)\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit as end: print(end.code, file=sys.stderr)\n"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(peak.split()[1], file=sys.stderr)"
    )
    _, spawner, *words = LocalSpawn().argv(launch)[LocalSpawn().argv(launch).index(sys.executable) :]
    done = subprocess.run(
        (sys.executable, "-c", measured, spawner, *words) if spawner.endswith(SPAWNER) else (),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    status, kilobytes = done.stderr.split()
    assert status == "0"
    assert int(kilobytes) < 100 << 10
