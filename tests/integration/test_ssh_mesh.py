"""Logins from node to node on real sshds: they work with pinned keys and least rights, and undo leaves no trace.

One journey over three nodes of namespaces, told once: bootstrap, what the keys can and cannot do, a node that leaves
the inventory, undo.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import mesh_nodes
import pytest
import sshd_farm as farms

PAIRS = list(itertools.permutations(("gpu01", "gpu02", "gpu03"), 2))
WHO = "ip -o -4 addr show dev eth0"


def _inventory(mesh, path, names):
    lines = ["version: 1", "defaults:", f"  user: {mesh.user.name}", f"  identity_file: {mesh.identity_file}"]
    lines += ["  requirements: {ssh_mesh: {require: true}}", "nodes:"]
    for node in mesh.nodes:
        if node.name in names:
            lines.append(f"  - {{name: {node.name}, address: {node.address}, port: {node.port}}}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


class Journey:
    """What was done and seen, step by step."""

    def __init__(self, mesh, folder):
        self.mesh, self.folder = mesh, folder
        self.by_name = {node.name: node for node in mesh.nodes}
        self.all = _inventory(mesh, folder / "all.yaml", list(self.by_name))
        self.two = _inventory(mesh, folder / "two.yaml", ["gpu01", "gpu02"])

    def clusterctl(self, *arguments):
        done = self.command(*arguments, "--json")
        return done.returncode, json.loads(done.stdout), done.stderr

    def command(self, *arguments):
        done = subprocess.run(
            (str(Path(sys.executable).with_name("clusterctl")), *arguments),
            capture_output=True, text=True, timeout=180, check=False,
            env={**os.environ, **self.mesh.env, "CLUSTERCTL_RUNS": str(self.folder / "runs")},
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done

    def bootstrap(self, inventory, *options):
        return self.clusterctl("bootstrap", inventory, "--only", "ssh-mesh", "--yes", *options)

    def undo(self, inventory):
        return self.clusterctl("undo", inventory, "--yes")

    def ssh(self, source, *words):
        return self.by_name[source].run(
            "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *words, user=self.mesh.user.name
        )

    def key_of(self, name):
        return self.by_name[name].folder / "etc-clusterctl" / "ssh" / f"mesh.{self.mesh.user.name}"

    def files(self):
        return {name: node.files() for name, node in self.by_name.items()}


@pytest.fixture(scope="module")
def journey(tier_unavailable, tmp_path_factory):
    """The nodes before and after bootstrap, what the keys did, and the nodes after undo."""
    reason = mesh_nodes.missing()
    if reason:
        tier_unavailable(reason)
    with farms.temporary_user(sudo="(ALL) NOPASSWD: ALL", shell="/bin/bash") as user:
        mesh = mesh_nodes.start_mesh(user, (22, 22, 2222))
        try:
            yield _travel(Journey(mesh, tmp_path_factory.mktemp("mesh")))
        finally:
            mesh.stop()


def _travel(told):
    by_name = told.by_name
    told.before = told.files()
    told.text = told.command("bootstrap", told.all, "--only", "ssh-mesh", "--yes").stdout
    [report] = told.folder.glob("runs/*/report.json")
    told.first = json.loads(report.read_text())
    told.meshed = told.files()
    told.keys = {name: told.key_of(name).read_text() for name in by_name}
    told.logins = {(a, b): told.ssh(a, b, WHO) for a, b in PAIRS}
    told.by_address = told.ssh("gpu01", by_name["gpu03"].address, WHO)
    told.forwarded = told.ssh("gpu01", "-W", f"{by_name['gpu03'].address}:2222", "gpu02")
    told.terminal = told.ssh("gpu01", "-tt", "gpu02", "tty")
    told.another_account = told.ssh("gpu01", "-G", "admin@gpu02")
    told.wrong_host = told.ssh("gpu01", "-o", "HostKeyAlias=gpu03", "gpu02", "true")
    told.stolen_here = _try_key(told, told.key_of("gpu01"), "gpu02")
    told.stolen_there = _lend(told, "gpu01", "gpu03", "gpu02")
    told.again = told.bootstrap(told.all)
    told.limited = told.bootstrap(told.all, "--limit", "gpu01")
    told.left = told.bootstrap(told.two)
    told.after_leaving = {(a, b): told.ssh(a, b, "true") for a, b in PAIRS}
    told.undo_leaving = told.undo(told.two)
    told.back = told.ssh("gpu03", "gpu01", "true")
    told.undone = told.undo(told.all)
    told.after = told.files()
    return told


def _try_key(told, key, name):
    """Use a key from this machine's own address, which is not a node's."""
    node = told.by_name[name]
    return subprocess.run(
        (
            "ssh", "-F", "none", "-i", str(key), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
            "-o", f"UserKnownHostsFile={told.mesh.directory / 'known_hosts'}", "-o", "StrictHostKeyChecking=yes",
            "-p", str(node.port), f"{told.mesh.user.name}@{node.address}", "true",
        ),
        capture_output=True, text=True, timeout=30, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def _lend(told, owner, thief, victim):
    """Use one node's key on another node."""
    stolen = told.by_name[thief].folder / "home" / "stolen"
    stolen.write_bytes(told.key_of(owner).read_bytes())
    stolen.chmod(0o600)
    user = told.mesh.user
    os.chown(stolen, stolen.parent.stat().st_uid, stolen.parent.stat().st_gid)
    try:
        return told.ssh(thief, "-F", "none", "-i", f"{user.home}/stolen", "-o", "IdentitiesOnly=yes",
                        "-o", "UserKnownHostsFile=/etc/clusterctl/ssh/mesh.known_hosts", "-o", f"HostKeyAlias={victim}",
                        told.by_name[victim].address, "true")  # fmt: skip
    finally:
        stolen.unlink()


def test_bootstrap_makes_keys_first_and_lets_them_in_next(journey):
    document = journey.first
    # Per node a key in the first round, and in the second host keys, ssh_config and authorized_keys.
    assert document["summary"] == {"changed": 12, "failed": 0, "not_done": 0, "planned": 0, "unreachable": 0}
    for node in document["nodes"]:
        assert [step.get("round", 1) for step in node["steps"]] == [1, 2, 2, 2]
        assert [verdict["reason"] for verdict in node["verdicts"]] == ["3 nodes can log in to each other"]


def test_each_round_is_shown_before_it_is_applied_and_all_changes_at_the_end(journey):
    first, _, rest = journey.text.partition("\nRound 2: ")
    later, _, applied = rest.partition("\nApplied in 2 rounds: ")
    assert "Plan: 3 changes on 3 nodes, 0 restarts, 0 reboots\n" in first
    assert later.startswith(
        "9 changes on 3 nodes, 0 restarts, 0 reboots\n\ngpu[01-03] (3 nodes):\n  + ssh-mesh  Pin "
    )
    assert "      + # BEGIN clusterctl ssh-mesh\n" in later
    assert applied.startswith(
        "12 changes on 3 nodes, 0 restarts, 0 reboots\n\ngpu[01-03] (3 nodes):\n  ~ ssh-mesh  Make "
    )
    assert [text.count(" ssh-mesh  ") for text in (first, later, applied)] == [1, 3, 4]
    assert "      +" not in applied


@pytest.mark.parametrize("pair", PAIRS, ids=" to ".join)
def test_every_node_logs_in_to_every_other_without_a_question(journey, pair):
    done = journey.logins[pair]
    assert done.returncode == 0, done.stderr
    assert f" {journey.by_name[pair[1]].address}/24 " in done.stdout
    assert done.stderr == ""


def test_an_address_works_as_well_as_a_name_and_the_port_is_found(journey):
    assert journey.by_address.returncode == 0, journey.by_address.stderr
    assert journey.by_name["gpu03"].address in journey.by_address.stdout


def test_every_node_has_a_key_of_its_own_that_never_left_it(journey):
    assert len(set(journey.keys.values())) == 3
    secrets = {line for key in journey.keys.values() for line in key.splitlines() if not line.startswith("-")}
    runs = list((journey.folder / "runs").rglob("*"))
    assert any(path.is_file() for path in runs)
    for path in runs:
        if path.is_file():
            text = path.read_text(errors="replace")
            # The middle of a key, that is: its first line is the format's own and the same in all of them.
            assert not any(line in text for line in secrets if not line.startswith("b3BlbnNzaC1rZXktdjE")), (
                path
            )


def test_a_key_opens_no_tunnel_and_no_terminal(journey):
    assert journey.forwarded.returncode != 0
    assert "prohibited" in journey.forwarded.stderr or "forwarding failed" in journey.forwarded.stderr
    assert journey.terminal.returncode != 0
    assert "PTY allocation request failed" in journey.terminal.stderr


def test_a_key_is_worth_nothing_elsewhere_nor_on_another_node(journey):
    for done in (journey.stolen_here, journey.stolen_there):
        assert done.returncode == 255
        assert "Permission denied" in done.stderr


def test_another_account_on_a_node_is_asked_for_as_without_a_mesh(journey):
    said = journey.another_account.stdout.splitlines()
    assert {"user admin", "hostname gpu02", "identitiesonly no"} <= set(said)
    assert "clusterctl" not in journey.another_account.stdout


def test_a_host_that_shows_another_key_is_refused(journey):
    assert journey.wrong_host.returncode == 255
    assert "Host key verification failed" in journey.wrong_host.stderr


def test_nothing_is_done_twice_nor_by_looking_at_one_node_only(journey):
    for status, document, _ in (journey.again, journey.limited):
        assert status == 0
        assert document["summary"] == {
            "changed": 0,
            "failed": 0,
            "not_done": 0,
            "planned": 0,
            "unreachable": 0,
        }
    assert "not checked in this run" in json.dumps(journey.limited[1])


def test_a_node_that_left_the_inventory_is_locked_out(journey):
    assert journey.left[0] == 0
    for (source, target), done in journey.after_leaving.items():
        within = {source, target} <= {"gpu01", "gpu02"}
        if target != "gpu03":
            assert (done.returncode == 0) is within, (source, target, done.stderr)


def test_undo_of_the_leaving_lets_it_in_again(journey):
    assert journey.undo_leaving[0] == 0
    assert journey.back.returncode == 0, journey.back.stderr


def test_undo_leaves_every_byte_mode_and_owner_as_before(journey):
    assert journey.undone[0] == 0
    assert journey.meshed != journey.before
    # ssh itself leaves nothing behind: the pins are clusterctl's, and known_hosts in the home was not written.
    assert journey.after == journey.before
    assert re.search(rb"[^\n]\Z", journey.before["gpu01"]["home/.ssh/authorized_keys"][1])
