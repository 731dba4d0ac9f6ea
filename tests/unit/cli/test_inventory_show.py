"""``inventory validate`` and ``show``, and ``config show``: values with the place that each comes from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterctl.cli.main import main

Capture = pytest.CaptureFixture[str]
FLEET = """\
version: 1
defaults:
  user: ubuntu
  env: {NCCL_DEBUG: INFO, MY_TOKEN: "abcdef"}
groups:
  big:
    nodes: gpu[01-02]
    gpus: 8
    env: {NCCL_DEBUG: WARN}
nodes:
  - name: gpu[01-04]
    address: 10.0.0.[1-4]
    container: {image: "a:1"}
  - name: spare
    port: 2222
    user: null
    env: {EXTRA: 1}
    requirements: {cluster_file: {source: cluster}}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLUSTERCTL_INVENTORY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "cluster").write_text("A=1\n")


def origins(capsys: Capture, *words: str) -> dict[str, dict[str, tuple[object, str]]]:
    assert main(["inventory", "show", *words, "-i", "fleet.yaml", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "clusterctl.inventory/1"
    return {
        node["name"]: {one["key"]: (one["value"], one["origin"]) for one in node["settings"]}
        for node in document["nodes"]
    }


def test_each_setting_has_the_line_of_the_level_that_sets_it(capsys: Capture) -> None:
    found = origins(capsys)
    assert found["gpu01"] == {
        "address": ("10.0.0.1", "fleet.yaml:12 (node)"),
        "user": ("ubuntu", "fleet.yaml:3 (defaults)"),
        "gpus": (8, "fleet.yaml:8 (group big)"),
        "container.image": ("a:1", "fleet.yaml:13 (node)"),
        "env.NCCL_DEBUG": ("WARN", "fleet.yaml:9 (group big)"),
        "env.MY_TOKEN": ("***", "fleet.yaml:4 (defaults)"),
    }
    assert found["gpu04"]["env.NCCL_DEBUG"] == ("INFO", "fleet.yaml:4 (defaults)")
    spare = found["spare"]
    assert spare["port"] == (2222, "fleet.yaml:15 (node)")
    assert "user" not in spare  # null restores the default
    assert spare["env.EXTRA"] == ("1", "fleet.yaml:17 (node)")
    assert spare["requirements.cluster_file.content"] == ("A=1\n", "fleet.yaml:18 (node)")


def test_all_lists_the_defaults_too(capsys: Capture) -> None:
    found = origins(capsys, "spare", "--all")["spare"]
    assert found["user"] == (None, "default")
    assert found["become"] == ("auto", "default")
    assert found["container.shm_size"] == ("32g", "default")


def test_equal_nodes_share_a_table(capsys: Capture) -> None:
    assert main(["inventory", "show", "gpu*", "-i", "fleet.yaml"]) == 0
    shown = capsys.readouterr().out
    assert "gpu[01-02] (2 nodes), groups: big\n" in shown and "gpu[03-04] (2 nodes)\n" in shown
    assert "address          10.0.0.[1-2]  fleet.yaml:12 (node)" in shown
    assert "abcdef" not in shown


def test_without_a_node_all_are_listed(capsys: Capture) -> None:
    assert main(["inventory", "show", "-i", "fleet.yaml"]) == 0
    assert capsys.readouterr().out.split("\n\n")[1].splitlines() == [
        "nodes       addresses     user    port  groups",
        "gpu[01-02]  10.0.0.[1-2]  ubuntu     -  big",
        "gpu[03-04]  10.0.0.[3-4]  ubuntu     -  -",
        "spare       spare         -       2222  -",
    ]


def test_targets_come_from_the_command_line(capsys: Capture) -> None:
    assert main(["inventory", "show", "a", "-i", "root@a:22,b", "--json"]) == 0
    (node,) = json.loads(capsys.readouterr().out)["nodes"]
    assert {one["key"]: one["origin"] for one in node["settings"]} == dict.fromkeys(
        ("address", "user", "port"), "command line"
    )


def test_validate(capsys: Capture) -> None:
    assert main(["inventory", "validate", "fleet.yaml"]) == 0
    assert capsys.readouterr().out == "fleet.yaml: valid: 5 nodes (gpu[01-04],spare); groups: big\n"
    Path("fleet.yaml").write_text(FLEET.replace("gpus: 8", "gpsu: 8"))
    assert main(["inventory", "validate", "fleet.yaml"]) == 4
    assert "fleet.yaml:8: groups.big.gpsu: unknown key; did you mean gpus?" in capsys.readouterr().err
    assert main(["inventory", "validate", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["source"] is None
    assert main(["inventory", "validate"]) == 1
    assert "or write one with: clusterctl inventory init" in capsys.readouterr().err


def test_config_show(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    Path("clusterctl").mkdir()
    Path("clusterctl/config.yaml").write_text("connect_timeout_s: 5\n")
    for name, value in {
        "CLUSTERCTL_FANOUT": "3", "CLUSTERCTL_SUDO_PASSWORD": "hunter2", "CLUSTERCTL_RUNS": "r",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert main(["config", "show", "--json"]) == 0
    shown = capsys.readouterr().out
    found = {one["name"]: (one["value"], one["origin"]) for one in json.loads(shown)["settings"]}
    assert found["fanout"] == (3, "$CLUSTERCTL_FANOUT")
    assert found["connect_timeout_s"][1].endswith("clusterctl/config.yaml")
    assert found["command_timeout_s"] == (120, "default")
    assert found["CLUSTERCTL_RUNS"] == ("r", "$CLUSTERCTL_RUNS")
    assert found["CLUSTERCTL_SUDO_PASSWORD"] == ("***", "$CLUSTERCTL_SUDO_PASSWORD")
    assert main(["config", "show"]) == 0
    assert "hunter2" not in shown + capsys.readouterr().out


def test_config_show_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("CLUSTERCTL_KNOWN_HOSTS", "/etc/ssh/hosts-of-the-cluster/known_hosts")
    monkeypatch.setattr("clusterctl.cli.console.width", lambda: 80)
    assert main(["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = "CLUSTERCTL_KNOWN_HOSTS    /etc/ssh/hosts-of-the-cluster/known_hosts  environment"
    assert lines[lines.index(row) + 1] == "    known host keys"
    assert max(map(len, lines)) <= 80


def test_an_unknown_command_of_a_group_is_refused_with_the_commands_that_it_has(capsys: Capture) -> None:
    assert main(["config", "nothing"]) == 2
    assert capsys.readouterr().err.endswith("error: No such command 'nothing'.\nhint: choose from: show\n")
