"""What connections and threads share: it must not change under others, nor cost before it is needed."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading

from clusterctl.text.openssh.known_hosts import KnownHosts
from clusterctl.transport.paramiko_internals import Order, Wire
from clusterctl.transport.ssh.host_keys import HostKeyPolicy


def test_known_hosts_files_are_read_once_for_many_servers(tmp_path, monkeypatch):
    reads = []
    original = KnownHosts.add_text
    monkeypatch.setattr(
        KnownHosts, "add_text", lambda self, *a, **k: (reads.append(1), original(self, *a, **k))
    )
    file = tmp_path / "kh"
    file.write_text("a ssh-ed25519 AAAA\n")
    policy = HostKeyPolicy()
    for _ in range(50):
        policy.known((str(file),)).key_types("a")
    assert len(reads) == 1


def test_fast_and_sound_algorithms_come_first():
    with contextlib.closing(socket.socket()) as sock:
        options = Wire(sock).get_security_options()
    assert options.ciphers[0] == "aes128-gcm@openssh.com"
    assert "curve25519-sha256@libssh.org" in options.kex[:2]
    offered = " ".join((*options.ciphers, *options.digests, *options.kex))
    assert not [weak for weak in ("cbc", "md5", "group1-", "arcfour", "sha1-96") if weak in offered]


def test_paramiko_is_loaded_only_for_nodes_over_ssh():
    program = (
        "import sys; from clusterctl.inventory.model import Node; from clusterctl.transport.connect import Connector;"
        "from clusterctl.transport.fanout import fan_out;"
        "Connector()(Node(name='n', address='n', connection='local')).run(('true',));"
        "sys.exit('paramiko' in sys.modules or 'fabric' in sys.modules)"
    )
    assert subprocess.run((sys.executable, "-c", program), timeout=60, check=False).returncode == 0


class Channel:
    def __init__(self):
        self.lock = threading.RLock()
        self.out_buffer_cv = threading.Condition(self.lock)
        self.eof_sent = False


def test_a_close_waits_for_who_is_sending_and_wakes_who_waits_for_room():
    sent = []
    channel = Channel()
    order = Order(channel)
    order.closing(lambda: sent.append("close at once"))
    with order.sending():
        with order.sending():
            order.closing(lambda: sent.append("close"))
            assert channel.eof_sent, "a sender that waits for the window would never end"
            sent.append("inner data")
        sent.append("outer data")
    assert sent == ["close at once", "inner data", "outer data", "close"]
    with order.sending():
        sent.append("nothing waits any more")
    assert sent[-1] == "nothing waits any more"


def test_a_node_that_cannot_be_resolved_keeps_no_other_from_the_question(tmp_path, monkeypatch):
    from clusterctl.inventory.model import Node
    from clusterctl.transport.connect import Connector
    from clusterctl.transport.ssh.new_keys import stages

    config, pipe, known = tmp_path / "config", tmp_path / "pipe", tmp_path / "known"
    config.write_text("Host bad\n  Port 99999\nHost jump\n  Port 2222\n")
    os.mkfifo(pipe)
    known.write_text("[jump]:2222 ssh-ed25519 AAAA\nold ssh-ed25519 AAAA\n")
    monkeypatch.setenv("CLUSTERCTL_SSH_CONFIG", str(config))
    monkeypatch.delenv("CLUSTERCTL_KNOWN_HOSTS", raising=False)
    common = {"user": "root", "known_hosts": str(known)}
    nodes = [
        Node(name="bad", address="bad", **common),
        Node(name="piped", address="piped", user="root", known_hosts=str(pipe)),
        Node(name="here", address="here", connection="local"),
        Node(name="old", address="old", **common),
        Node(name="new", address="new", **common),
        Node(name="behind", address="behind", proxy_jump="jump,inner", **common),
    ]
    session = Connector().session()
    found = [[(server.host, node.name) for server, node in new.servers] for new in stages(session, nodes)]
    assert found == [[("new", "new")], [("inner", "behind")], [("behind", "behind")]]
    assert session.target(nodes[4]) is session.target(nodes[4])
