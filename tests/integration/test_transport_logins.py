"""The way to a command over SSH, against real sshd: addresses, host keys, private keys, agents, and every refusal."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import threading
import time

import paramiko
import pytest
import sshd_farm as farms
from listening import wait_until
from ssh_transports import failure, transports

from clusterctl.inventory.model import Node
from clusterctl.transport.base import FailureKind
from clusterctl.transport.connect import Connector
from clusterctl.transport.paramiko_internals import Wire


@pytest.fixture
def connect(monkeypatch):
    with transports(monkeypatch) as made:
        yield made


def test_failures_that_come_before_a_login(sshd_farm, connect):
    farm = sshd_farm(1, refusing=1, silent=1, changed=1, unknown=1)
    connector = Connector(connect_timeout_s=60)
    kinds = {}
    for index, there in enumerate(farm.nodes):
        began = time.monotonic()
        # The silent one needs a short limit, the others none that a busy sshd could exceed.
        transport = connect(farm, index, Connector(connect_timeout_s=1) if index == 2 else connector)
        if index:
            found = failure(transport.run, ("true",))
            kinds[index] = found.kind
            assert f"{there.name} (root@{there.address}:{there.port})" in found.message and found.hint
        else:
            transport.run(("true",))
        # Without its limit, the silent one would keep us for the login's 30 s.
        assert time.monotonic() - began < 20
    assert list(kinds.values()) == [
        FailureKind.REFUSED, FailureKind.TIMEOUT, FailureKind.HOST_KEY_CHANGED, FailureKind.HOST_KEY_UNKNOWN
    ]  # fmt: skip
    assert (
        failure(connect(farm, 0, connector, port=farm.nodes[0].port + 1).run, ("true",)).kind
        is FailureKind.REFUSED
    )
    there = Node(name="x", address="no-such-name.invalid", user="root")
    assert failure(connector(there).run, ("true",)).kind is FailureKind.DNS
    for odd in ("root@host", "host:22", "a b", "x" * 300, "-oProxyCommand=x"):
        assert failure(connector(Node(name="x", address=odd)).run, ("true",)).kind is FailureKind.DNS


def test_a_node_without_a_route():
    # Linux has no TCP route to the broadcast address, whatever networks there are.
    found = failure(
        Connector(connect_timeout_s=0.5)(Node(name="x", address="255.255.255.255")).run, ("true",)
    )
    assert found.kind is FailureKind.UNREACHABLE
    assert "255.255.255.255:22" in found.message


def test_what_answers_is_not_ssh(connect, small_farm, tmp_path):
    import socket

    transport = connect(small_farm)

    def answer(server, text):
        # Until its listener is gone: who hangs up before SSH began is asked again.
        with contextlib.suppress(OSError):
            while True:
                peer, _ = server.accept()
                with peer:
                    peer.sendall(text)

    for text in (b"HTTP/1.0 400 Bad Request\r\n" * 120, b""):
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=answer, args=(server, text))
            thread.start()
            there = Node(name="web", address="127.0.0.1", port=server.getsockname()[1])
            found = failure(Connector(connect_timeout_s=5)(there).run, ("true",))
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
    assert found.kind in (FailureKind.PROTOCOL, FailureKind.LOST), found
    transport.close()


def _altered(server, there, at):
    """Carry one connection to a node, and change a bit of what the node sends at one place."""
    peer, _ = server.accept()
    with peer, socket.create_connection((there.address, there.port)) as node, contextlib.suppress(OSError):
        sent = 0
        while ready := select.select((peer, node), (), (), 20)[0]:
            for one in ready:
                data = bytearray(one.recv(65536))
                if not data:
                    return
                if one is node:
                    if sent <= at < sent + len(data):
                        data[at - sent] ^= 1
                    sent += len(data)
                (peer if one is node else node).sendall(data)


def _when_it_has_ended(wire, *arguments):
    until = time.monotonic() + 10
    while wire.is_active() and time.monotonic() < until:
        time.sleep(0.01)
    return paramiko.Transport.auth_publickey(wire, *arguments)


@pytest.mark.parametrize(
    ("at", "late"), [(60, False), (1200, False), (1500, False), (1500, True), (1700, False), (2600, False)]
)
def test_what_is_altered_on_the_way_is_a_failure_of_its_own(connect, small_farm, monkeypatch, at, late):
    """From the greeting and the exchange of keys over the login to the command's output."""
    if late:
        monkeypatch.setattr(Wire, "auth_publickey", _when_it_has_ended)
    there = small_farm.nodes[0]
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_altered, args=(server, there, at))
        thread.start()
        port = server.getsockname()[1]
        with small_farm.known_hosts.open("a") as known:
            known.write(f"[127.0.0.1]:{port} {farms.public_key(there.host_key)}\n")
        connect(small_farm)  # so that its known_hosts counts
        key = str(small_farm.identity_file)
        node = Node(name="n", address="127.0.0.1", port=port, user=small_farm.user, identity_file=key)
        with Connector(connect_timeout_s=10) as connector:
            found = failure(connector(node).run, ("sh", "-c", "yes | head -c 4000"))
        thread.join()
    assert found.kind in (FailureKind.PROTOCOL, FailureKind.LOST), found


def test_accepting_new_host_keys(sshd_farm, connect):
    farm = sshd_farm(0, unknown=2, changed=1)
    accepting = Connector(accept_new_host_keys=True, connect_timeout_s=60)
    before = farm.known_hosts.read_text()
    for index in (1, 2):
        assert connect(farm, index, accepting).run(("echo", "in")).text == "in\n"
    assert failure(connect(farm, 0, accepting).run, ("true",)).kind is FailureKind.HOST_KEY_CHANGED
    added = farm.known_hosts.read_text().removeprefix(before).splitlines()
    assert len(added) == 2 and all(" ssh-ed25519 " in line for line in added)
    assert connect(farm, 1).run(("true",)).returncode == 0, "a run without the flag trusts what was recorded"


def _know_by_rsa(farm):
    """Give the only node an RSA host key, too, and record this one alone."""
    there = farm.nodes[0]
    there.stop()
    rsa = farms.make_key(farm.directory / "host_rsa", "rsa")
    there.command = (*there.command, "-h", str(rsa))
    there.start()
    farm.known_hosts.write_text(f"[{there.address}]:{there.port} {farms.public_key(rsa)}\n")
    farms.wait_for_listeners(farm.nodes)


def test_a_server_is_asked_for_the_type_of_key_that_is_known(sshd_farm, connect):
    farm = sshd_farm(1)
    _know_by_rsa(farm)
    assert connect(farm).run(("true",)).returncode == 0


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_kinds_of_keys(small_farm, connect, tmp_path, kind):
    key = farms.make_key(tmp_path / "key", kind)
    with small_farm.authorized_keys.open("a") as keys:
        keys.write(farms.public_key(key) + "\n")
    assert connect(small_farm, identity_file=str(key)).run(("true",)).returncode == 0


# What crypto-policies of RHEL 9 put into sshd's configuration (back-ends/opensshserver.config): no SHA-1 signatures in
# any of them, no Ed25519 and no curve25519 in FIPS.
_NIST = "ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521"
_GROUPS = "diffie-hellman-group-exchange-sha256,diffie-hellman-group16-sha512,diffie-hellman-group18-sha512"
_SIGNED = "ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-256,rsa-sha2-512"
CRYPTO_POLICIES = {
    "DEFAULT": (
        "aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr,aes128-gcm@openssh.com,aes128-ctr",
        f"curve25519-sha256,curve25519-sha256@libssh.org,{_NIST},{_GROUPS},diffie-hellman-group14-sha256",
        f"ssh-ed25519,{_SIGNED}",
    ),
    "FUTURE": (
        "aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr",
        f"{_NIST},{_GROUPS}",
        _SIGNED,
    ),
    "FIPS": (
        "aes256-gcm@openssh.com,aes256-ctr,aes128-gcm@openssh.com,aes128-ctr",
        f"{_NIST},{_GROUPS}",
        _SIGNED,
    ),
}


@pytest.mark.parametrize("policy", CRYPTO_POLICIES)
def test_the_crypto_policies_of_rhel_admit_rsa_and_ecdsa_keys(sshd_farm, connect, tmp_path, policy):
    ciphers, exchanges, signed = CRYPTO_POLICIES[policy]
    config = f"Ciphers {ciphers}\nKexAlgorithms {exchanges}\n"
    config += f"HostKeyAlgorithms {signed}\nPubkeyAcceptedAlgorithms {signed}"
    farm = sshd_farm(1, sshd_config=config)
    _know_by_rsa(farm)
    for kind in ("rsa", "ecdsa"):
        key = farms.make_key(tmp_path / kind, kind)
        with farm.authorized_keys.open("a") as keys:
            keys.write(farms.public_key(key) + "\n")
        assert connect(farm, identity_file=str(key)).run(("true",)).returncode == 0
    # The farm's own key is Ed25519.
    if policy == "DEFAULT":
        assert connect(farm).run(("true",)).returncode == 0
    else:
        assert failure(connect(farm).run, ("true",)).kind is FailureKind.AUTH


def test_logins_that_are_refused_say_what_was_tried(small_farm, connect, tmp_path, monkeypatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    stranger = farms.make_key(tmp_path / "stranger")
    found = failure(connect(small_farm, identity_file=str(stranger)).run, ("true",))
    assert found.kind is FailureKind.AUTH
    assert (
        str(stranger) in found.message
        and "login as root refused" in found.message
        and "authorized_keys" in found.hint
    )
    locked = farms.make_key(tmp_path / "locked", passphrase="open sesame")
    found = failure(connect(small_farm, identity_file=str(locked)).run, ("true",))
    assert found.kind is FailureKind.AUTH and "passphrase" in found.message and "ssh-add" in found.hint
    found = failure(connect(small_farm, identity_file=str(tmp_path / "absent")).run, ("true",))
    assert found.kind is FailureKind.AUTH and "no such file" in found.message
    (tmp_path / "garbage").write_text("-----BEGIN nonsense")
    found = failure(connect(small_farm, identity_file=str(tmp_path / "garbage")).run, ("true",))
    assert found.kind is FailureKind.AUTH and "as a private key" in found.message
    found = failure(connect(small_farm, identity_file=f"{small_farm.identity_file}.pub").run, ("true",))
    assert (
        found.kind is FailureKind.AUTH and "it is a public key, name the file without .pub" in found.message
    )


def test_a_key_that_others_may_read_is_refused_as_ssh_refuses_it(small_farm, connect, tmp_path, monkeypatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    exposed = tmp_path / "exposed key"
    exposed.write_bytes(small_farm.identity_file.read_bytes())
    for mode, taken in ((0o644, False), (0o640, False), (0o600, True), (0o400, True)):
        exposed.chmod(mode)
        node = small_farm.nodes[0]
        options = ("BatchMode=yes", f"UserKnownHostsFile={small_farm.known_hosts}", "IdentitiesOnly=yes")
        words = [word for option in options for word in ("-o", option)]
        ssh = subprocess.run(
            ("ssh", "-F", "none", *words, "-i", str(exposed), "-p", str(node.port), f"root@{node.address}", "true"),
            stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False,
        )  # fmt: skip
        assert (ssh.returncode == 0) is taken, ssh.stderr
        there = connect(small_farm, identity_file=str(exposed))
        if taken:
            assert there.run(("true",)).returncode == 0
            continue
        found = failure(there.run, ("true",))
        assert found.kind is FailureKind.AUTH
        assert f"others may read it (mode {mode:04o}), so ssh rejects it" in found.message
        assert found.hint == f"chmod 600 '{exposed}'"


def answers_at(place):
    """Return whether a process listens at a socket, whose file appears a moment earlier."""
    with socket.socket(socket.AF_UNIX) as asking:
        return asking.connect_ex(str(place)) == 0


@contextlib.contextmanager
def agent_at(place, *keys, **environment):
    """Run an ssh-agent at a socket, with keys (words of ssh-add) whose passphrase is the farm's usual one."""
    ask = place.parent / "ask"
    ask.write_text("#!/bin/sh\necho open sesame\n")
    ask.chmod(0o700)
    answers = {"SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
    agent = subprocess.Popen(
        ("ssh-agent", "-D", "-a", str(place)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, **answers, **environment},
    )  # fmt: skip
    try:
        wait_until(lambda: answers_at(place), "ssh-agent does not answer")
        for words in keys:
            subprocess.run(
                ("ssh-add", *map(str, words)), check=True, timeout=20, stdin=subprocess.DEVNULL, capture_output=True,
                env={**os.environ, **answers, "SSH_AUTH_SOCK": str(place)},
            )  # fmt: skip
        yield str(place)
    finally:
        agent.terminate()
        agent.wait(10)


def allow(farm, key):
    with farm.authorized_keys.open("a") as keys:
        keys.write(farms.public_key(key) + "\n")


@pytest.fixture
def ssh_config(small_farm):
    """A function that has the farm's clients read this ssh_config until the test is over."""
    file = small_farm.directory / "ssh_config"
    yield file.write_text
    file.write_text("")


def test_a_key_in_the_agent(small_farm, connect, tmp_path, monkeypatch):
    locked = farms.make_key(tmp_path / "locked", passphrase="open sesame")
    allow(small_farm, locked)
    with agent_at(tmp_path / "agent", (locked,)) as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", agent)
        assert connect(small_farm, identity_file=str(locked)).run(("true",)).returncode == 0


@pytest.mark.parametrize("named", ["public", "locked without .pub"])
def test_a_key_that_only_the_agent_can_use_is_named_by_its_public_half(
    small_farm, connect, tmp_path, monkeypatch, ssh_config, named
):
    """As with keys of password stores and hardware tokens, beside many others that the server must not be shown."""
    locked = farms.make_key(tmp_path / "locked", passphrase="open sesame")
    allow(small_farm, locked)
    others = [(farms.make_key(tmp_path / f"other{number}"),) for number in range(7)]
    ssh_config("Host *\n  IdentitiesOnly yes\n")
    public = tmp_path / "locked.pub"
    with agent_at(tmp_path / "agent", *others, (locked,)) as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", agent)
        identity = public if named == "public" else locked
        (locked if named == "public" else public).unlink()
        assert connect(small_farm, identity_file=str(identity)).run(("true",)).returncode == 0
    found = failure(connect(small_farm, identity_file=str(identity)).run, ("true",))
    assert found.kind is FailureKind.AUTH and str(identity) in found.message


def test_the_agent_of_ssh_config_is_asked(small_farm, connect, tmp_path, monkeypatch, ssh_config):
    key = farms.make_key(tmp_path / "key")
    allow(small_farm, key)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "nobody"))
    with agent_at(tmp_path / "other agent", (key,)) as agent:
        key.unlink()
        ssh_config(f'Host *\n  IdentityAgent "{agent}"\n')
        assert connect(small_farm, identity_file=f"{key}.pub").run(("true",)).returncode == 0
    found = failure(connect(small_farm, identity_file=f"{key}.pub").run, ("true",))
    assert f"ssh-agent: no answer at {agent} (" in found.message


def test_an_agent_that_does_not_answer_is_waited_for_no_longer_than_a_login(
    small_farm, connect, tmp_path, monkeypatch
):
    import socket

    from clusterctl.transport import paramiko_internals

    monkeypatch.setattr(paramiko_internals, "_AGENT_TIMEOUT_S", 0.3)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "agent"))
        silent.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        found = failure(
            connect(small_farm, identity_file=f"{small_farm.identity_file}.absent").run, ("true",)
        )
    assert found.kind is FailureKind.AUTH and f"ssh-agent: no answer at {tmp_path / 'agent'}" in found.message


def test_a_key_that_the_agent_declines_to_sign_with_does_not_keep_out_the_next(
    small_farm, connect, tmp_path, monkeypatch
):
    declined, good = farms.make_key(tmp_path / "declined"), farms.make_key(tmp_path / "good")
    for key in (declined, good):
        allow(small_farm, key)
    # Each use of the first is to be confirmed by a person, who says no.
    with agent_at(tmp_path / "agent", ("-c", declined), (good,), SSH_ASKPASS="/bin/false") as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", agent)
        absent = str(tmp_path / "absent")
        assert connect(small_farm, identity_file=absent).run(("true",)).returncode == 0
        subprocess.run(("ssh-add", "-d", str(good)), check=True, timeout=20, capture_output=True)
        found = failure(connect(small_farm, identity_file=absent).run, ("true",))
    assert found.kind is FailureKind.AUTH and "the agent declined to sign with it" in found.message


def certified(authority, key, validity="always:forever"):
    """Have an authority sign a key; the certificate lies beside it."""
    subprocess.run(
        ("ssh-keygen", "-q", "-s", str(authority), "-I", "test", "-n", "root", "-V", validity, f"{key}.pub"),
        check=True, timeout=20, capture_output=True,
    )  # fmt: skip
    return key.parent / f"{key.name}-cert.pub"


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_certificates_are_shown_and_the_bare_key_where_one_has_expired(
    small_farm, connect, tmp_path, monkeypatch, ssh_config, kind
):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    authority, key = farms.make_key(tmp_path / "authority"), farms.make_key(tmp_path / "key", kind)
    with small_farm.authorized_keys.open("a") as keys:
        keys.write(f"cert-authority {farms.public_key(authority)}\n")
    beside = certified(authority, key)
    assert connect(small_farm, identity_file=str(key)).run(("true",)).returncode == 0
    elsewhere = beside.rename(tmp_path / "signed.pub")
    assert failure(connect(small_farm, identity_file=str(key)).run, ("true",)).kind is FailureKind.AUTH
    ssh_config(f"Host *\n  CertificateFile {elsewhere}\n")
    assert connect(small_farm, identity_file=str(key)).run(("true",)).returncode == 0
    with agent_at(tmp_path / "agent", (key,)) as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", agent)
        absent = str(tmp_path / "absent")
        assert connect(small_farm, identity_file=absent).run(("true",)).returncode == 0
    monkeypatch.delenv("SSH_AUTH_SOCK")
    ssh_config("Host *\n  CertificateFile /no/such-cert.pub\n")
    found = failure(connect(small_farm, identity_file=str(key)).run, ("true",))
    assert "refused (without the certificate /no/such-cert.pub: No such file or directory)" in found.message
    certified(authority, key, "19990101:19990102")
    assert failure(connect(small_farm, identity_file=str(key)).run, ("true",)).kind is FailureKind.AUTH
    allow(small_farm, key)
    assert connect(small_farm, identity_file=str(key)).run(("true",)).returncode == 0, (
        "the key itself is let in"
    )


def token_key(path):
    """Write a private key as ssh-keygen does for a hardware token: it is a handle, with nothing to sign in it."""
    import base64
    import struct

    def text(data):
        return struct.pack(">I", len(data)) + data

    public = text(b"sk-ssh-ed25519@openssh.com") + text(b"\1" * 32) + text(b"ssh:")
    private = struct.pack(">II", 7, 7) + public + b"\1" + text(b"handle") + text(b"") + text(b"me")
    private += bytes(range(1, 1 + -len(private) % 8))
    whole = (
        b"openssh-key-v1\0"
        + text(b"none") * 2
        + text(b"")
        + struct.pack(">I", 1)
        + text(public)
        + text(private)
    )
    body = base64.encodebytes(whole).decode()
    path.write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}-----END OPENSSH PRIVATE KEY-----\n")
    path.chmod(0o600)
    return path


def test_a_key_on_a_hardware_token_is_passed_over(small_farm, connect, tmp_path, monkeypatch, ssh_config):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    token = token_key(tmp_path / "id_ed25519_sk")
    subprocess.run(("ssh-keygen", "-y", "-f", str(token)), check=True, timeout=20, capture_output=True)
    found = failure(connect(small_farm, identity_file=str(token)).run, ("true",))
    assert (
        found.kind is FailureKind.AUTH and f"{token}: of a kind that only an agent can use" in found.message
    )
    assert found.hint == "plug the token in and add its key to ssh-agent with ssh-add"
    ssh_config(f"Host *\n  IdentityFile {token}\n  IdentityFile {small_farm.identity_file}\n")
    assert connect(small_farm, identity_file=None).run(("true",)).returncode == 0


def test_an_alias_of_the_host_key_is_known_without_a_port(sshd_farm, connect, monkeypatch):
    """As ssh has it: what it recorded under the alias counts, and another key there is a change."""
    farm = sshd_farm(2)
    for there in farm.nodes:
        assert there.port != 22
    (farm.directory / "ssh_config").write_text("Host *\n  HostKeyAlias the-lab\n")
    lines = farm.known_hosts.read_text().splitlines()
    kind, key = lines[0].split()[1:3]
    farm.known_hosts.write_text("")
    found = failure(connect(farm).run, ("true",))
    assert found.kind is FailureKind.HOST_KEY_UNKNOWN and " as the-lab" in found.message
    assert "ssh-keyscan" not in found.hint and "--accept-new-host-keys" in found.hint
    accepting = Connector(accept_new_host_keys=True, connect_timeout_s=60)
    assert connect(farm, 0, accepting).run(("true",)).returncode == 0
    assert farm.known_hosts.read_text() == f"the-lab {kind} {key}\n"
    asked = subprocess.run(
        ("ssh", "-F", str(farm.directory / "ssh_config"), "-o", f"UserKnownHostsFile={farm.known_hosts}", "-o",
         "BatchMode=yes", "-i", str(farm.identity_file), "-p", str(farm.nodes[0].port), f"root@{farm.nodes[0].address}",
         "true"),
        capture_output=True, timeout=30, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    stranger = farms.public_key(farms.make_key(farm.directory / "stranger"))
    farm.known_hosts.write_text(f"the-lab {stranger}\n")
    changed = Connector(accept_new_host_keys=True, connect_timeout_s=60)
    assert failure(connect(farm, 0, changed).run, ("true",)).kind is FailureKind.HOST_KEY_CHANGED
