"""Odd ways in: csh logins, noisy profiles and banners, sudo with a password or a terminal; and secrets kept secret."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import fault_nodes
import pytest
from fault_nodes import Wanted
from sshd_farm import wait_for_listeners

from clusterctl.apply import bootstrap
from clusterctl.apply.journal import Options
from clusterctl.apply.undo import Undo
from clusterctl.cli.bootstrap import command as bootstrap_verb
from clusterctl.inventory import load
from clusterctl.requirements.steps import Command, WriteBlock, WriteFile
from clusterctl.rundir import RunDir

PASSWORD = "canary of sudo 7f3a"
TOKEN = "canary-of-a-token-91bc"
NOISE = 'echo "Welcome to node!"; echo "*** maintenance on Monday ***"'


@pytest.fixture
def login(sshd_farm, system_user, tmp_path, monkeypatch):
    """A function ``login(shell=, sudoers=, password=) -> (node, engine maker, inventory)`` for an account."""

    def make(shell="/bin/sh", rule="(ALL) NOPASSWD: ALL", defaults="", password=None):
        user = system_user(password=password, sudo=rule, shell=shell)
        if defaults:
            with (Path("/etc/sudoers.d") / user.name).open("a") as sudoers:
                sudoers.write(f"Defaults:{user.name} {defaults}\n")
        banner = tmp_path / "banner"
        banner.write_text("This system is watched.\n" * 20)
        farm = sshd_farm(1, user=user.name, sshd_config=f"Banner {banner}\nPrintMotd yes")
        for name, value in farm.env.items():
            monkeypatch.setenv(name, value)
        if password is not None:
            monkeypatch.setenv("CLUSTERCTL_SUDO_PASSWORD", password)
        (node,) = fault_nodes.enter(farm, tmp_path / "nodes")
        inventory = load.load(farm.inventory(tmp_path, env=f"{{HF_TOKEN: {TOKEN}}}"))
        return user, node, inventory

    return make


def _bootstrap(node, inventory, tmp_path, *steps, proof=True):
    last = (WriteFile("the proof", f"{node.root}/proof", "line\n"),) if proof else ()
    engine = fault_nodes.engine([node], Wanted((*steps, *last)), names=("proof",))
    run = RunDir.create("bootstrap", tmp_path / "runs")
    prepared = bootstrap.prepare(engine, inventory, Options(), run)
    result = bootstrap.apply(engine, prepared, run)
    return engine, run, bootstrap_verb.result_of(run, prepared, result).document()


def _undo(engine, inventory, run):
    work = Undo(engine.connect, 1, 60, "tester@here", run.id, False, engine.state_dir)
    return work.execute(inventory.nodes, {"node01": run.id})["node01"]


def _all_changed(document):
    assert document["nodes"][0]["error"] is None, document["nodes"][0]["error"]
    assert {s["status"] for s in document["nodes"][0]["steps"]} == {"changed"}, document
    assert document["nodes"][0]["verdicts"][0]["status"] == "met"


@pytest.mark.parametrize("shell", ["/bin/csh", "/bin/bash", "/bin/sh"])
def test_noise_of_any_login_shell_is_not_taken_for_an_answer(login, tmp_path, shell):
    if not Path(shell).exists():
        pytest.fail(f"{shell} is missing: run tests/prerequisites.sh")
    user, node, inventory = login(shell)
    # As on other nodes, where bash reads ~/.bashrc for each command, and complains of a locale that is not installed.
    odd_login = "SHLVL=0 LC_ALL=xx_YY.UTF-8 LANG=tr_TR.UTF-8 "
    node.node.command = tuple(word.replace("SHLVL=1 ", odd_login) for word in node.node.command)
    node.node.stop()
    node.node.start()
    wait_for_listeners([node.node])
    for name in (".cshrc", ".bashrc", ".profile"):
        (user.home / name).write_text(f"{NOISE}; touch ~/was-read\n")
        os.chown(user.home / name, user.home.stat().st_uid, user.home.stat().st_gid)
    odd = 'it\'s $HOME `id` !history \\ "quotes"\n'
    block = WriteBlock("a block", f"{node.root}/keys", "mesh", odd)
    engine, run, document = _bootstrap(node, inventory, tmp_path, block)
    _all_changed(document)
    assert (node.root / "keys").read_text() == f"# BEGIN clusterctl mesh\n{odd}# END clusterctl mesh\n"
    assert (user.home / "was-read").exists() is (shell != "/bin/sh")
    assert all(s.status.value == "changed" for s in _undo(engine, inventory, run).steps)
    assert node.snapshot() == {}


@pytest.mark.parametrize("defaults", ["", "use_pty", "lecture=always"])
def test_sudo_that_wants_a_password_gets_it_and_nobody_else_sees_it(login, tmp_path, defaults, caplog):
    caplog.set_level(logging.DEBUG)
    _, node, inventory = login("/bin/sh", "(ALL) ALL", defaults, PASSWORD)
    seen = node.root / "seen"
    look = Command(
        "look at every command line and at our environment",
        ("sh", "-c", f"cat /proc/[0-9]*/cmdline /proc/self/environ 2>/dev/null | tr '\\0' ' ' >{seen}"),
        ("rm", "-f", str(seen)),
    )
    engine, run, document = _bootstrap(node, inventory, tmp_path, look)
    _all_changed(document)
    written = [p for folder in (run.path, node.state) for p in folder.rglob("*") if p.is_file()]
    assert len(written) > 10
    for secret in (PASSWORD, TOKEN):
        assert secret not in seen.read_text(errors="replace")
        assert [p for p in written if secret.encode() in p.read_bytes()] == []
        assert secret not in caplog.text
        assert secret not in json.dumps(document)
    assert all((p.stat().st_mode & 0o077) == 0 for p in [run.path, *run.path.iterdir()])
    assert (node.state / "journal").stat().st_mode & 0o077 == 0
    assert all(s.status.value == "changed" for s in _undo(engine, inventory, run).steps)


def test_sudo_that_wants_a_terminal_is_named_and_nothing_is_changed(login, tmp_path):
    _, node, inventory = login("/bin/sh", "(ALL) NOPASSWD: ALL", "requiretty")
    engine = fault_nodes.engine([node], Wanted((WriteFile("x", f"{node.root}/proof", "line\n"),)), names=())
    run = RunDir.create("bootstrap", tmp_path / "runs")
    prepared = bootstrap.prepare(engine, inventory, Options(), run)
    failures = {**prepared.verdicts.failures}
    if not failures:
        result = bootstrap.apply(engine, prepared, run)
        failures = {n: o.failure for n, o in result.outcomes.items()}
    assert failures["node01"].kind.value == "sudo"
    assert "requiretty" in failures["node01"].message
    assert node.snapshot() == {}


def test_a_wrong_password_is_a_failure_that_says_so(login, tmp_path, monkeypatch):
    _, node, inventory = login("/bin/sh", "(ALL) ALL", "", PASSWORD)
    monkeypatch.setenv("CLUSTERCTL_SUDO_PASSWORD", "not this one")
    engine = fault_nodes.engine([node], Wanted(()), names=())
    run = RunDir.create("bootstrap", tmp_path / "runs")
    prepared = bootstrap.prepare(engine, inventory, Options(), run)
    assert "sudo refused the password" in prepared.verdicts.failures["node01"].message
