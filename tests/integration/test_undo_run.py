"""``undo --run`` with an id that no node has: refused, naming the runs meant; one that some have is undone."""

from __future__ import annotations

import json

import pytest

from clusterctl.inventory.model import Node
from clusterctl.transport.connect import Connector

FIRST, SECOND = "20261122T101500Z-bootstrap-1a2b", "20261121T090000Z-bootstrap-77ff"
JOURNAL = "/var/lib/clusterctl/journal"


@pytest.fixture
def farm(sshd_farm, monkeypatch):
    """Three nodes: one knows both runs, one the first alone, one is down; each with a journal of its own."""
    made = sshd_farm(2, refusing=1, private=("/var/lib/clusterctl",))
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    for there, runs in zip(made.nodes, ((FIRST, SECOND), (FIRST,)), strict=False):
        place = {"name": there.name, "address": there.address, "port": there.port}
        transport = Connector()(Node(**place, user="root", identity_file=str(made.identity_file)))
        for order, run in enumerate(runs, start=1):
            line = f"mkdir -p {JOURNAL}/{run} && echo {order} >{JOURNAL}/{run}/order"
            assert transport.run(("sh", "-c", line)).returncode == 0
        transport.close()
    return made


def test_a_mistyped_run_is_refused_with_the_ones_that_were_meant(farm, run_clusterctl, tmp_path):
    inventory = str(farm.inventory(tmp_path))

    def undo(run, *more):
        return run_clusterctl("undo", "--dry-run", "--run", run, *more, inventory, env=farm.env)

    typo = FIRST[:-1] + "c"
    done = undo(typo)
    assert (done.returncode, done.stdout) == (2, "")
    said = " ".join(done.stderr.split())
    assert f"no journal on node[01-02] has the run {typo}" in said
    assert f"did you mean {FIRST} (on node[01-02])" in said
    assert "node03 did not answer and may have it" in said
    error = json.loads(undo(typo, "--json").stdout)["error"]
    assert (error["exit_code"], FIRST in error["hint"]) == (2, True)

    far = undo("20190101T000000Z-bootstrap-0000", "--limit", "node[01-02]")
    assert far.returncode == 2
    said = " ".join(far.stderr.split())
    assert f"the latest runs of these nodes are: {SECOND} (on node01); {FIRST} (on node[01-02])" in said
    elsewhere = undo(SECOND, "--limit", "node02")
    assert elsewhere.returncode == 2
    assert f"no journal on node02 has the run {SECOND}" in " ".join(elsewhere.stderr.split())


def test_a_run_that_is_known_on_some_nodes_is_undone_there(farm, run_clusterctl, tmp_path):
    words = ("--run", SECOND, "--limit", "node[01-02]", str(farm.inventory(tmp_path)))
    done = run_clusterctl("undo", "--yes", "--json", *words, env=farm.env)
    assert done.returncode == 0, done.stderr
    nodes = {node["name"]: node for node in json.loads(done.stdout)["nodes"]}
    assert nodes["node01"]["run"] == SECOND
    assert nodes["node02"]["nothing"] == f"run {SECOND} changed nothing on this node"
    again = run_clusterctl("undo", "--yes", "--json", *words, env=farm.env)
    assert again.returncode == 0
    assert "has already been undone" in json.loads(again.stdout)["nodes"][0]["nothing"]


def _put(farm, node, files):
    """Write files below the journal of one node, as a damaged disk left them."""
    place = {"name": node.name, "address": node.address, "port": node.port}
    transport = Connector()(Node(**place, user="root", identity_file=str(farm.identity_file)))
    for name, text in files.items():
        line = 'mkdir -p "${1%/*}" && printf %s "$2" >"$1"'
        assert transport.run(("sh", "-c", line, "sh", f"{JOURNAL}/{name}", text)).returncode == 0
    transport.close()


def test_a_damaged_journal_fails_the_undo_and_names_node_entry_and_path(farm, run_clusterctl, tmp_path):
    entry = {"key": "k\n", "kind": "write_file", "requirement": "limits", "description": "write /etc/thing",
             "begin": "then\n", "target": "/etc/thing", "wrote": "0123\n"}  # fmt: skip
    # On the first its prior value is gone, on the second nothing shows the place of the run.
    _put(farm, farm.nodes[0], {f"{FIRST}/0001/{name}": text for name, text in entry.items()})
    _put(farm, farm.nodes[0], {f"{SECOND}/undone": "then\n", f"{FIRST}/order": f"3\n3 {FIRST}\n"})
    _put(farm, farm.nodes[1], {f"{FIRST}/0001/kind": "write_file", f"{FIRST}/order": "\x01\x7f"})
    words = ("--yes", "--json", "--limit", "node[01-02]", str(farm.inventory(tmp_path)))
    for more, status in (((), "failed"), (("--dry-run",), "failed")):
        done = run_clusterctl("undo", *more, *words, env=farm.env)
        assert done.returncode == 1, done.stderr
        nodes = {node["name"]: node for node in json.loads(done.stdout)["nodes"]}
        (step,) = nodes["node01"]["steps"]
        assert step["status"] == status
        assert f"in {JOURNAL}/{FIRST}/0001, both prior and absent are missing" in step["reason"]
        assert "Restore /etc/thing by hand" in step["reason"]
        assert f"{JOURNAL}/{FIRST}/order" in nodes["node02"]["error"]["message"]
        assert "undo --run RUN" in nodes["node02"]["error"]["hint"]
    shown = run_clusterctl("undo", "--dry-run", *words[2:], env=farm.env)
    assert shown.returncode == 1
    assert "is damaged" in " ".join(shown.stdout.split())
    # The entry is still there: another undo fails too.
    assert run_clusterctl("undo", *words, env=farm.env).returncode == 1
