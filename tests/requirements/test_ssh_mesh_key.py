"""The script that makes a mesh key: whole or not at all, repaired after a crash, removed without a trace."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterctl import resources

SCRIPT = resources.text("templates", "apply", "ssh-mesh-key.sh")
ME = pwd.getpwuid(os.geteuid()).pw_name

Run = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=["dash", "bash", "busybox"])
def run(request: pytest.FixtureRequest, tmp_path: Path, tier_unavailable: Callable[[str], None]) -> Run:
    """Run one of the script's actions under a shell that nodes have, for a key below the test's directory."""
    for program in (request.param, "ssh-keygen"):
        if shutil.which(program) is None:
            tier_unavailable(f"{program} is not installed")
    shell = ("busybox", "sh") if request.param == "busybox" else (request.param,)

    def act(action: str) -> subprocess.CompletedProcess[str]:
        words = ("ssh-mesh-key", action, str(tmp_path / "etc" / "ssh" / "mesh.me"), ME, "clusterctl-mesh:n1")
        return subprocess.run(
            (*shell, "-c", SCRIPT, *words),
            capture_output=True,
            text=True,
            timeout=30,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    return act


def test_a_key_is_made_once_and_is_its_users_alone(run: Run, tmp_path: Path) -> None:
    assert run("check").returncode != 0
    made = run("make")
    assert made.returncode == 0, made.stderr
    assert run("check").returncode == 0
    key = tmp_path / "etc" / "ssh" / "mesh.me"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.with_name("mesh.me.pub").read_text().endswith(" clusterctl-mesh:n1\n")
    assert {path.name for path in key.parent.iterdir()} == {"mesh.me", "mesh.me.pub"}


def test_a_node_in_fips_mode_gets_an_ecdsa_key(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSH of RHEL refuses Ed25519 there; only that refusal is a stand-in."""
    real = shutil.which("ssh-keygen")
    refuse = (
        'case " $* " in *" ed25519 "*) echo "ED25519 keys are not allowed in FIPS mode" >&2; exit 1 ;; esac'
    )
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / "ssh-keygen"
    stand_in.write_text(f'#!/bin/sh\n{refuse}\nexec {real} "$@"\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
    assert run("make").returncode == 0
    assert run("check").returncode == 0
    public = (tmp_path / "etc" / "ssh" / "mesh.me.pub").read_text()
    assert public.startswith("ecdsa-sha2-nistp256 ") and public.endswith(" clusterctl-mesh:n1\n")
    assert run("remove").returncode == 0


@pytest.mark.parametrize("damage", ["no-public", "no-private", "cut", "other", "open"])
def test_half_a_key_is_no_key_and_is_made_anew(run: Run, tmp_path: Path, damage: str) -> None:
    run("make")
    key = tmp_path / "etc" / "ssh" / "mesh.me"
    public = key.with_name("mesh.me.pub")
    if damage == "no-public":
        public.unlink()
    elif damage == "no-private":
        key.unlink()
    elif damage == "cut":
        key.write_bytes(key.read_bytes()[:100])
    elif damage == "other":
        public.write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMesh1 clusterctl-mesh:n1\n")
    else:
        key.chmod(0o644)
    assert run("check").returncode != 0
    # What a crash in the middle of making one leaves as well.
    key.with_name("mesh.me.new").write_text("half")
    assert run("make").returncode == 0
    assert run("check").returncode == 0


def test_undo_removes_it_and_the_folders_that_are_empty_then(run: Run, tmp_path: Path) -> None:
    run("make")
    assert run("remove").returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert run("remove").returncode == 0
    run("make")
    other = tmp_path / "etc" / "ssh" / "another"
    other.write_text("not ours")
    assert run("remove").returncode == 0
    assert other.read_text() == "not ours"


def test_undo_leaves_a_key_that_another_hand_has_put_there(run: Run, tmp_path: Path) -> None:
    run("make")
    key = tmp_path / "etc" / "ssh" / "mesh.me"
    for path in (key, key.with_name("mesh.me.pub")):
        path.unlink()
    generate = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "admin@here", "-f", str(key))
    subprocess.run(generate, check=True, timeout=30)
    before = key.read_bytes()
    undone = run("remove")
    assert undone.returncode == 1
    assert "its comment is 'admin@here', not 'clusterctl-mesh:n1'" in undone.stderr
    assert key.read_bytes() == before
    for path in (key, key.with_name("mesh.me.pub")):
        path.unlink()
    assert run("remove").returncode == 0
    assert list(tmp_path.iterdir()) == []


OTHERS = (
    *(
        "admin@here",
        "",
        "clusterctl-mesh:n2",
        "clusterctl-mesh:n1x",
        "xclusterctl-mesh:n1",
        "CLUSTERCTL-MESH:N1",
        "*",
    ),
    *(
        "clusterctl-mesh:n1 of mine",
        "mine clusterctl-mesh:n1",
        "$(touch F)",
        "`touch F`",
        "'",
        '"',
        "\\",
        "-n",
        "[a]",
    ),
    "clusterctl-mesh:n1\\",
)


@pytest.mark.parametrize("end", ["\n", "", "\r\n", "\nssh-ed25519 AAAA clusterctl-mesh:n1\n"], ids=ascii)
def test_no_form_of_a_foreign_public_key_lets_it_be_removed(run: Run, tmp_path: Path, end: str) -> None:
    key = tmp_path / "etc" / "ssh" / "mesh.me"
    key.parent.mkdir(parents=True)
    key.write_text("private")
    for comment in OTHERS:
        key.with_name("mesh.me.pub").write_text(f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMesh1 {comment}{end}")
        undone = run("remove")
        assert undone.returncode == 1 and "was replaced: its comment is '" in undone.stderr, comment
        assert key.read_text() == "private" and not (tmp_path / "F").exists()


@pytest.mark.parametrize(
    ("passphrase", "mode", "reason"),
    [
        ("", 0o600, "it does not belong to {}.pub"),
        ("", 0o644, "it does not belong to {}.pub"),
        ("hunter22", 0o600, "it has a passphrase"),
        ("hunter22", 0o644, "it has a passphrase"),
    ],
)
def test_undo_leaves_a_private_key_that_another_hand_has_put_beside_the_public_one(
    run: Run, tmp_path: Path, passphrase: str, mode: int, reason: str
) -> None:
    run("make")
    key = tmp_path / "etc" / "ssh" / "mesh.me"
    other = tmp_path / "other"
    made = ("ssh-keygen", "-q", "-t", "ed25519", "-a", "1", "-N", passphrase, "-f", str(other))
    subprocess.run(made, check=True, timeout=30)
    shutil.copyfile(other, key)
    key.chmod(mode)
    undone = run("remove")
    assert undone.returncode == 1 and reason.format(key) in undone.stderr
    assert key.read_bytes() == other.read_bytes()
    assert {path.name for path in key.parent.iterdir()} == {"mesh.me", "mesh.me.pub"}


@pytest.mark.parametrize("left", ["", "cut"])
def test_undo_removes_what_a_crash_left_of_its_own_key(run: Run, tmp_path: Path, left: str) -> None:
    run("make")
    key = tmp_path / "etc" / "ssh" / "mesh.me"
    key.write_text(left)
    assert run("remove").returncode == 0
    assert list(tmp_path.iterdir()) == []
