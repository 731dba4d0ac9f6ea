"""Standard streams as shells, pipes, cron and full disks leave them: a quiet end or one line, and never a traceback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = (sys.executable, "-c", "import sys; from clusterctl.cli.main import main; sys.exit(main())")
CHECK = ("check", "--only", "gpu-driver")


def shell(line: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of shell with the command and its arguments as ``"$@"``, buffered as Python is for users."""
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("CLUSTERCTL_", "PYTHONUNBUFFERED"))
    }
    environment["CLUSTERCTL_RUNS"] = "runs"
    return subprocess.run(
        ("bash", "-c", line, "bash", *PROGRAM, *arguments),
        capture_output=True, text=True, timeout=60, check=False, cwd=folder, env=environment,
    )  # fmt: skip


LONG = ("render", "ssh-config", "-i", "many.yaml")


@pytest.mark.parametrize("arguments", [CHECK, (*CHECK, "--json"), ("--version",), ("--help",), LONG])
def test_a_reader_that_has_gone(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """The pipe's other end is closed before the command says anything, be it less or more than a buffer."""
    (tmp_path / "many.yaml").write_text("version: 1\nnodes: [{name: 'n[1-900]'}]\n")
    line = (
        "exec 3> >(exec <&-; touch gone; exec sleep 60); reader=$!; until [ -e gone ]; do sleep 0.02; done; "
        '"$@" >&3; code=$?; kill $reader; exit $code'
    )
    done = shell(line, *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (141, "")
    assert "Exception" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ('"$@" >/dev/full', CHECK),
        ('"$@" >/dev/full', (*CHECK, "--json")),
        ('"$@" >/dev/full', ("--version",)),
        ('"$@" >/dev/full', ("check", "no.yaml", "--json")),
        ('"$@" >/dev/full', ("bench", "--help")),
        ('PYTHONUNBUFFERED=1 "$@" >/dev/full', ("--help",)),
    ],
)
def test_a_full_disk_is_said_and_no_success(tmp_path: Path, line: str, arguments: tuple[str, ...]) -> None:
    done = shell(line, *arguments, folder=tmp_path)
    assert done.returncode == 3
    assert done.stderr.count("error: standard output cannot be written: No space left on device") == 1
    assert "Exception" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("stream", ["0<", "1>", "2>"])
def test_a_closed_stream_leads_nowhere(tmp_path: Path, stream: str) -> None:
    done = shell(f'"$@" {stream}&-', "-q", *CHECK, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (report,) = (tmp_path / "runs").glob("*/report.json")
    assert '"gpu-driver"' in report.read_text()


def test_nothing_is_read_from_a_closed_stdin(tmp_path: Path) -> None:
    done = shell('"$@" <&-', "explain", "-", folder=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")


def test_in_one_file_what_was_found_comes_before_what_is_said_of_it() -> None:
    program = "from clusterctl.cli import console; console.data('found'); console.talk('said'); console.data('more')"
    done = subprocess.run(
        (sys.executable, "-c", program), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
    )  # fmt: skip
    assert done.stdout.split() == [b"found", b"said", b"more"]


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_an_interrupt_is_said(tmp_path: Path, words: tuple[str, ...]) -> None:
    """As a terminal sends it, while the command waits for a node's answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        node = f"{{name: silent, address: 127.0.0.1, port: {port}, user: root}}"
        (tmp_path / "one.yaml").write_text(f"version: 1\nnodes: [{node}]\n")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("CLUSTERCTL_")}
        with subprocess.Popen(
            (*PROGRAM, "check", "one.yaml", *words), cwd=tmp_path, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            silent.settimeout(60)
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=60)
    said, *hints = err.splitlines()
    assert process.returncode == 130
    assert said == "Interrupted while gathering facts: 0 of 1 nodes done, waiting for silent"
    assert hints[0] == "No node was changed."
    assert bool(out) is bool(words)
    if out:
        error = json.loads(out)["error"]
        assert (error["exit_code"], error["message"]) == (130, said)
        assert error["hint"].splitlines() == hints


def test_talk_that_nobody_can_keep_changes_no_exit_code(tmp_path: Path) -> None:
    done = shell('"$@" 2>/dev/full', "check", "no.yaml", folder=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    done = shell('"$@" 2>/dev/full', "no-such-verb", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
