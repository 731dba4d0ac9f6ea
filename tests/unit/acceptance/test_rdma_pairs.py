"""A server of perftest serves one client; the scripts of a pair of nodes start another one when a client is cut off."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from free_ports import free_ports

from clusterctl.acceptance.rows import rdma

# As perftest: a server takes one client and ends with it; the first pair of the second rail is cut off.
PERFTEST = """\
#!{python}
import socket, sys
from pathlib import Path
words = sys.argv[1:]
device, port = words[words.index("-d") + 1], int(words[words.index("-p") + 1])
cut_off = Path({folder!r}, "cut-off")
if words[-1] != "127.0.0.1":
    with socket.create_server(("127.0.0.1", port)) as listening:
        client, _ = listening.accept()
    if device == "b" and not cut_off.exists():
        cut_off.touch()
        sys.exit(1)
    client.sendall(b"1")
    sys.exit(0)
try:
    with socket.create_connection(("127.0.0.1", port)) as server:
        if server.recv(1) != b"1":
            sys.exit(1)
except OSError:
    sys.exit(1)
if device == "c":
    print("Correlation coefficient r^2: 0.7 < 0.9", file=sys.stderr)
print("measured", device)
"""


def test_a_client_that_was_cut_off_finds_another_server(tmp_path):
    program = tmp_path / "ib_write_lat"
    program.write_text(PERFTEST.format(python=sys.executable, folder=str(tmp_path)))
    program.chmod(0o755)
    port = min(free_ports(3))
    rails = ("a=Soft-RoCE", "b=Soft-RoCE", "c=Soft-RoCE")

    def run(script, *peer):
        return subprocess.run(
            ("sh", "-c", script, "sh", str(program), *peer, str(port), *rails),
            env={"PATH": "/usr/bin:/bin", "OPTIONS": "-n 1000", "TRIES": "20"},
            stdout=subprocess.PIPE, text=True, timeout=120, check=False,
        )  # fmt: skip

    with ThreadPoolExecutor() as pool:
        server = pool.submit(run, rdma._SERVER)
        client = run(rdma._CLIENT, "127.0.0.1")
    # The parser reads a message of standard error, here of the third rail, in its place among the values.
    assert client.stdout.splitlines() == [
        "clusterctl: rail a Soft-RoCE", "measured a",
        "clusterctl: rail b Soft-RoCE", "measured b",
        "clusterctl: rail c Soft-RoCE", "Correlation coefficient r^2: 0.7 < 0.9", "measured c",
    ]  # fmt: skip
    assert (client.returncode, server.result().returncode) == (0, 0)
    assert (tmp_path / "cut-off").exists()
