"""known_hosts: what OpenSSH trusts is trusted, what it refuses is refused. Keys and hashes are ssh-keygen's own."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys

import pytest

from clusterctl.errors import ControllerFileError
from clusterctl.text.openssh import known_hosts
from clusterctl.text.openssh.known_hosts import KnownHosts, Verdict, fingerprint, hashed_name, host_name
from clusterctl.transport.base import FailureKind, TransportError
from clusterctl.transport.ssh.host_keys import HostKeyPolicy, Remedies, ShownKey, forget


@pytest.fixture(scope="module", autouse=True)
def _ssh_keygen(tier_unavailable):
    if shutil.which("ssh-keygen") is None:
        tier_unavailable("ssh-keygen is not installed")


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    made = {}
    for name, kind in (("a", "ed25519"), ("b", "ed25519"), ("e", "ecdsa")):
        subprocess.run(
            ("ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(folder / name)), check=True, timeout=60
        )
        made[name] = tuple((folder / f"{name}.pub").read_text().split()[:2])
    made["folder"] = folder
    return made


def known(text):
    hosts = KnownHosts()
    hosts.add_text(text, "kh")
    return hosts


def verdict(text, host, port, key):
    return known(text).judge(host, port, *key).verdict


def test_plain_ports_lists_case_and_patterns(keys):
    a, b = keys["a"], keys["b"]
    line = " ".join(a)
    assert verdict(f"gpu01,10.0.0.1 {line}\n", "10.0.0.1", 22, a) is Verdict.KNOWN
    assert verdict(f"GPU01 {line}\n", "gpu01", 22, a) is Verdict.KNOWN
    assert verdict(f"[gpu01]:2222 {line}\n", "gpu01", 2222, a) is Verdict.KNOWN
    assert verdict(f"[gpu01]:2222 {line}\n", "gpu01", 22, a) is Verdict.UNKNOWN
    assert verdict(f"[gpu01]:2222 {line}\n", "gpu01", 2222, b) is Verdict.CHANGED
    assert verdict(f"gpu* {line}\n", "gpu07", 22, a) is Verdict.KNOWN
    assert verdict(f"gpu?,!gpu7 {line}\n", "gpu7", 22, a) is Verdict.UNKNOWN
    assert verdict(f"[*.lab]:2222 {line}\n", "x.lab", 2222, a) is Verdict.KNOWN
    assert verdict(f"g[pu01 {line}\n", "gpu01", 22, a) is Verdict.UNKNOWN


def test_another_port_is_trusted_only_when_the_bare_name_has_this_very_key(keys):
    line = f"gpu01 {' '.join(keys['a'])}\n"
    assert verdict(line, "gpu01", 2222, keys["a"]) is Verdict.KNOWN
    assert verdict(line, "gpu01", 2222, keys["b"]) is Verdict.UNKNOWN


def test_another_type_of_key_than_those_recorded_is_a_change(keys):
    judgement = known(f"gpu01 {' '.join(keys['e'])}\n").judge("gpu01", 22, *keys["a"])
    assert judgement.verdict is Verdict.CHANGED
    assert known(f"gpu01 {' '.join(keys['e'])}\n").key_types("gpu01") == (keys["e"][0],)


def test_revoked_keys_and_authorities(keys):
    a, b = keys["a"], keys["b"]
    text = f"# c\n@revoked * {' '.join(a)}\ngpu01 {' '.join(a)}\n"
    judgement = known(text).judge("gpu01", 22, *a)
    assert judgement.verdict is Verdict.REVOKED and judgement.entry.line == 2
    assert verdict(text, "gpu02", 2222, a) is Verdict.REVOKED
    authority = f"@cert-authority *.lab {' '.join(a)}\n"
    assert verdict(authority, "x.lab", 22, b) is Verdict.UNKNOWN
    assert verdict(authority, "x.lab", 22, a) is Verdict.UNKNOWN, "an authority's key is no host's key"
    assert known(authority).key_types("x.lab") == ()


def test_lines_that_are_no_entries_do_no_harm(keys):
    text = "\n#x\nonlyhost\nhost type\n@strange h t k\n|1|notbase64|x ssh-rsa AAAA\n|2|a|b t k\n"
    text += f"ok {' '.join(keys['a'])}"
    assert verdict(text, "ok", 22, keys["a"]) is Verdict.KNOWN


def test_hashed_names_are_those_of_ssh_keygen(keys, tmp_path):
    file = tmp_path / "kh"
    file.write_text(f"gpu01 {' '.join(keys['a'])}\n[gpu02]:2222 {' '.join(keys['b'])}\n")
    subprocess.run(("ssh-keygen", "-q", "-H", "-f", str(file)), check=True, timeout=20, capture_output=True)
    assert "gpu" not in file.read_text()
    hosts = KnownHosts((str(file),))
    assert hosts.judge("gpu01", 22, *keys["a"]).verdict is Verdict.KNOWN
    assert hosts.judge("gpu02", 2222, *keys["a"]).verdict is Verdict.CHANGED
    assert hosts.judge("gpu03", 22, *keys["a"]).verdict is Verdict.UNKNOWN
    # And the other way round: ssh-keygen finds what we hash.
    file.write_text(f"{hashed_name(host_name('gpu09', 2222))} {' '.join(keys['a'])}\n")
    found = subprocess.run(
        ("ssh-keygen", "-F", "[gpu09]:2222", "-f", str(file)), capture_output=True, timeout=20, check=False
    )
    assert found.returncode == 0 and keys["a"][1].encode() in found.stdout


def test_fingerprints_are_those_of_ssh_keygen(keys):
    listed = subprocess.run(
        ("ssh-keygen", "-lf", str(keys["folder"] / "a.pub")),
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert fingerprint(keys["a"][1]) in listed.stdout.split()
    assert fingerprint("!!!!") == "(not base64)"


def shown(key, file, **options):
    return ShownKey("gpu01 (root@gpu01:2222)", "gpu01", 2222, *key, files=(str(file),), **options)


def test_an_unknown_key_is_refused_with_the_command_that_accepts_it(keys, tmp_path):
    file = tmp_path / "kh"
    remedies = Remedies(accept="clusterctl check 'my inventory.yaml' --accept-new-host-keys")
    with pytest.raises(TransportError) as raised:
        HostKeyPolicy(remedies=remedies).verify(shown(keys["a"], file))
    failure = raised.value.failure
    assert failure.kind is FailureKind.HOST_KEY_UNKNOWN
    assert fingerprint(keys["a"][1]) in failure.message and str(file) in failure.message
    assert "`clusterctl check 'my inventory.yaml' --accept-new-host-keys`" in failure.hint
    assert not file.exists(), "nothing is recorded in silence"


def test_a_changed_key_names_file_and_line_and_is_never_recorded(keys, tmp_path):
    file = tmp_path / "kh"
    text = f"# nodes\n[gpu01]:2222 {' '.join(keys['b'])}\n"
    file.write_text(text)
    with pytest.raises(TransportError) as raised:
        HostKeyPolicy(accept_new=True).verify(shown(keys["a"], file))
    assert raised.value.failure.kind is FailureKind.HOST_KEY_CHANGED
    assert f"{file}:2" in raised.value.failure.message
    # No inventory names a jump host.
    assert "ssh-keygen -f" in raised.value.failure.hint
    with pytest.raises(TransportError) as raised:
        HostKeyPolicy().verify(shown(keys["a"], file, node="gpu01"))
    assert "`clusterctl inventory forget-host-keys --limit 'gpu01'`" in raised.value.failure.hint
    assert file.read_text() == text


def test_several_keys_are_recorded_in_one_go_and_each_once(keys, tmp_path):
    file = tmp_path / "kh"
    file.write_text(f"gpu02 {' '.join(keys['b'])}\n")

    def of(host, key):
        return ShownKey(host, host, 22, *keys[key], files=(str(file),))

    new = [of("gpu01", "a"), of("gpu02", "a"), of("gpu03", "e"), of("gpu01", "a"), of("gpu03", "b")]
    policy = HostKeyPolicy()
    assert policy.record(new) == [new[0], new[2]]
    assert file.read_text().splitlines()[1:] == [
        f"gpu01 {' '.join(keys['a'])}",
        f"gpu03 {' '.join(keys['e'])}",
    ]
    policy.verify(new[0])
    for changed in (new[1], new[4]):
        with pytest.raises(TransportError, match="is not the one recorded at"):
            policy.verify(changed)


LINES = (
    b"# the nodes\n",
    b"gpu01,10.0.0.1 KEY\n",
    b"gpu02 KEY comment \xff\r\n",
    b"@revoked gpu01 KEY\n",
    b"gpu* KEY\n",
    b"\n",
    b"GPU01 KEY\n",
    b"[gpu01]:2222 KEY\n",
    b"gpu03 KEY",
)


def test_forgetting_removes_the_keys_of_servers_and_no_other_byte(keys, tmp_path):
    key = " ".join(keys["a"]).encode()
    lines = [line.replace(b"KEY", key) for line in LINES]
    file = tmp_path / "kh"
    file.write_bytes(b"".join(lines))
    file.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(file)
    found = forget(link, ["gpu01", "gpu09"])
    assert (found.names, found.lines, found.patterns) == (("gpu01",), 2, (5,))
    assert file.read_bytes() == b"".join(line for at, line in enumerate(lines) if at not in (1, 6))
    assert link.is_symlink() and file.stat().st_mode & 0o777 == 0o640
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kh", "link"]
    assert forget(file, ["[gpu01]:2222", "gpu03"]).names == ("[gpu01]:2222", "gpu03")
    assert forget(file, ["gpu03"]).lines == 0 and forget(tmp_path / "none", ["gpu03"]).lines == 0
    assert not (tmp_path / "none").exists()


def test_forgetting_finds_hashed_names_and_keeps_the_others_working(keys, tmp_path):
    file = tmp_path / "kh"
    file.write_text("".join(f"gpu0{n} {' '.join(keys['a'])}\n" for n in (1, 2, 3)))
    subprocess.run(("ssh-keygen", "-q", "-H", "-f", str(file)), check=True, timeout=20, capture_output=True)
    before = file.read_bytes().splitlines(keepends=True)
    assert forget(file, ["gpu02"]).names == ("gpu02",)
    assert file.read_bytes().splitlines(keepends=True) == [before[0], before[2]]
    found = subprocess.run(
        ("ssh-keygen", "-F", "gpu03", "-f", str(file)), capture_output=True, timeout=20, check=False
    )
    assert found.returncode == 0


def test_a_file_that_cannot_be_replaced_stays_whole(keys, tmp_path, monkeypatch):
    file = tmp_path / "kh"
    text = f"gpu01 {' '.join(keys['a'])}\n"
    file.write_text(text)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        ControllerFileError, match=r"cannot write .*kh: No space left on device on this machine"
    ):
        forget(file, ["gpu01"])
    assert file.read_text() == text and [one.name for one in tmp_path.iterdir()] == ["kh"]


RECORDING = """
import sys
from clusterctl.transport.ssh.host_keys import HostKeyPolicy, ShownKey, forget
own, file, kind, key = sys.argv[1:]
for n in range(40):
    host = f"{own}-{n}"
    HostKeyPolicy().record([ShownKey(host, host, 22, kind, key, files=(file,))])
    if n % 2:
        forget(file, [host])
"""


def test_runs_at_the_same_time_lose_no_line(keys, tmp_path):
    file = tmp_path / "kh"
    runs = [
        subprocess.Popen((sys.executable, "-c", RECORDING, f"run{n}", str(file), *keys["a"]))
        for n in range(4)
    ]
    assert [run.wait(timeout=120) for run in runs] == [0] * 4
    names = sorted(line.split()[0] for line in file.read_text().splitlines())
    assert names == sorted(f"run{run}-{n}" for run in range(4) for n in range(0, 40, 2))


@pytest.mark.parametrize("hash_name", [False, True])
def test_accepting_appends_one_line_and_says_so(keys, tmp_path, caplog, hash_name):
    file = tmp_path / "new" / "kh"
    policy = HostKeyPolicy(accept_new=True)
    logging.getLogger("clusterctl").propagate = True
    with caplog.at_level("WARNING"):
        policy.verify(shown(keys["a"], file, hash_name=hash_name))
    assert fingerprint(keys["a"][1]) in caplog.text and str(file) in caplog.text
    policy.verify(shown(keys["a"], file, hash_name=hash_name))
    lines = file.read_text().splitlines()
    assert len(lines) == 1 and lines[0].endswith(" ".join(keys["a"]))
    assert lines[0].startswith("|1|" if hash_name else "[gpu01]:2222 ")
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    HostKeyPolicy().verify(shown(keys["a"], file))
    with pytest.raises(TransportError):
        HostKeyPolicy(accept_new=True).verify(shown(keys["b"], file))


def test_accepting_mends_a_missing_last_newline_and_sees_what_others_recorded(keys, tmp_path):
    file = tmp_path / "kh"
    file.write_text(f"other {' '.join(keys['b'])}")
    policy = HostKeyPolicy(accept_new=True)
    assert policy.known((str(file),)).entries("other")
    # Meanwhile another run records the same server with another key: that is a change, not news.
    with file.open("a") as other_run:
        other_run.write(f"\n[gpu01]:2222 {' '.join(keys['b'])}")
    with pytest.raises(TransportError) as raised:
        policy.verify(shown(keys["a"], file))
    assert raised.value.failure.kind is FailureKind.HOST_KEY_CHANGED
    policy.verify(ShownKey("n", "gpu05", 22, *keys["a"], files=(str(file),)))
    assert file.read_text().splitlines()[2] == f"gpu05 {' '.join(keys['a'])}"


def test_a_file_that_cannot_be_written_is_an_error_of_this_machine(keys, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ControllerFileError, match=r"cannot write .*kh: .* on this machine"):
        HostKeyPolicy(accept_new=True).verify(shown(keys["a"], tmp_path / "file" / "kh"))


def test_hashed_lines_are_digested_once_for_a_name(monkeypatch):
    known = known_hosts.KnownHosts()
    known.add_text(
        "".join(f"{known_hosts.hashed_name(f'n{i}')} ssh-ed25519 AAAA{i}\n" for i in range(20)), "f"
    )
    digests = []
    original = known_hosts.hmac.digest
    monkeypatch.setattr(known_hosts.hmac, "digest", lambda *a: (digests.append(1), original(*a))[1])
    for _ in range(3):
        assert known.key_types("n7") == ("ssh-ed25519",)
    assert len(digests) == 20
    known.add_text("n7 ssh-rsa BBBB\n", "g")
    assert set(known.key_types("n7")) == {"ssh-ed25519", "ssh-rsa"}


def test_where_no_key_is_ever_kept_the_way_out_is_another_file(keys):
    with pytest.raises(TransportError) as raised:
        HostKeyPolicy().verify(shown(keys["a"], "/dev/null"))
    failure = raised.value.failure
    assert "known_hosts, or UserKnownHostsFile of ssh_config, is /dev/null" in failure.message
    assert "known_hosts in the inventory" in failure.hint and "ssh-keyscan" not in failure.hint


def test_a_key_that_ssh_config_revokes_is_refused_though_it_is_known(keys, tmp_path):
    known, revoked = tmp_path / "kh", tmp_path / "revoked"
    known.write_text(f"[gpu01]:2222 {' '.join(keys['a'])}\n")
    revoked.write_text(f"# stolen\n{' '.join(keys['b'])} b@lab\n")
    HostKeyPolicy().verify(shown(keys["a"], known, revoked_in=str(revoked)))
    revoked.write_text(f"# stolen\n{' '.join(keys['a'])} a@lab\n")
    with pytest.raises(TransportError, match="is marked as revoked at"):
        HostKeyPolicy().verify(shown(keys["a"], known, revoked_in=str(revoked)))
    revoked.write_bytes(b"SSHKRL\n\0rest")
    for place in (revoked, tmp_path / "none"):
        with pytest.raises(
            TransportError, match=r"\(RevokedHostKeys in ssh_config\) (is a binary KRL|cannot be read)"
        ):
            HostKeyPolicy().verify(shown(keys["a"], known, revoked_in=str(place)))
