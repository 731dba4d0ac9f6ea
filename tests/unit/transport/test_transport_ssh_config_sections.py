"""Which sections of an ssh_config count for a host: what ``ssh -G`` says of the same files, word for word."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from clusterctl.inventory.model import Node
from clusterctl.text.openssh import reader
from clusterctl.transport.ssh import config as ssh_config
from clusterctl.transport.ssh.session import SshSession
from clusterctl.transport.sudo import SudoPassword

FILES = {
    "own/a.conf": "Host gpu01\n  User from-a\n",
    "own/deep/b.conf": "Port 2201\nHost gpu02\n  Port 2202\n",
    "own/.a.conf.swp": "\x00 what an editor keeps\n",
    "own/with space.conf": "Host gpu03\n  Port 2203\n",
    "own/any.conf": "User first\nHost *\n  Port 2204\nMatch all\n  HostName 10.0.0.9\n",
}
CONFIGS = {
    "comments": "User root # the usual\nHost gpu01 gpu02 # two\n  Port 2222 # lab\n  HostName=10.0.0.1 #x\n",
    "quotes": 'Host "gpu01"\n  User \'some one\'\n  Port "2205"\n  IdentityFile "/a b/c" # here\n',
    "hash in a word": "User a#b\nIdentityFile /k#1\n",
    "small and capital letters": "MATCH Host gpu01\n  USER one\nmatch OriginalHost gpu0*,!gpu03\n  port 2206\n",
    "another host": "Match Host other\n  User wrong\nMatch !HOST gpu01\n  User not-gpu01\n",
    "several criteria": 'Match host "gpu*" originalhost gpu01 !user nobody\n  Port 2207\nMatch all\n  User last\n',
    "final": "Match final host 10.0.0.5\n  User late\nHost gpu01\n  HostName 10.0.0.5\n",
    "exec": 'Match exec "test %h = gpu01 # no comment"\n  User asked\nMatch exec "exit 1"\n  User wrong\n',
    "folders by pattern": "Include own/*/b.conf\nInclude own/*.conf\nUser behind\n",
    "quoted include": 'Include "own/with space.conf" own/absent.conf\n',
    "include for some": "Host gpu01\n  Include own/any.conf\n  User late\nHost *\n  User rest\n",
    "include in a match": "Match originalhost gpu02\n  Include own/any.conf own/deep/b.conf\nHost *\n  User rest\n",
    "include for none": "Host nobody\n  Include own/any.conf\n",
    "include behind !": "Host * !gpu01\n  Include own/any.conf\n",
}


@pytest.fixture(scope="module", autouse=True)
def _ssh(tier_unavailable):
    if shutil.which("ssh") is None:
        tier_unavailable("ssh is not installed")


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A function that reads an ssh_config which stands beside FILES."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def read(text):
        (tmp_path / "config").write_text(text)
        monkeypatch.setenv(ssh_config.CONFIG_VARIABLE, str(tmp_path / "config"))
        return SshSession(accept_new_host_keys=False, connect_timeout_s=None, password=SudoPassword())

    return read


def asked_of_ssh(folder, text, host):
    # Of a file given with -F, ssh looks for what it includes in ~/.ssh, whatever $HOME says.
    (folder / "for_ssh").write_text(text.replace("own/", f"{folder}/own/"))
    said = subprocess.run(
        ("ssh", "-G", "-F", str(folder / "for_ssh"), host),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    lines = [line.partition(" ") for line in said.stdout.splitlines()]
    found = {key: value for key, _, value in lines}
    keys = [value for key, _, value in lines if key == "identityfile" and not value.startswith("~/.ssh/id_")]
    return found["hostname"], int(found["port"]), found["user"], tuple(keys)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_settings_count_as_for_ssh(session, tmp_path, monkeypatch, name):
    read = session(CONFIGS[name])
    for host in ("gpu01", "gpu02", "gpu03", "other"):
        target = read.target(Node(name=host, address=host))
        found = (target.host, target.port, target.user, target.identities)
        assert found == asked_of_ssh(tmp_path, CONFIGS[name], host), host


@pytest.mark.parametrize(
    "criteria", ["localnetwork 10.0.0.0/8", "!sessiontype shell", "host gpu01 command 'x y'"]
)
def test_a_section_whose_condition_is_not_known_does_not_count_and_that_is_said(session, caplog, criteria):
    with caplog.at_level("WARNING", logger="clusterctl"):
        target = session(f"Port 2201\nMatch {criteria}\n  User wrong\n").target(
            Node(name="gpu01", address="gpu01")
        )
    assert (target.port, target.user) == (2201, session("").target(Node(name="n", address="n")).user)
    assert f"config:2: 'Match {criteria.split()[-2].lstrip('!')}" in caplog.text or "command" in caplog.text


def test_a_tag_is_none_that_ssh_was_given(session):
    read = session("Match tagged prod\n  User wrong\nMatch !tagged prod\n  User right\n")
    assert read.target(Node(name="gpu01", address="gpu01")).user == "right"


def test_a_fleet_with_a_section_for_every_host_costs_each_host_its_own(session, monkeypatch):
    """Held against every section, a thousand hosts with one each would take a minute."""
    tried = []
    matches = reader.any_like
    monkeypatch.setattr(reader, "any_like", lambda *given: (tried.append(given), matches(*given))[1])
    hosts = range(200)
    sections = "".join(f"Host gpu{n} alias{n}\n  Port {2200 + n}\n" for n in hosts)
    read = session(f"Host gpu7 other\n  User first\n{sections}Host gpu*\n  User rest\n")
    targets = [read.target(Node(name=f"gpu{n}", address=f"gpu{n}")) for n in hosts]
    assert [target.port for target in targets] == [2200 + n for n in hosts]
    assert [n for n in hosts if targets[n].user == "first"] == [7]
    assert len(tried) < 10 * len(hosts)


def test_names_that_are_made_canonical_are_held_against_every_section(session, monkeypatch):
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: [])
    text = (
        "CanonicalizeHostname yes\nCanonicalDomains lab.example # ours\nHost gpu01.lab.example\n  Port 2201\n"
    )
    target = session(text).target(Node(name="gpu01", address="gpu01"))
    assert (target.host, target.port) == ("gpu01.lab.example", 2201)


PROXIES = {
    "not by itself": "Host bastion\n  ProxyCommand none\nHost *\n  ProxyJump bastion\n",
    "no jump": "Host bastion\n  ProxyJump none\nHost *\n  ProxyJump bastion\n",
    "a command first": "Host gpu01\n  ProxyCommand ssh -W %h:%p first\nHost gpu*\n  ProxyJump late\n",
    "a jump first": "Host gpu01\n  ProxyJump first\nHost gpu*\n  ProxyCommand ssh -W %h:%p late\n",
    "no jump but a command": "Host gpu*\n  ProxyJump none\n  ProxyJump b\n  ProxyCommand ssh -W %h:%p first\n",
    "no command at all": "Host gpu*\n  ProxyCommand none\n  ProxyJump b\n  ProxyCommand ssh -W %h:%p late\n",
}


@pytest.mark.parametrize("name", PROXIES)
def test_of_jumps_and_commands_the_first_counts_as_for_ssh(session, tmp_path, name):
    read = session(PROXIES[name])
    for host in ("gpu01", "bastion"):
        said = subprocess.run(
            ("ssh", "-G", "-F", str(tmp_path / "config"), host),
            capture_output=True, text=True, timeout=20, check=True,
        )  # fmt: skip
        ways = dict(line.split(" ", 1) for line in said.stdout.splitlines() if line.startswith("proxy"))
        wanted = ways.get("proxyjump") or ways.get("proxycommand", "none").split()[-1]
        jump = read.target(Node(name=host, address=host)).jump
        assert (jump.host if jump else "none") == wanted, host
