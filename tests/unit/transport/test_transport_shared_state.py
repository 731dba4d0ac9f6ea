"""What connections share must not change while many threads connect, and costs nothing before it is needed."""

from __future__ import annotations

import subprocess
import sys

import fabric

from clusterctl.transport import ssh
from clusterctl.transport.known_hosts import KnownHosts


def test_making_connections_leaves_the_shared_configuration_alone(monkeypatch):
    shared = fabric.Config(lazy=True)
    merges = []

    def merge(config):
        merges.append(config)

    monkeypatch.setattr(fabric.Config, "merge", merge)
    for name in ("a", "b"):
        made = ssh._Connection(name, user="u", port=22, config=shared, connect_kwargs={"timeout": 1})
        made.client.close()
    assert not merges, "fabric rewrites the configuration that other threads are reading"


def test_known_hosts_files_are_read_once_for_many_servers(tmp_path, monkeypatch):
    reads = []
    original = KnownHosts.add_text
    monkeypatch.setattr(
        KnownHosts, "add_text", lambda self, *a, **k: (reads.append(1), original(self, *a, **k))
    )
    file = tmp_path / "kh"
    file.write_text("a ssh-ed25519 AAAA\n")
    policy = ssh.HostKeyPolicy()
    for _ in range(50):
        policy.known((str(file),)).key_types("a")
    assert len(reads) == 1


def test_fast_and_sound_algorithms_come_first():
    wire = ssh._Wire
    assert wire._preferred_ciphers[0] == "aes128-gcm@openssh.com"
    assert "curve25519-sha256@libssh.org" in wire._preferred_kex[:2]
    offered = " ".join((*wire._preferred_ciphers, *wire._preferred_macs, *wire._preferred_kex))
    assert not [weak for weak in ("cbc", "md5", "group1-", "arcfour", "sha1-96") if weak in offered]


def test_paramiko_is_loaded_only_for_nodes_over_ssh():
    program = (
        "import sys; from clusterctl.inventory.model import Node; from clusterctl.transport.connect import Connector;"
        "from clusterctl.transport.fanout import fan_out;"
        "Connector()(Node(name='n', address='n', connection='local')).run(('true',));"
        "sys.exit('paramiko' in sys.modules or 'fabric' in sys.modules)"
    )
    assert subprocess.run((sys.executable, "-c", program), timeout=60, check=False).returncode == 0
