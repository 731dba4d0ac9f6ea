"""Servers that send what no server sends: each is a failure of its own node, and the run of the others goes on."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading

from clusterctl.inventory.model import Node
from clusterctl.transport.base import FailureKind
from clusterctl.transport.connect import Connector
from clusterctl.transport.fanout import fan_out

DISCONNECT, KEX_INIT, KEX_REPLY = 1, 20, 31
ALGORITHMS = (
    *(b"curve25519-sha256@libssh.org", b"ssh-ed25519", b"aes128-ctr", b"aes128-ctr"),
    *(b"hmac-sha2-256", b"hmac-sha2-256", b"none", b"none", b"", b""),
)


def text(data):
    return struct.pack(">I", len(data)) + data


def packet(kind, body):
    padding = 16 - (6 + len(body)) % 8
    return struct.pack(">IBB", 2 + len(body) + padding, padding, kind) + body + bytes(padding)


def kex_init(*algorithms):
    return packet(KEX_INIT, os.urandom(16) + b"".join(map(text, algorithms)) + bytes(5))


@contextlib.contextmanager
def answering(*answers):
    """Give a port for each answer, which is sent behind SSH's greeting to each client that connects."""

    def serve(server, answer):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = server.accept()
                with peer, contextlib.suppress(OSError):
                    peer.settimeout(120)
                    peer.sendall(b"SSH-2.0-OpenSSH_9.9\r\n" + answer)
                    while peer.recv(65536):
                        pass

    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in answers]
        threads = [threading.Thread(target=serve, args=pair) for pair in zip(servers, answers, strict=True)]
        for thread in threads:
            thread.start()
        try:
            yield [server.getsockname()[1] for server in servers]
        finally:
            for server in servers:
                server.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def test_what_a_server_sends_in_place_of_ssh_is_a_failure_beside_the_others(monkeypatch, tmp_path):
    (tmp_path / "ssh_config").touch()
    monkeypatch.setenv("CLUSTERCTL_SSH_CONFIG", str(tmp_path / "ssh_config"))
    latin = "Anmeldung verweigert: Wartung läuft".encode("latin-1")
    said = {
        "a reason that is no UTF-8": packet(DISCONNECT, struct.pack(">I", 2) + text(latin) + text(b"")),
        "an algorithm that is no UTF-8": kex_init(b"\xff\xfe", *ALGORITHMS[1:]),
        "half a key": kex_init(*ALGORITHMS) + packet(KEX_REPLY, text(b"key") + text(b"xx") + text(b"sig")),
        "a packet of a GiB": struct.pack(">I", (1 << 30) + 4) + bytes(1 << 16),
    }
    with answering(*said.values()) as ports, Connector(connect_timeout_s=60) as connect:
        nodes = [Node(name=f"n{i}", address="127.0.0.1", port=port) for i, port in enumerate(ports)]
        found = fan_out(nodes, connect, lambda _, transport: transport.run(("true",), timeout_s=60))
    told = dict(zip(said, found.failures.values(), strict=True))
    assert {failure.kind for failure in told.values()} == {FailureKind.PROTOCOL}
    for name, problem in zip(
        said, ("UnicodeDecodeError", "UnicodeDecodeError", "ValueError", "1073741"), strict=True
    ):
        assert problem in told[name].message
