"""What the real ssh makes of the mesh's ssh_config: the mesh's account is served, and every other login left alone."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from clusterctl.requirements.fleet.ssh_mesh import texts as files

LOCAL = pwd.getpwuid(os.getuid()).pw_name
OTHER = "mesh-account"
NONE_OF_OURS = {
    "hostname": "gpu2",
    "port": "22",
    "identitiesonly": "no",
    "stricthostkeychecking": "ask",
}


def _entry(name: str, account: str, port: int) -> tuple[str, files.MeshEntry]:
    config = f"  HostName 10.0.0.{port}\n  Port {port}\n  User {account}\n  HostKeyAlias {name}"
    return f"{name},10.0.0.{port}", files.MeshEntry(name, f"ssh-ed25519 A clusterctl-mesh:{name}", "", config)


def _ask(folder: Path, account: str, *words: str, user: str = LOCAL, before: str = "") -> dict[str, str]:
    """Return what ``ssh -G`` says for a mesh whose nodes know the local account by a name."""
    # More nodes than one line holds, of which one goes by another account.
    names = [_entry(f"gpu{number}", account, number) for number in range(1, 40)]
    names.append(_entry("odd", f"odd-{OTHER}", 99))
    config = folder / "ssh_config"
    config.write_text(before + files.texts(user, "mesh", names).config)
    done = subprocess.run(
        ("ssh", "-F", str(config), "-G", *words), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def _is_of_the_mesh(said: dict[str, str], name: str, number: int, account: str) -> None:
    wanted = {
        "user": account,
        "hostname": f"10.0.0.{number}",
        "port": str(number),
        "hostkeyalias": name,
        "identitiesonly": "yes",
        "preferredauthentications": "publickey",
        "stricthostkeychecking": "true",
        "globalknownhostsfile": "/dev/null",
        "userknownhostsfile": "/etc/clusterctl/ssh/mesh.known_hosts",
    }
    assert {key: said.get(key) for key in wanted} == wanted
    # Some releases show %u, others the name that stands for it.
    assert said["identityfile"] in ("/etc/clusterctl/ssh/mesh.%u", f"/etc/clusterctl/ssh/mesh.{LOCAL}")


def _is_left_alone(said: dict[str, str], account: str) -> None:
    assert {key: said.get(key) for key in NONE_OF_OURS} == NONE_OF_OURS
    assert said["user"] == account
    assert "preferredauthentications" not in said
    assert "hostkeyalias" not in said
    assert "clusterctl" not in " ".join(said.values())
    assert said["globalknownhostsfile"] != "/dev/null"


@pytest.mark.parametrize("account", [LOCAL, OTHER])
@pytest.mark.parametrize("words", [("gpu2",), ("10.0.0.2",)])
def test_without_a_user_the_mesh_is_used(tmp_path: Path, account: str, words: tuple[str, ...]) -> None:
    _is_of_the_mesh(_ask(tmp_path, account, *words), "gpu2", 2, account)


@pytest.mark.parametrize("account", [LOCAL, OTHER])
def test_so_it_is_where_the_meshs_account_is_named(tmp_path: Path, account: str) -> None:
    _is_of_the_mesh(_ask(tmp_path, account, f"{account}@gpu39"), "gpu39", 39, account)
    _is_of_the_mesh(_ask(tmp_path, account, "-l", account, "gpu17"), "gpu17", 17, account)


@pytest.mark.parametrize("account", [LOCAL, OTHER])
def test_a_node_with_another_account_gets_that_one(tmp_path: Path, account: str) -> None:
    _is_of_the_mesh(_ask(tmp_path, account, "odd"), "odd", 99, f"odd-{OTHER}")


@pytest.mark.parametrize("account", [LOCAL, OTHER])
@pytest.mark.parametrize("words", [("admin@gpu2",), ("-l", "admin", "gpu2"), ("-o", "User=admin", "gpu2")])
def test_another_account_on_a_node_is_left_alone(
    tmp_path: Path, account: str, words: tuple[str, ...]
) -> None:
    _is_left_alone(_ask(tmp_path, account, *words), "admin")


def test_so_is_the_local_name_where_the_mesh_uses_another(tmp_path: Path) -> None:
    _is_left_alone(_ask(tmp_path, OTHER, f"{LOCAL}@gpu2"), LOCAL)


def test_so_is_an_account_that_the_users_own_config_names(tmp_path: Path) -> None:
    _is_left_alone(_ask(tmp_path, LOCAL, "gpu2", before="Host gpu2\n  User admin\n"), "admin")


def test_so_is_another_local_account(tmp_path: Path) -> None:
    _is_left_alone(_ask(tmp_path, OTHER, "gpu2", user="somebody-else"), LOCAL)
