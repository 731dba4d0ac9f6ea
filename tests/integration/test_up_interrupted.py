"""``clusterctl up`` that is ended from outside, as a job of CI is that a user cancels: no container stays."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from free_ports import free_port

# An engine with one container at most, in which nothing answers SSH.
DOCKER = """#!/bin/sh
echo "$*" >>"$HERE/said"
case "$1 $2" in
  "info --format") printf '{"ServerVersion": "28.2.2", "Architecture": "x86_64"}' ;;
  "image inspect") printf '[{"Id": "sha256:1", "Architecture": "amd64"}]' ;;
  "container ls") [ ! -e "$HERE/made" ] || echo c1 ;;
  "container inspect") echo true ;;
  "create "*) touch "$HERE/made"; echo c1 ;;
  "cp "*) cat >/dev/null ;;
  "rm "*) rm "$HERE/made" ;;
esac
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_its_containers_are_gone(clusterctl, tmp_path, number):
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    (tmp_path / "inventory.yaml").write_text(
        "version: 1\nnodes: [{name: here, address: 127.0.0.1, connection: local}]\n"
    )
    port = free_port()
    env = {
        **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HERE": str(tmp_path),
        "CLUSTERCTL_RUNS": str(tmp_path / "runs"),
    }  # fmt: skip
    words = (str(clusterctl), "up", "inventory.yaml", "--image", "i:1", "--port", str(port))
    with subprocess.Popen(
        words, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 60
        while "container inspect" not in (
            (tmp_path / "said").read_text() if (tmp_path / "said").exists() else ""
        ):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert not (tmp_path / "made").exists()
    (run,) = (tmp_path / "runs").glob("*-up-*")
    assert not list(run.glob("containers*"))
