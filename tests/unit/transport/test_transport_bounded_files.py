"""Files of ssh that never end, wait for a writer, or multiply: refused with what to do; wildcards take linear time."""

from __future__ import annotations

import os
import random
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from clusterctl.errors import ConfigError
from clusterctl.text.openssh import known_hosts
from clusterctl.text.openssh.known_hosts import KnownHosts, Verdict
from clusterctl.text.openssh.patterns import like
from clusterctl.transport.base import TransportError
from clusterctl.transport.ssh import config as ssh_config
from clusterctl.transport.ssh import keys, login
from clusterctl.transport.ssh.host_keys import HostKeyPolicy, ShownKey


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    os.mkfifo(tmp_path / "pipe")
    return str(tmp_path / "pipe")


def shown(*files: str, revoked_in: str | None = None) -> ShownKey:
    return ShownKey("gpu01", "gpu01", 22, "ssh-ed25519", "AAAA", files=files, revoked_in=revoked_in)


@pytest.mark.parametrize("policy", [HostKeyPolicy(), HostKeyPolicy(accept_new=True)])
def test_known_hosts_that_never_end_are_refused(policy: HostKeyPolicy, pipe: str, tmp_path: Path) -> None:
    for file, what in ((pipe, "a pipe (FIFO)"), ("/dev/zero", "a character device")):
        with pytest.raises(TransportError) as caught:
            policy.verify(shown(str(tmp_path / "good"), file))
        failure = caught.value.failure
        assert (
            f"{file} cannot be read: it is {what}; expected a regular file of at most 64 MiB"
            in failure.message
        )
        assert "known_hosts in the inventory" in (failure.hint or "")
    assert not (tmp_path / "good").exists(), "no key was recorded on the way"


def test_revoked_keys_that_never_end_let_no_server_in(pipe: str) -> None:
    for file in (pipe, "/dev/zero"):
        with pytest.raises(
            TransportError, match=r"\(RevokedHostKeys in ssh_config\) cannot be read: it is a"
        ):
            HostKeyPolicy().verify(shown(os.devnull, revoked_in=file))


def test_names_are_bounded_over_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_hosts, "MAX_NAMES", 10)
    (tmp_path / "a").write_text("a,b,c ssh-rsa AAAA\n" * 3)
    (tmp_path / "b").write_text("# c\nd,e ssh-rsa AAAA\n")
    assert KnownHosts((str(tmp_path / "a"),)).key_types("b") == ("ssh-rsa",)
    with pytest.raises(TransportError, match="b cannot be read: line 2 exceeds 10 names"):
        HostKeyPolicy().verify(shown(str(tmp_path / "a"), str(tmp_path / "b")))


def test_patterns_match_as_fnmatch_does() -> None:
    dice = random.Random(1)
    for _ in range(20_000):
        pattern = "".join(dice.choice("ab*?") for _ in range(dice.randrange(8)))
        text = "".join(dice.choice("ab") for _ in range(dice.randrange(10)))
        assert like(text, pattern) == fnmatchcase(text, pattern), (pattern, text)
    assert not like("b", "[ab]") and like("[ab]", "[ab]"), "a bracket is a character like others"


class Counted(str):
    """A text that counts how often it is looked at."""

    looks = 0

    def __getitem__(self, key: object) -> str:
        Counted.looks += 1
        return str.__getitem__(self, key)  # type: ignore[index]


@pytest.mark.parametrize("part", ["*", "*a", "*a?", "*?", "a*a", "*a?a"])
def test_a_pattern_takes_at_most_its_length_times_the_names(part: str) -> None:
    Counted.looks = 0
    text, pattern = Counted("a" * 250 + "c"), part * 30 + "b"
    assert not like(text, pattern)
    assert not like(text, part * 30 + "*b*")
    assert Counted.looks <= 2 * len(text) * (len(pattern) + 2)


def test_thirty_stars_in_known_hosts_end() -> None:
    hosts = KnownHosts()
    hosts.add_text(f"{'*a' * 30}b ssh-ed25519 AAAA\n{'*' * 30} ssh-ed25519 BBBB\n", "kh")
    assert hosts.judge("a" * 250, 22, "ssh-ed25519", "AAAA").verdict is Verdict.CHANGED
    assert hosts.judge("a" * 250, 22, "ssh-ed25519", "BBBB").verdict is Verdict.KNOWN


def test_keys_that_never_end_are_no_keys(pipe: str, tmp_path: Path) -> None:
    for file in (pipe, "/dev/zero"):
        with pytest.raises(keys.KeyProblem, match="cannot be read: it is a"):
            login.load_key(file)
        assert keys._public_halves(file) == []
        assert "without the certificate" in login._certificate(file)[1]
    (tmp_path / "key").write_text("x")
    os.mkfifo(tmp_path / "key-cert.pub")
    with pytest.raises(keys.KeyProblem, match="it is a pipe"):
        login.load_key(str(tmp_path / "key"))


def test_an_ssh_config_that_never_ends_is_refused(pipe: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(f"Include {pipe}\n")
    for file in (Path(pipe), Path("/dev/zero"), tmp_path / "config"):
        with pytest.raises(ConfigError, match="cannot be read: it is a") as caught:
            ssh_config.read_config((file,))
        assert caught.value.hint
    empty = ssh_config.read_config((Path(os.devnull),))
    assert not any(section.settings for section in empty.sections)


def test_includes_that_multiply_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_config, "MAX_FILES", 100)
    config = tmp_path / "config"
    config.write_text(f"Include {config} {config}\n" * 5)
    with pytest.raises(ConfigError, match="nested deeper than 16"):
        ssh_config.read_config((config,))
    # Ten levels of ten files each: no file includes itself.
    for level in range(10):
        (tmp_path / str(level)).write_text(f"Include {tmp_path / str(level + 1)}\n" * 10)
    (tmp_path / "10").write_text("User x\n")
    with pytest.raises(ConfigError, match=r"includes 101 files .* expected at most 100 files and 16 MiB"):
        ssh_config.read_config((tmp_path / "0",))
    monkeypatch.setattr(ssh_config, "MAX_BYTES", 1 << 10)
    (tmp_path / "big").write_text("User x\n" * 60)
    config.write_text("Include big\n" * 3)
    with pytest.raises(
        ConfigError, match="includes 4 files of 1296 characters; expected at most 100 files and 1 KiB"
    ):
        ssh_config.read_config((config,))
