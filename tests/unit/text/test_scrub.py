"""The scrubber: it takes secrets, it takes nothing else, and what could be parsed can still be parsed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recorded_answers import CASES
from recorded_answers import answer as cases

from clusterctl.facts import probe
from clusterctl.text.secret.scrub import Scrubber

KEY = """-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACDsecretsecretsecretsecretsecretsecretsecretAAAAIGhvc3RzLi4u
-----END OPENSSH PRIVATE KEY-----
"""
PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGhvc3RzZ29vZGtleWdvb2RrZXlnb29ka2V5Z29v root@gpu01"


def scrub(text: str, values: tuple[str, ...] = ()) -> str:
    return Scrubber(values).text(text)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("http_proxy=http://bob:hunter22@proxy:3128", "hunter22"),
        ('{"proxies": {"http-proxy": "http://bob:hunter22@proxy:3128"}}', "hunter22"),
        ('{"registry-mirrors": ["https://user:p%40ss@mirror.example"]}', "p%40ss"),
        ('{"log-opts": {"splunk-token": "0123-4567-89ab"}}', "0123-4567-89ab"),
        (r'{"value": "{\n \"splunk-token\": \"0123-4567-89ab\"\n}"}', "0123-4567-89ab"),
        ('{"auths": {"reg": {"auth": "dXNlcjpwYXNz"}}}', "dXNlcjpwYXNz"),
        ("BOOT_IMAGE=/vmlinuz root=/dev/sda1 rootpassword=hunter22 quiet", "hunter22"),
        ("Environment=HF_TOKEN=hf_abcdefghijklmnopqrstuv", "hf_abcdefghijklmnopqrstuv"),
        ('Environment="WANDB_API_KEY=0123456789abcdef"', "0123456789abcdef"),
        ("export AWS_SECRET_ACCESS_KEY='wJalrXUtnFEMI/K7MDENG'", "wJalrXUtnFEMI"),
        ("//server/share /mnt cifs username=bob,password=hunter22,vers=3.0 0 0", "hunter22"),
        ("password: hunter22", "hunter22"),
        ("/etc/agent.yaml:  - api_token: hunter22", "hunter22"),
        ("ExecStart=/usr/bin/agent --api-token s3cr3t-value --verbose", "s3cr3t-value"),
        ("ExecStart=/usr/bin/agent --password=s3cr3t-value", "s3cr3t-value"),
        ("Authorization: Bearer abcdefghijklmnop", "abcdefghijklmnop"),
        ("saw ghp_0123456789abcdefghijABCDEFGHIJ here", "ghp_0123456789"),
        ("aws AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("root:$6$saltsalt$abcdefghijklmnopqrstuvwxyz0123456789:19000:0", "abcdefghijklmnop"),
        (
            "ro netroot=iscsi:me:hunter22:them:x@10.0.0.1::3260::iqn.2009-01.com.example:disk quiet",
            "hunter22",
        ),
        ("root=iscsi:me:hunt/er22@[fd00::1]::::iqn.2009-01.com.example:disk", "er22"),
        ("root=cifs:me:hunter22@10.0.0.1:/root", "hunter22"),
        ("https_proxy=me:hunter22@proxy:3128", "hunter22"),
        ("/etc/systemd/system/x.mount:Options=user=me,pass=hunter22,rw", "hunter22"),
        ("rootpw=hunter22 wpa-psk=hunter23", "hunter2"),
        ("config.url=https://x/y?sv=2024&sig=hunter22%3D&se=1", "hunter22"),
        ("config.url=https://x/y?X-Amz-Signature=hunter22", "hunter22"),
        ("proxycommand sshpass -p hunter22 ssh %h", "hunter22"),
        ("/etc/ntp.conf:crypto pw hunter22", "hunter22"),
        ("machine mirror.example login me password hunter22", "hunter22"),
        ("//server/share /mnt cifs user=me%hunter22,vers=3.0 0 0", "hunter22"),
        ("ExecStart=/usr/bin/curl -u me:hunter22 https://mirror.example/", "hunter22"),
        ("ExecStart=/usr/bin/curl --user 'me:hunter22' https://mirror.example/", "hunter22"),
        ("Authorization: Token hunter22hunter22", "hunter22"),
        ("inst.rootpass=hunter22 rootpass=hunter23 DBPASS=hunter24", "hunter2"),
        ("seen hvs.CAESIJhunter22hunter22hunter22 here", "hunter22"),
        (KEY, "b3BlbnNzaC1rZXktdjE"),
        ("".join(f"/etc/ssh/key:{line}\n" for line in KEY.splitlines()), "secretsecret"),
    ],
)
def test_secrets_are_taken(text: str, secret: str) -> None:
    scrubber = Scrubber()
    shown = scrubber.text(text)
    assert secret not in shown
    assert sum(scrubber.counts.values()) >= 1
    assert len(shown.encode()) == len(text.encode())
    assert shown.count("\n") == text.count("\n")


RED, PLAIN = "\x1b[31m", "\x1b(B\x1b[m"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{RED}token=hunter22", f"{RED}token=********"),
        (f"\x9b1;31mtoken=hunter22{PLAIN} \u00fc", f"\x9b1;31mtoken=********{PLAIN} \u00fc"),
        (f"{RED}password{PLAIN}: hunter22\nx: 1", f"{RED}password{PLAIN}: ********\nx: 1"),
        (f"to{RED}ken={PLAIN}hunter22", f"to{RED}ken={PLAIN}********"),
        (f"\u00fc{RED}https://me:hunt\u00fcr2@x/", f"\u00fc{RED}https://***********@x/"),
        (f"{RED}ghp_abcdefghijklmnopqrstuvwx1234{PLAIN}", f"{RED}{'*' * 32}{PLAIN}"),
        ("\x1b]0;title\x07token=hunter22", "\x1b]0;title\x07token=********"),
        (f"{RED}PasswordAuthentication no{PLAIN}", f"{RED}PasswordAuthentication no{PLAIN}"),
    ],
)
def test_colours_hide_no_secret(text: str, shown: str) -> None:
    assert Scrubber().text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        PUBLIC,
        "/etc/ssh/sshd_config:PasswordAuthentication no",
        "/etc/ssh/sshd_config:AuthorizedKeysFile .ssh/authorized_keys",
        "/etc/ssh/sshd_config:PubkeyAuthentication yes",
        "proxy http://proxy.example:3128 without anybody",
        "git@github.com:owner/repository",
        "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQkey= x",
        "net.core.rmem_max = 4194304",
        "netroot=iscsi:10.0.0.1::3260::iqn.2009-01.com.example:di@sk iommu=pt module.sig_enforce=1 BYPASS=1",
        "http_proxy=http://proxy.example:3128 https_proxy=proxy.example:3128",
        "mgs@o2ib:10.0.0.1@tcp:/scratch /scratch lustre rw 0 0",
        "not root, and sudo without a password was refused: sudo: a password is required",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef  /etc/sysconfig/rdma/cluster",
        "1c:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]",
        '{"ServerVersion": "28.2.2", "SecurityOptions": ["name=seccomp,profile=builtin"]}',
        "docker run -u 1000:1000 --user nobody: x -u https://x/ user=90%, name=5%x authorization: token wanted",
        "the machine gpu01 has a login; its password is asked for. NCCL_BYPASS=1 COMPASS=2 bypass=3",
        "author: somebody, gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-redhat",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert scrub(text) == text


def test_known_values_are_taken_wherever_they_stand() -> None:
    assert scrub("a line with correct-horse in it", ("correct-horse",)) == "a line with ************* in it"
    assert scrub("too short: abc", ("abc",)) == "too short: abc"


def test_a_key_that_was_cut_ends_where_the_next_section_begins() -> None:
    nonce = "0123456789abcdef0123456789abcdef"
    text = f"{KEY[:120]}\n{nonce} end files 0\n\n{nonce} begin next -\nabcdefghijklmnopqrstuvwxyz\n"
    shown = Scrubber().text(text, nonce)
    assert "secretsecret" not in shown and "b3Blbn" not in shown
    assert shown.endswith(f"{nonce} begin next -\nabcdefghijklmnopqrstuvwxyz\n")


def test_values_of_documents_are_taken_by_their_names() -> None:
    scrubber = Scrubber()
    found = scrubber.value({"a": [{"api_token": "abcd", "n": 3, "path": "/x"}], "b": None})
    assert found == {"a": [{"api_token": "****", "n": 3, "path": "/x"}], "b": None}
    assert scrubber.value({"authorization-plugins": ["opa"]}) == {"authorization-plugins": ["opa"]}


SECRETS: tuple[Callable[[str], str], ...] = (
    lambda s: f"http_proxy=http://bob:{s}@proxy:3128",
    lambda s: f"TOKEN={s}",
    lambda s: f'PASSWORD="{s}"',
    lambda s: f"--secret {s}",
    lambda s: json.dumps({"x": 1, "credential": s, "list": [s and "y"]}),
    lambda s: f"\x1b[1mtoken\x1b[0m=\x1b[32m{s}\x1b(B",
    lambda s: f"-----BEGIN RSA PRIVATE KEY-----\n{s * 5}",
)
word = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=8, max_size=40)
noise = st.text(max_size=80)


@given(before=noise, after=noise, secret=word, form=st.sampled_from(SECRETS))
def test_length_lines_and_quotes_stay_whatever_surrounds_a_secret(
    before: str, after: str, secret: str, form: Callable[[str], str]
) -> None:
    text = f"{before}\n{form(secret)}\n{after}"
    shown = scrub(text)
    assert len(shown.encode()) == len(text.encode())
    assert shown.count("\n") == text.count("\n")
    assert [c for c in shown if c in "\"'\\"] == [c for c in text if c in "\"'\\"]
    assert scrub(shown) == shown


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=30),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.text(max_size=12) | st.sampled_from(["token", "password", "api_key", "url"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_json_stays_json_of_the_same_shape(document: object) -> None:
    text = json.dumps(document)
    found = json.loads(scrub(text))

    def shape(value: object) -> object:
        if isinstance(value, dict):
            return [shape(item) for item in value.values()]
        if isinstance(value, list):
            return [shape(item) for item in value]
        return type(value).__name__

    assert shape(found) == shape(document)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=st.sampled_from(CASES), where=st.floats(0, 1), secret=word, form=st.sampled_from(SECRETS))
def test_what_a_node_answers_is_split_alike_before_and_after(
    case: str, where: float, secret: str, form: Callable[[str], str]
) -> None:
    nonce = secrets.token_hex(16)
    output = cases(case, nonce)
    lines = output.split("\n")
    at = int(where * len(lines))
    text = "\n".join([*lines[:at], form(secret), *lines[at:]])
    before = probe.split(text, nonce)
    after = probe.split(Scrubber().text(text, nonce), nonce)
    assert list(after.sections) == list(before.sections)
    for name, section in before.sections.items():
        again = after.sections[name]
        assert (again.exit_status, again.cut, again.status) == (
            section.exit_status,
            section.cut,
            section.status,
        )
        assert len(again.text.encode()) == len(section.text.encode())
    assert after.uptime_end_s == before.uptime_end_s


@pytest.mark.parametrize("case", CASES)
def test_recorded_nodes_hold_nothing_that_is_taken_for_a_secret(case: str) -> None:
    nonce = secrets.token_hex(16)
    # One case has a password in a repository's URL, to see that facts keep it to themselves.
    text = cases(case, nonce).replace("user:secret@", "")
    assert Scrubber().text(text, nonce) == text
