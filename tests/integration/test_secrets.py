"""Secrets stay where they were put: not in any argv, output, log, run file or node's journal of real runs.

Canaries stand for the sudo password, for variables whose names or values are secrets, and for a registry's login;
they are looked for in the command lines of all processes while the commands run, and in everything left after.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from canaries import Watch, everything_below

CANARIES = {
    "sudo": "canarySudoPassw0rd",
    "token": "canaryHfToken",
    "key": "canaryApiKey",
    "proxy": "canaryProxyLogin",
}
VISIBLE = "not-a-secret-4711"


@pytest.fixture
def inventory(sshd_farm, system_user, tmp_path):
    """A node whose account needs a sudo password, and an inventory full of secrets."""
    user = system_user(password=CANARIES["sudo"], sudo="(ALL) ALL")
    farm = sshd_farm(2, user=user.name)
    path = farm.inventory(tmp_path)
    document = yaml.safe_load(path.read_text())
    document.setdefault("defaults", {}).update(
        gpus=2,
        env={
            "HF_TOKEN": CANARIES["token"],
            "https_proxy": f"http://me:{CANARIES['proxy']}@proxy:3128",
            "PLAIN": VISIBLE,
        },
        container={"image": "img:1", "env": {"REGISTRY_API_KEY": CANARIES["key"], "PLAIN": VISIBLE}},
    )
    path.write_text(yaml.safe_dump(document))
    return farm, path


def test_no_secret_is_shown_recorded_or_logged(inventory, run_clusterctl, tmp_path):
    farm, path = inventory
    env = {**farm.env, "CLUSTERCTL_SUDO_PASSWORD": CANARIES["sudo"]}
    said = ""
    with Watch(CANARIES) as watch:
        for arguments in (
            ("-vv", "check", str(path)),
            ("check", str(path), "--json"),
            ("-vv", "bootstrap", str(path), "--dry-run"),
            ("bootstrap", str(path), "--dry-run", "--json"),
            ("render", "docker-run", "-i", str(path)),
            ("render", "docker-run", "-i", str(path), "--json"),
            ("render", "mpirun", "-i", str(path), "--", "true"),
            ("render", "mpirun", "-i", str(path), "--json", "--", "true"),
            ("-vv", "undo", str(path), "--dry-run"),
        ):
            done = run_clusterctl(*arguments, env=env)
            assert "Traceback" not in done.stderr, done.stderr
            said += done.stdout + done.stderr
    assert watch.seen, "the watch saw no process of ours"
    assert not watch.found
    assert VISIBLE in said
    files = everything_below(tmp_path / "runs") | {node.name: node.log_text() for node in farm.nodes}
    assert any(VISIBLE in text for text in files.values())
    for name, canary in CANARIES.items():
        assert canary not in said, name
        assert not [file for file, text in files.items() if canary in text], name
    for folder in (tmp_path / "runs").iterdir():
        assert folder.stat().st_mode & 0o777 == 0o700, folder
        assert all(p.stat().st_mode & 0o077 == 0 for p in folder.rglob("*") if p.is_file()), folder


def test_the_agent_is_never_forwarded(sshd_farm, run_clusterctl, tmp_path):
    """A node must not be able to use the operator's keys: no session asks for the agent, whatever ssh_config says."""
    farm = sshd_farm(1, sshd_config="AllowAgentForwarding yes\n")
    config = tmp_path / "config"
    given = Path(farm.env["CLUSTERCTL_SSH_CONFIG"]).read_text() if "CLUSTERCTL_SSH_CONFIG" in farm.env else ""
    config.write_text(f"Host *\n  ForwardAgent yes\n{given}")
    env = {**farm.env, "CLUSTERCTL_SSH_CONFIG": str(config), "SSH_AUTH_SOCK": str(tmp_path / "agent")}
    done = run_clusterctl("check", str(farm.inventory(tmp_path)), "--json", env=env)
    assert '"reachable": true' in done.stdout, done.stderr
    log = farm.nodes[0].log_text()
    assert "auth-agent" not in log
    rendered = run_clusterctl("render", "ssh-config", "-i", str(farm.inventory(tmp_path)), env=farm.env)
    assert "Host node" in rendered.stdout or "Host " in rendered.stdout
    assert "ForwardAgent" not in rendered.stdout
