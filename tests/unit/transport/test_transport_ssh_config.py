"""Where a node is: the inventory beats ssh_config, which beats the defaults."""

from __future__ import annotations

import pytest

from clusterctl.errors import ConfigError
from clusterctl.inventory.model import Node
from clusterctl.transport.ssh import config as ssh_config_files
from clusterctl.transport.ssh import target as ssh_target
from clusterctl.transport.ssh.session import SshSession
from clusterctl.transport.sudo import SudoPassword


@pytest.fixture
def target(tmp_path, monkeypatch):
    """A function that resolves a node against the text of an ssh_config."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(ssh_target.KNOWN_HOSTS_VARIABLE, raising=False)

    def resolve(text, connect_timeout_s=None, **settings):
        file = tmp_path / "ssh_config"
        file.write_text(text)
        monkeypatch.setenv(ssh_config_files.CONFIG_VARIABLE, str(file))
        session = SshSession(
            accept_new_host_keys=False, connect_timeout_s=connect_timeout_s, password=SudoPassword()
        )
        return session.target(Node(**{"name": "gpu01", "address": "gpu01", **settings}))

    return resolve


def test_defaults(target, tmp_path, monkeypatch):
    monkeypatch.setenv("LOGNAME", "someone")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").write_text("")
    found = target("")
    assert (found.host, found.port, found.user, found.connect_timeout_s) == ("gpu01", 22, "someone", 10.0)
    assert found.identities == (str(tmp_path / ".ssh" / "id_rsa"),) and not found.identities_named
    assert found.known_hosts[0] == str(tmp_path / ".ssh" / "known_hosts")
    assert "/etc/ssh/ssh_known_hosts" in found.known_hosts
    assert found.where == "gpu01 (someone@gpu01:22)"


CONFIG = """
Host gpu*
    HostName 10.0.0.1
    Port 2200
    User ubuntu
    IdentityFile ~/.ssh/cluster
    IdentitiesOnly yes
    ConnectTimeout 3
    UserKnownHostsFile ~/.ssh/kh_lab
    GlobalKnownHostsFile none
    RevokedHostKeys ~/.ssh/revoked
    HashKnownHosts yes
    HostKeyAlias lab-gpu
Host *
    Port 9
"""


def test_ssh_config_beats_the_defaults(target, tmp_path):
    found = target(CONFIG)
    assert found.revoked_host_keys == str(tmp_path / ".ssh/revoked")
    assert (found.host, found.port, found.user, found.connect_timeout_s) == ("10.0.0.1", 2200, "ubuntu", 3.0)
    assert found.identities == (str(tmp_path / ".ssh/cluster"),) and found.identities_only
    assert found.known_hosts[0] == str(tmp_path / ".ssh/kh_lab")
    assert found.hash_known_hosts and found.key_place == ("lab-gpu", 22), "an alias stands without a port"


def test_the_inventory_beats_ssh_config(target, tmp_path):
    found = target(CONFIG, connect_timeout_s=7, user="root", port=22, identity_file="~/own")
    assert (found.port, found.user, found.connect_timeout_s) == (22, "root", 7.0)
    assert (
        found.identities == (str(tmp_path / "own"), str(tmp_path / ".ssh/cluster")) and found.identities_named
    )


def test_known_hosts_of_the_inventory_beat_ssh_config_for_jump_hosts_too(target):
    found = target(CONFIG, known_hosts="/x/own", proxy_jump="bastion")
    assert found.known_hosts == found.jump.known_hosts == ("/x/own",)


def test_known_hosts_by_environment_beats_all(target, monkeypatch):
    monkeypatch.setenv(ssh_target.KNOWN_HOSTS_VARIABLE, "/x/kh")
    assert target(CONFIG, known_hosts="/x/own").known_hosts == ("/x/kh",)


def test_include_ends_with_the_included_file(target, tmp_path):
    (tmp_path / "more.d").mkdir()
    (tmp_path / "more.d" / "a.conf").write_text("Host other\n  User wrong\nHost gpu01\n  User right\n")
    (tmp_path / "more.d" / "b.conf").write_text("Host nobody\n  Port 1\n")
    found = target("Include more.d/*.conf absent.conf\nPort 77\n")
    assert (found.user, found.port) == ("right", 77)
    inside = target("Host gpu01\n  Include more.d/b.conf\n  Port 78\n")
    assert inside.port == 78


def test_an_include_of_itself_is_refused(target):
    with pytest.raises(ConfigError, match="nested"):
        target("Include ssh_config\n")


def test_jump_hosts(target):
    found = target("Host bastion\n  Port 2022\n  HostName 192.0.2.1\n", proxy_jump="bastion", user="root")
    assert (found.jump.host, found.jump.port, found.jump.user) == ("192.0.2.1", 2022, "root")
    found = target("", proxy_jump="ops@a:23,[fd00::1]:24", user="root", identity_file="/k")
    last, first = found.jump, found.jump.jump
    assert (first.user, first.host, first.port, first.jump) == ("ops", "a", 23, None)
    assert (last.user, last.host, last.port) == ("root", "fd00::1", 24)
    assert first.identities == last.identities == ("/k",)
    assert last.where == "jump host fd00::1 (root@[fd00::1]:24)"
    chained = target("Host gpu01\n ProxyJump b\nHost b\n ProxyJump c\n")
    assert (chained.jump.host, chained.jump.jump.host) == ("b", "c")
    assert target("Host gpu01\n ProxyJump b\n", proxy_jump="none").jump is None


def test_nodes_behind_one_jump_host_share_it(target):
    one = target("", proxy_jump="b", user="root")
    other = target("", proxy_jump="b", user="root", name="gpu02", address="gpu02")
    assert one.jump == other.jump and hash(one.jump) == hash(other.jump)


def test_paths_have_their_tokens_filled_in(target, tmp_path, monkeypatch):
    monkeypatch.setenv("KEYS", "/keys")
    found = target(
        "Host gpu01\n  HostName 10.0.0.1\n  Port 2200\n  User someone\n  HostKeyAlias lab\n"
        '  UserKnownHostsFile ~/.ssh/known.d/%k "/a b/%h_%p_%%" %d/c\n  GlobalKnownHostsFile none\n'
        '  IdentityFile ${KEYS}/%r@%n\n  IdentityFile "/my keys/%x"\n  CertificateFile ~/%h-cert.pub\n'
        '  IdentityAgent "~/an agent/%r"\n',
        user="root",
    )
    home = str(tmp_path)
    assert found.known_hosts[:3] == (f"{home}/.ssh/known.d/lab", "/a b/10.0.0.1_2200_%", f"{home}/c")
    assert found.identities == ("/keys/root@gpu01", "/my keys/%x")
    assert (found.certificate, found.agent) == (f"{home}/10.0.0.1-cert.pub", f"{home}/an agent/root")


def test_the_home_of_nobody_is_no_reason_to_fail(target):
    found = target("Include ~no-such-user/x\nIdentityFile ~no-such-user/key\n")
    assert found.identities == ("~no-such-user/key",)


@pytest.mark.parametrize(
    ("text", "agent"),
    [
        ("", "/tmp/usual"),
        ("IdentityAgent SSH_AUTH_SOCK\n", "/tmp/usual"),
        ("IdentityAgent none\n", None),
        ("IdentityAgent $OTHER_AGENT\n", "/tmp/other"),
        ("IdentityAgent $NO_AGENT\n", None),
        ("Host gpu01\n IdentityAgent /run/agent\n", "/run/agent"),
    ],
)
def test_the_agent_is_the_one_that_ssh_config_names(target, monkeypatch, text, agent):
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/usual")
    monkeypatch.setenv("OTHER_AGENT", "/tmp/other")
    monkeypatch.delenv("NO_AGENT", raising=False)
    assert target(text).agent == agent


@pytest.mark.parametrize(
    ("written", "seconds"), [("7", 7.0), ("90s", 90.0), ("1m30", 90.0), ("1H", 3600.0), ("0", 10.0)]
)
def test_times_are_written_as_for_ssh(target, written, seconds):
    assert target(f"ConnectTimeout {written}\n").connect_timeout_s == seconds


def test_families_of_addresses(target):
    assert [target(f"AddressFamily {word}\n").family for word in ("any", "inet", "INET6")] == [
        "any",
        "inet",
        "inet6",
    ]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("Host *\n  ConnectTimeout soon\n", {}),
        ("Host *\n  ConnectTimeout 99999999999\n", {}),
        (f"Host *\n  ConnectTimeout {'9' * 5000}\n", {}),
        (f"Host *\n  ConnectTimeout {'0' * 50}soon\n", {}),
        ("Host *\n  Port -1\n", {}),
        ("Host *\n  Port 99999\n", {}),
        ("Host *\n  ProxyJump b:99999\n", {}),
        ("Host *\n  ProxyJump b:0\n", {}),
        ("Host gpu01\n ProxyJump b\nHost b\n ProxyJump gpu01\n", {}),
        ("", {"proxy_jump": "a:b:c"}),
        ("", {"proxy_jump": "user@"}),
        ("Match nonsense\n", {}),
    ],
)
def test_what_cannot_be_used_is_a_config_error(target, text, settings):
    with pytest.raises(ConfigError):
        target(text, **settings)


def test_proxy_command_is_noticed(target):
    assert target("Host gpu01\n ProxyCommand nc %h %p # %%\n", port=2201).proxy_command == "nc gpu01 2201 # %"
    assert not target("Host gpu01\n ProxyCommand none\n").proxy_command
    assert not target("Host gpu01\n ProxyCommand nc %h %p\n", proxy_jump="none").proxy_command
    assert not target("Host gpu01\n ProxyCommand nc %h %p\n", proxy_jump="a,gpu01").jump.proxy_command


def test_a_proxy_command_that_only_jumps_is_a_jump(target):
    found = target("Host gpu01\n ProxyCommand ssh -q -W %h:%p -p 2022 ops@bastion\n")
    assert (found.jump.user, found.jump.host, found.jump.port) == ("ops", "bastion", 2022)
    assert not found.proxy_command


def test_a_home_into_which_nobody_may_look_has_no_ssh_config_and_no_keys(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / ("x" * 300)))
    monkeypatch.delenv(ssh_config_files.CONFIG_VARIABLE, raising=False)
    session = SshSession(accept_new_host_keys=False, connect_timeout_s=None, password=SudoPassword())
    assert session.target(Node(name="gpu01", address="gpu01")).identities == ()


def test_an_ssh_config_that_was_named_must_be_there(monkeypatch, tmp_path):
    monkeypatch.setenv(ssh_config_files.CONFIG_VARIABLE, str(tmp_path / "mistyped"))
    with pytest.raises(ConfigError, match=r"CLUSTERCTL_SSH_CONFIG names .*mistyped, which does not exist"):
        SshSession(accept_new_host_keys=False, connect_timeout_s=None, password=SudoPassword())
