"""What connections and threads share: it must not change under others, nor cost before it is needed."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading

from clusterctl.ssh_text.known_hosts import KnownHosts
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
