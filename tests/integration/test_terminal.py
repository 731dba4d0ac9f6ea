"""What a person sees at a narrow terminal: folded tables, and no control sequences where it knows none."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest

COLUMNS = 70


def at_a_terminal(words, env, cwd):
    """Run the command with a narrow terminal and return what it wrote there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd,
        env={**environment, **env},
    ) as process:  # fmt: skip
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 65536):
                said += piece
        except OSError:
            pass  # the other end is closed: Linux says so with EIO
        os.close(ours)
        assert process.wait(60) == 1
    return said.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("terminal", ["dumb", "xterm"])
def test_a_narrow_terminal(sshd_farm, clusterctl, tmp_path, terminal):
    farm = sshd_farm(1, refusing=1)
    inventory = str(farm.inventory(tmp_path, requirements="{rdma_link: {require: true}}"))
    env = {**farm.env, "TERM": terminal, "NO_COLOR": "1"}
    for words in (("check",), ("bootstrap", "--dry-run")):
        said = at_a_terminal((str(clusterctl), *words, "--only", "rdma-link", inventory), env, tmp_path)
        assert terminal == "xterm" or ("\x1b" not in said and "\r" not in said)
        _, gathered, table = said.partition("Gathered facts of 1 of 2 nodes in ")
        assert gathered
        unwrapped = ("refused", "hint", "Next: ", "/runs/")
        lines = [line for line in table.splitlines() if not any(word in line for word in unwrapped)]
        assert "bad     you  rdma-link    the node has no RDMA device, and the\n" in table
        assert max(map(len, lines)) <= COLUMNS, table
