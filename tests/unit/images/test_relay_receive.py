"""What a node does with the archive that others send it: by the real script and the real shell."""

from __future__ import annotations

import hashlib
import os
import random
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hostile_texts import VARIANTS
from launch_facts import facts_of

from clusterctl.errors import ImageError
from clusterctl.images.distribution import relay
from clusterctl.images.on_node import EngineInfo, NodeEngine
from clusterctl.inventory.model import Node
from clusterctl.transport.local import LocalTransport

SCRIPT = Path(relay.__file__).with_name("receive.sh")
DATA = bytes(range(256)) * 64
HALF = len(DATA) // 2
SUM = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def node(tmp_path):
    """The node's side: a directory, and a request as sshd would start it; ``begin`` leaves its input open."""
    work = tmp_path / "token"
    work.mkdir()
    (work / "receive.sh").write_bytes(SCRIPT.read_bytes())
    argv = ("sh", str(work / "receive.sh"), str(tmp_path), SUM, str(len(DATA)))
    started = []

    def begin(*request):
        pipe = subprocess.PIPE
        started.append(subprocess.Popen((*argv, *request), stdin=pipe, stdout=pipe, stderr=pipe))
        return started[-1]

    def ask(*request, data=b"", key=False):
        if key:  # as sshd starts it for the key of another node
            env = {"PATH": os.environ["PATH"], "SSH_ORIGINAL_COMMAND": " ".join(request)}
            return subprocess.run(argv, env=env, input=data, capture_output=True, timeout=90, check=False)
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


def _hanging(begin, part):
    """A sender that stops after half of the archive, with an open connection."""
    sender = begin("add", "0", str(len(DATA)))
    sender.stdin.write(DATA[:HALF])
    sender.stdin.flush()
    deadline = time.monotonic() + 30
    while not part.is_file() or part.stat().st_size < HALF:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return sender


@pytest.mark.parametrize("key", [False, True])
def test_a_sender_whose_line_hangs_is_ended_by_the_next_one_and_adds_nothing_more(node, key):
    begin, ask, part = node
    # Its machine lost power: nothing more comes, and nothing closes the connection.
    hanging = _hanging(begin, part)
    assert int(ask("have", key=key).stdout) == HALF
    assert hanging.wait(30) == 1
    assert b"another sender has taken over" in hanging.stderr.read()
    assert ask("add", str(HALF), str(len(DATA) - HALF), data=DATA[HALF:]).returncode == 0
    assert ask("finish").returncode == 0


def test_another_node_ends_no_sender_at_work(node):
    begin, ask, part = node
    work = part.parent / "token"
    script = (work / "receive.sh").read_text()
    assert "silence_s=5 patience_s=60" in script
    # The sender is not silent here, however long a loaded machine takes.
    (work / "receive.sh").write_text(
        script.replace("silence_s=5 patience_s=60", "silence_s=3600 patience_s=0")
    )
    sender = _hanging(begin, part)
    refused = ask("have", key=True)
    assert (refused.returncode, refused.stderr) == (1, b"another sender is at work\n")
    refused = ask("add", str(HALF), "1", data=b"x", key=True)
    assert (refused.returncode, refused.stderr) == (1, b"another sender is at work\n")
    refused = ask("finish", key=True)
    assert refused.returncode == 1 and b"has 8192 of 16384 bytes" in refused.stderr
    seen = part.parent / "seen"
    for request in _requests(seen):
        refused = ask(*request.split(" "), data=b"bytes", key=True)
        assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1, (request, refused.stderr)
        assert part.stat().st_size == HALF, request
    assert not seen.exists()
    sender.communicate(DATA[HALF:], timeout=30)
    assert sender.returncode == 0
    assert ask("finish", key=True).returncode == 0
    assert part.with_suffix(".archive").read_bytes() == DATA


def _requests(seen):
    """Requests of a key that a node misuses: other commands, options, numbers of other forms, code in numbers."""
    code = (
        f"a[$(touch${{IFS}}{seen})]",
        f"$(touch${{IFS}}{seen})",
        f"`touch${{IFS}}{seen}`",
        f";touch${{IFS}}{seen}",
    )
    numbers = (
        "0",
        str(HALF),
        "-1",
        "+5",
        "0x5",
        "08",
        "1e3",
        "5k",
        "\u0665",
        "9" * 20,
        "9" * 400,
        "0" * 400,
        "*",
        "x",
        "''",
    )
    found = [
        "",
        "sh",
        "-x",
        "have;id",
        "HAVE",
        "h*",
        "finish",
        "scp -t /",
        "/usr/lib/openssh/sftp-server",
        "add",
        "add 0",
        "adder",
    ]
    found += [f"{verb}\n{other}" for verb in ("sh", "add") for other in ("have", "finish", "add 0 5")]
    draw = random.Random(30)
    while len(found) < VARIANTS:
        words = (
            draw.choice(("add", "add", "add", "have ", "finish")),
            draw.choice((*code, *numbers)),
            draw.choice((*code, *numbers)),
        )
        found.append(" ".join(words[: draw.randint(2, 3)]))
    return [one for one in found if not one.startswith("have")]


@pytest.mark.parametrize("seed", range(VARIANTS))
def test_no_more_is_stored_than_is_missing(node, seed):
    _, ask, part = node
    draw = random.Random(seed)
    there = draw.choice([0, 1, 4096, len(DATA) - 1, len(DATA)])
    if there:
        assert ask("add", "0", str(there), data=DATA[:there]).returncode == 0
    announced = draw.choice(
        [0, 1, 5, len(DATA) - there, len(DATA) - there + 1, len(DATA), 2**31, 2**63, 2**64, 10**30]
    )
    form = draw.choice(["{}", "0{}", "{:0400d}"]).format(announced)
    flood = os.urandom(1000) * draw.choice([0, 1, 17, 1000])
    for _ in range(draw.choice([1, 1, 2])):
        ask("add", str(there), form, data=flood, key=True)
        stored = part.stat().st_size if part.exists() else 0
        assert stored <= max(there, min(len(DATA), there + announced))
    # The honest sender goes on where the other one ended.
    have = int(ask("have").stdout)
    assert have == stored
    if stored == there < len(DATA):
        assert ask("add", str(there), str(len(DATA) - there), data=DATA[there:]).returncode == 0
        assert ask("finish").returncode == 0 and part.with_suffix(".archive").read_bytes() == DATA


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
        *(one for one in _requests(seen) if one.startswith("add ") and re.search(r"[^0-9 ]", one[4:])),
    ):
        done = subprocess.run(
            (shell, script, str(tmp_path), SUM, str(len(DATA))),
            env={"PATH": os.environ["PATH"], "SSH_ORIGINAL_COMMAND": request},
            input=b"bytes", capture_output=True, timeout=30, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (1, b"expected two numbers for a piece\n"), request
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
        (shell, "-s"), input=relay._script("send.sh", values), capture_output=True, timeout=30, check=False,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"the other node reported no size of the archive\n")
    assert not seen.exists()
    assert asked.read_text().endswith(" -- me@10.0.0.2 have\n")


SESSION = "connection 10.0.0.9 5000 10.0.0.1 2200\nhost-key ssh-ed25519 AAAA\n"
TEXTS = {
    "session": SESSION,
    "image_distribution": "user me\nzstd\n",
    "network": "ib0/operstate:up\n",
    "addresses": "2: ib0    inet 10.1.0.7/16 scope global\n",
    "mounts": "/dev/vda1 / ext4 rw 0 0\n/dev/vda1 /var/lib/docker ext4 rw 0 0\n/dev/vdb1 /data ext4 rw 0 0\n",
    "space": "paths / /var/tmp /var/lib/docker /data/docker\nFilesystem 1024-blocks Used Free Capacity Mounted on\n"
    "/dev/vda1 100 50 50 50% /\n/dev/vda1 100 50 50 50% /\n/dev/vda1 100 50 50 50% /var/lib/docker\n"
    "/dev/vdb1 100 50 7 50% /data\n",
}


def relay_of(texts, node=None, docker_root="/var/lib/docker", key="ssh-ed25519 AAAA"):
    facts = facts_of(TEXTS, texts, subjects=relay.READS)
    return relay.of_facts(node or Node(name="n1", address="10.0.0.2"), facts, "t0ken", docker_root, key)


def test_a_relay_is_where_the_node_was_reached_with_the_room_of_its_disks():
    there = relay_of({})
    assert (there.base, there.work) == ("/var/tmp/clusterctl-images-0", "/var/tmp/clusterctl-images-0/t0ken")
    assert (there.user, there.address, there.port, there.has_zstd) == ("me", "10.0.0.1", 2200, True)
    assert (there.key, there.host_keys) == ("ssh-ed25519 AAAA", ("ssh-ed25519 AAAA",))
    verified = relay.of_facts(
        Node(name="n1", address="10.0.0.2"),
        facts_of(TEXTS, subjects=relay.READS),
        "t0ken",
        "/",
        "",
        "ssh-rsa BBBB",
    )
    assert verified.host_keys == ("ssh-rsa BBBB",)
    # One disk, although two file systems of it are mounted.
    assert (there.free_spool_bytes, there.free_docker_bytes, there.one_disk) == (51200, 51200, True)
    other = relay_of({}, Node(name="n1", address="a", socket_ifname="ib0"), "/data/docker", key="")
    assert (other.address, other.key, other.free_docker_bytes, other.one_disk) == (
        "10.1.0.7",
        None,
        7168,
        False,
    )
    unknown = relay_of({"session": "cpus 0", "space": ""}, Node(name="n1", address="a"))
    assert (unknown.address, unknown.port, unknown.host_keys) == ("a", 22, ())
    assert unknown.free_docker_bytes == unknown.free_spool_bytes == 1 << 62


def test_an_answer_cut_short_makes_no_relay():
    whole = facts_of(TEXTS, subjects=relay.READS)
    for cut in (replace(whole, sections=whole.sections[:-1]), replace(whole, session=None)):
        with pytest.raises(ImageError, match="n1 did not finish answering"):
            relay.of_facts(Node(name="n1", address="a"), cut, "t0ken", "/", "")


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ("image_distribution", "user -oProxyCommand=touch /tmp/seen;\n"), ("image_distribution", "user a b\n"),
        ("image_distribution", "zstd\n"), ("key", 'ssh-ed25519 AAAA" command="x'), ("key", "AAAA"),
        ("session", "host-key @cert-authority * ssh-ed25519 AAAA\n"),
    ],
)  # fmt: skip
def test_what_a_node_says_of_itself_is_no_option_and_no_pattern_on_others(section, text):
    node = Node(name="n1", address="10.0.0.2")
    with pytest.raises(ImageError, match="has characters that are not passed to other nodes"):
        if section == "key":
            relay_of({}, node, key=text)
        else:
            relay_of({section: text}, node)


@pytest.mark.parametrize("address", ["*", "10.0.0.2,10.0.0.3", "-oX=y"])
def test_what_is_no_address_is_not_read(address):
    node = Node(name="n1", address="10.0.0.2", socket_ifname="ib0")
    there = relay_of({"addresses": f"2: ib0    inet {address} scope global\n"}, node)
    assert there.address == relay_of({}, Node(name="n1", address="10.0.0.2")).address
    with pytest.raises(ImageError, match="n1 gave a malformed answer"):
        relay_of({"session": f"connection 10.0.0.9 5000 {address} 22\n"}, node)


def test_a_node_is_prepared_once_for_a_token(tmp_path, monkeypatch):
    monkeypatch.setattr(relay, "SPOOL", str(tmp_path))
    node = Node(name="n1", address="localhost", connection="local")
    engine = NodeEngine(LocalTransport(node), False, EngineInfo("28", "amd64", str(tmp_path), (), ()))
    there = relay.prepare(node, engine, "t0ken")
    assert Path(there.work).stat().st_mode & 0o777 == 0o700
    assert there.key == Path(there.work, "key.pub").read_text().removesuffix(" clusterctl-t0ken\n")
    assert there.one_disk and 0 < there.free_spool_bytes == pytest.approx(there.free_docker_bytes, rel=0.1)
    with pytest.raises(ImageError, match=f"n1: cannot make {there.work}") as caught:
        relay.prepare(node, engine, "t0ken")
    assert "free space there" in caught.value.hint
    monkeypatch.setattr(relay, "SPOOL", f"{tmp_path}/no")
    with pytest.raises(ImageError, match=f"cannot make {tmp_path}/no/clusterctl-images-[0-9]+$"):
        relay.prepare(node, engine, "t0ken")
