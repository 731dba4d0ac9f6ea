"""What a node does with the archive that others send it: by the real script and the real shell."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from clusterctl.errors import ImageError
from clusterctl.images import relay
from clusterctl.inventory.model import Node

SCRIPT = Path(relay.__file__).with_name("relay_receive.sh")
DATA = bytes(range(256)) * 64
SUM = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def node(tmp_path):
    """The node's side: a folder, and a request as sshd would start it; ``begin`` leaves its input open."""
    work = tmp_path / "token"
    work.mkdir()
    (work / "receive.sh").write_bytes(SCRIPT.read_bytes())
    argv = ("sh", str(work / "receive.sh"), str(tmp_path), SUM, str(len(DATA)))
    started = []

    def begin(*request):
        pipe = subprocess.PIPE
        started.append(subprocess.Popen((*argv, *request), stdin=pipe, stdout=pipe, stderr=pipe))
        return started[-1]

    def ask(*request, data=b""):
        return subprocess.run((*argv, *request), input=data, capture_output=True, timeout=30, check=False)

    yield begin, ask, tmp_path / f"{SUM}.part"
    for process in started:
        process.kill()
        process.communicate(timeout=30)


def test_pieces_make_the_archive_and_its_sum_is_checked(node):
    _, ask, part = node
    assert int(ask("have").stdout) == 0
    assert ask("add", "0", "1000", data=DATA[:1000]).returncode == 0
    assert int(ask("have").stdout) == 1000
    refused = ask("add", "0", "1000", data=DATA[:1000])
    assert refused.returncode == 1 and b"has 1000 bytes, not 0" in refused.stderr
    assert ask("add", "1000", str(len(DATA) - 1000), data=DATA[1000:]).returncode == 0
    assert ask("finish").returncode == 0
    assert part.with_suffix(".archive").read_bytes() == DATA
    assert int(ask("have").stdout) == len(DATA)


def test_a_sender_whose_line_hangs_is_ended_by_the_next_one_and_adds_nothing_more(node):
    begin, ask, part = node
    # Its machine lost power: nothing more comes, and nothing closes the connection.
    hanging = begin("add", "0", str(len(DATA)))
    hanging.stdin.write(DATA[:5000])
    hanging.stdin.flush()
    deadline = time.monotonic() + 30
    while not part.is_file() or part.stat().st_size < 5000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert int(ask("have").stdout) == 5000
    assert hanging.wait(30) == 1
    assert b"another sender has taken over" in hanging.stderr.read()
    assert ask("add", "5000", str(len(DATA) - 5000), data=DATA[5000:]).returncode == 0
    assert ask("finish").returncode == 0


def test_what_arrived_wrong_is_thrown_away(node):
    _, ask, part = node
    assert ask("add", "0", str(len(DATA)), data=DATA[::-1]).returncode == 0
    wrong = ask("finish")
    assert wrong.returncode == 1 and b"its checksum is" in wrong.stderr
    assert not part.exists()
    assert ask("sh").returncode == 1


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_request_of_another_node_is_never_reckoned_with_unless_it_is_a_number(node, shell, tmp_path):
    """On the RHEL family sh is bash, which runs a command that stands in a sum."""
    _, _, part = node
    seen = tmp_path / "seen"
    script = str(tmp_path / "token" / "receive.sh")
    for request in (
        f"add 0 a[$(touch${{IFS}}{seen})]",
        f"add a[$(touch${{IFS}}{seen})] 5",
        "add 0",
        "add",
        "add -1 5",
    ):
        done = subprocess.run(
            (shell, script, str(tmp_path), SUM, str(len(DATA))),
            env={"PATH": os.environ["PATH"], "SSH_ORIGINAL_COMMAND": request},
            input=b"bytes", capture_output=True, timeout=30, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (1, b"a piece is told by two numbers\n"), request
    assert not seen.exists()
    assert not part.exists()


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_what_the_next_node_says_is_never_reckoned_with_unless_it_is_a_number(shell, tmp_path):
    seen, asked = tmp_path / "seen", tmp_path / "asked"
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho \"$*\" >>{asked}\necho 'a[$(touch {seen})]'\n")
    ssh.chmod(0o755)
    values = {
        "WORK": str(tmp_path),
        "ADDRESS": "me@10.0.0.2",
        "PORT": "22",
        "ARCHIVE": "/dev/null",
        "SIZE": "9",
    }
    done = subprocess.run(
        (shell, "-s"), input=relay._script("relay_send.sh", values), capture_output=True, timeout=30, check=False,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"it did not say how much it has\n")
    assert not seen.exists()
    assert asked.read_text().endswith(" -- me@10.0.0.2 have\n")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("user", "-oProxyCommand=touch /tmp/seen;"), ("user", "a b"), ("user", ""), ("interface_address", "*"),
        ("interface_address", "10.0.0.2,10.0.0.3"), ("connection", "10.0.0.9 5000 -oX=y 22"),
        ("key", 'ssh-ed25519 AAAA" command="x'), ("key", "AAAA"), ("host_key", "@cert-authority * ssh-ed25519 AAAA"),
    ],
)  # fmt: skip
def test_what_a_node_says_of_itself_is_no_option_and_no_pattern_on_others(name, word):
    said = {
        "base": "/var/tmp/x",
        "user": "me",
        "key": "ssh-ed25519 AAAA",
        "host_key": "ssh-ed25519 AAAA",
        name: word,
    }
    text = "".join(f"{key}\t{value}\n" for key, value in said.items()) + "end\tok\n"
    with pytest.raises(ImageError, match="is not one that other nodes may use"):
        relay.parse(Node(name="n1", address="10.0.0.2"), "t0ken", text)
