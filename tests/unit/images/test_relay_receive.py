"""What a node does with the archive that others send it: by the real script and the real shell."""

from __future__ import annotations

import hashlib
import subprocess
import time
from pathlib import Path

import pytest

from clusterctl.images import relay

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
