"""TCP connections: of a name's addresses one that does not answer, or cannot be used here, hides none behind it."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct

import pytest
from listening import wait_until

from clusterctl.transport.base import FailureKind, TransportError
from clusterctl.transport.ssh import tcp
from clusterctl.transport.ssh.target import Target


def target(**changed):
    return Target(
        node="n", host="n.example", port=22, user="u", identities=(), identities_only=False, identities_named=False,
        connect_timeout_s=1.0, known_hosts=(), **changed,
    )  # fmt: skip


def resolves_to(monkeypatch, *places):
    asked = []

    def getaddrinfo(host, port, family=0, kind=0):
        asked.append((host, port, family, kind))
        return [(family, socket.SOCK_STREAM, 6, "", place) for family, place in places]

    monkeypatch.setattr(tcp.socket, "getaddrinfo", getaddrinfo)
    return asked


def queued(listener):
    """Return how many connections wait to be accepted: ``tcpi_unacked`` of a socket that listens."""
    return struct.unpack_from("I", listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64), 24)[0]


@contextlib.contextmanager
def silent():
    """Give an address that answers no connection: the kernel lets wait who comes when a server's queue is full."""
    with contextlib.ExitStack() as held:
        full = held.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        wait_until(lambda: queued(full) > 0, "no connection came into the queue")
        yield full.getsockname()


def test_an_address_that_does_not_answer_leaves_time_for_the_next(monkeypatch):
    with silent() as nowhere, socket.create_server(("127.0.0.1", 0)) as server:
        resolves_to(monkeypatch, (socket.AF_INET, nowhere), (socket.AF_INET, server.getsockname()))
        with tcp.connected(target(), lambda _: None) as found:
            assert found.getpeername() == server.getsockname()
        resolves_to(monkeypatch, (socket.AF_INET, nowhere))
        with pytest.raises(TimeoutError):
            tcp.connected(target(), lambda _: None)


def test_a_family_that_this_kernel_does_not_have_is_passed_over(monkeypatch):
    made = socket.socket

    def without_ipv6(family, kind, protocol):
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return made(family, kind, protocol)

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        places = (socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port))
        resolves_to(monkeypatch, *places)
        monkeypatch.setattr(tcp.socket, "socket", without_ipv6)
        with tcp.connected(target(), lambda _: None) as found:
            assert found.getpeername() == server.getsockname()


@pytest.mark.parametrize(
    ("family", "asked"), [("any", socket.AF_UNSPEC), ("inet", socket.AF_INET), ("inet6", socket.AF_INET6)]
)
def test_only_addresses_of_the_family_that_ssh_config_wants_are_asked_for(monkeypatch, family, asked):
    seen = resolves_to(monkeypatch)
    with pytest.raises(TimeoutError):
        tcp.connected(target(family=family), lambda _: None)
    assert seen == [("n.example", 22, asked, socket.SOCK_STREAM)]


def test_a_name_that_does_not_resolve_is_an_error_with_two_remedies(monkeypatch):
    def getaddrinfo(*_):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(tcp.socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(TransportError) as caught:
        tcp.connected(target(), lambda _: None)
    assert caught.value.failure.kind is FailureKind.DNS
    assert "(u@n.example:22): its address cannot be resolved: Name or service not known" in str(caught.value)
    assert "check the name" in caught.value.failure.hint and "'address'" in caught.value.failure.hint
