"""New host keys are shown and asked about once, before a login; changed ones are refused until they are forgotten."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import sshd_farm as farms
from terminal_session import TerminalSession

from clusterctl.inventory import load


def fingerprint(node):
    """Return type and fingerprint of a node's host key, as ssh-keygen prints them."""
    said = subprocess.run(
        ("ssh-keygen", "-lf", f"{node.host_key}.pub"), capture_output=True, text=True, check=True, timeout=60
    )
    return said.stdout.split()[1]


def entries(nodes):
    return [f"[{node.address}]:{node.port} {farms.public_key(node.host_key)}" for node in nodes]


@pytest.fixture
def fresh(sshd_farm, tmp_path):
    """Three nodes with keys of their own that no file has, and one that is known, in an inventory."""
    farm = sshd_farm(1, unknown=3, distinct_keys=True, prefix="gpu")
    farm.inventory(tmp_path)
    return farm


@pytest.fixture
def at_terminal(fresh, clusterctl, tmp_path):
    def start(*words, **options):
        return TerminalSession((str(clusterctl), *words), cwd=tmp_path, env=fresh.env, columns=100, **options)

    return start


def logins(farm):
    return sum(node.log_text().count("Accepted publickey") for node in farm.nodes)


@pytest.mark.parametrize(
    "words",
    [("check", "--only", "memlock"), ("run", "--", "true"), ("bootstrap", "--dry-run", "--only", "memlock")],
    ids=["check", "run", "bootstrap"],
)
def test_new_keys_are_shown_once_and_recorded_as_they_were_seen(fresh, at_terminal, words):
    before = fresh.known_hosts.read_text()
    with at_terminal(*words) as at:
        at.until(r"Record them\? \[y/N\]")
        assert f"3 new host keys, not in {fresh.known_hosts}:" in at.screen
        shown = re.findall(r"^  (gpu\d+)  ssh-ed25519  (\S+)$", at.screen, re.MULTILINE)
        assert shown == [(node.name, fingerprint(node)) for node in fresh.nodes[1:]]
        assert "Accepted" not in "".join(node.log_text() for node in fresh.nodes), "asked before any login"
        assert fresh.known_hosts.read_text() == before
        at.type("y\n")
        assert at.ended() in (0, 1)
        assert f"Recorded 3 new host keys in {fresh.known_hosts}: gpu[02-04]" in at.screen
    added = fresh.known_hosts.read_text().removeprefix(before).splitlines()
    assert sorted(added) == sorted(entries(fresh.nodes[1:]))
    with at_terminal("run", "--", "true") as at:
        assert at.ended() == 0 and "new host key" not in at.screen


def test_a_no_records_nothing_and_logs_in_only_to_known_nodes(fresh, at_terminal):
    before = fresh.known_hosts.read_text()
    with at_terminal("run", "--", "true") as at:
        at.until(r"Record them\?")
        at.type("\n")
        assert at.ended() == 1
        assert "gpu[02-04] (3): host-key-unknown" in at.screen and "--accept-new-host-keys" in at.screen
    assert fresh.known_hosts.read_text() == before
    for node in fresh.nodes[1:]:
        assert "publickey" not in node.log_text(), "no key was offered to a server that is not trusted"
    assert logins(fresh) == 1


def test_an_interrupt_at_the_question_records_nothing(fresh, at_terminal):
    before = fresh.known_hosts.read_text()
    with at_terminal("check") as at:
        at.until(r"Record them\?")
        at.type("\x03")
        assert at.ended() == 130
        assert "Interrupted: nothing was changed." in at.screen
    assert fresh.known_hosts.read_text() == before and logins(fresh) == 0


def test_a_script_is_not_asked_and_reads_one_hint_for_all(fresh, run_clusterctl, tmp_path):
    targets = ",".join(f"{fresh.user}@{node.address}:{node.port}" for node in fresh.nodes[1:])
    key = ("--identity-file", str(fresh.identity_file))
    done = run_clusterctl("inventory", "init", targets, *key, "-o", "new.yaml", env=fresh.env)
    assert done.returncode == 5 and not (tmp_path / "new.yaml").exists()
    (hint,) = re.findall(r"record it: `clusterctl (.*)`", done.stderr)
    assert hint == f"inventory init {targets} {' '.join(key)} -o new.yaml --accept-new-host-keys"
    done = run_clusterctl(*hint.split(), env=fresh.env)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("new host keys") == 1
    assert sorted(fresh.known_hosts.read_text().splitlines()[1:]) == sorted(entries(fresh.nodes[1:]))


def test_answers_of_init_are_in_the_command_that_repeats_it(fresh, at_terminal, tmp_path):
    node = fresh.nodes[1]
    with at_terminal("inventory", "init", "-o", "new.yaml") as at:
        for question, answer in (
            ("Nodes, such as", f"{node.address}:{node.port}"),
            ("Login user", fresh.user),
            ("Private key", str(fresh.identity_file)),
            ("Jump host", ""),
            (r"1 new host key, .*\n.*\n.*Record it\?", "n"),
        ):
            at.until(question)
            at.type(f"{answer}\n")
        assert at.ended() == 5
        said = " ".join(at.screen.split())
    again = f"inventory init -o new.yaml {node.address}:{node.port} --user {fresh.user} --identity-file"
    assert f"To repeat it with the same answers: clusterctl {again}" in said
    assert not (tmp_path / "new.yaml").exists()


def test_a_node_behind_a_jump_host_is_asked_about_after_the_jump_host(sshd_farm, clusterctl, tmp_path):
    farm = sshd_farm(0, unknown=2, distinct_keys=True, prefix="gpu")
    jump, node = farm.nodes
    (tmp_path / "inventory.yaml").write_text(
        f"version: 1\ndefaults: {{user: {farm.user}, identity_file: {farm.identity_file}}}\nnodes:\n"
        f"  - {{name: gpu02, address: {node.address}, port: {node.port},"
        f" proxy_jump: '{farm.user}@{jump.address}:{jump.port}'}}\n"
    )
    with TerminalSession((str(clusterctl), "run", "--", "true"), cwd=tmp_path, env=farm.env) as at:
        at.until(rf"jump host {jump.address} .*\n.*Record it\?")
        assert not node.connections
        at.type("y\n")
        at.until(rf"  gpu02  ssh-ed25519  {re.escape(fingerprint(node))}\n.*Record it\?")
        at.type("y\n")
        assert at.ended() == 0
    assert farm.known_hosts.read_text().splitlines() == entries(farm.nodes)


def test_a_dead_node_is_awaited_once(sshd_farm, clusterctl, tmp_path):
    farm = sshd_farm(0, unknown=1, silent=1, prefix="gpu")
    farm.known_hosts.write_text("")
    farm.inventory(tmp_path)
    env = {**farm.env, "CLUSTERCTL_CONNECT_TIMEOUT_S": "2"}
    with TerminalSession((str(clusterctl), "run", "--", "true"), cwd=tmp_path, env=env) as at:
        at.until(r"Record it\?")
        listener = farm.node("gpu01").listener
        assert listener is not None
        listener.accept()[0].close()  # the connection for its key
        at.type("y\n")
        assert at.ended() == 1
        assert "gpu01: timeout" in at.screen and "--- gpu02, no output" in at.screen
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_reinstalled_nodes_are_forgotten_by_the_command_of_the_hint(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(1, changed=3, distinct_keys=True, prefix="gpu")
    inventory = str(farm.inventory(tmp_path))
    kept = farm.known_hosts.read_bytes().splitlines(keepends=True)[0] + b"# end, without a line end"
    with farm.known_hosts.open("ab") as known:
        known.write(b"# end, without a line end")
    done = run_clusterctl("run", "-i", inventory, "--accept-new-host-keys", "--", "true", env=farm.env)
    assert "gpu[02-04] (3): host-key-changed" in done.stderr
    (hint,) = re.findall(r"forget the old key: `clusterctl (.*?)`", done.stderr)
    assert hint == f"inventory forget-host-keys {inventory} --limit 'gpu[02-04]'"
    words = ("inventory", "forget-host-keys", inventory, "--limit", "gpu[02-04]")
    done = run_clusterctl(*words, env=farm.env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{farm.known_hosts}: removed 3 lines, the host keys of gpu[02-04]\n"
    assert farm.known_hosts.read_bytes() == kept
    done = run_clusterctl("run", "-i", inventory, "--accept-new-host-keys", "--", "true", env=farm.env)
    assert (
        done.returncode == 0 and f"Recorded 3 new host keys in {farm.known_hosts}: gpu[02-04]" in done.stderr
    )
    found = json.loads(run_clusterctl(*words, "--json", env=farm.env).stdout)
    assert [one["nodes"] for one in found["files"]] == [["gpu02", "gpu03", "gpu04"]]
    done = run_clusterctl(*words, env=farm.env)
    assert (done.returncode, done.stdout) == (0, "no recorded host key: gpu[02-04]\n")
    done = run_clusterctl("inventory", "forget-host-keys", inventory, env=farm.env)
    assert done.returncode == 2 and "no node was named" in done.stderr


def test_init_names_a_node_by_its_host_name(fresh, run_clusterctl, tmp_path):
    node = fresh.nodes[0]
    words = ("inventory", "init", f"{node.address}:{node.port}", "--user", fresh.user, "-o", "named.yaml")
    key = ("--identity-file", str(fresh.identity_file), "--group", f"all-nodes={node.address}")
    done = run_clusterctl(*words, *key, env=fresh.env)
    assert done.returncode == 0, done.stderr
    (found,) = load.load(tmp_path / "named.yaml").nodes
    host = subprocess.run(
        ("uname", "-n"), capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()
    assert (found.name, found.address, found.groups) == (host.partition(".")[0], node.address, ("all-nodes",))
