"""``render``: what it refuses, and what --limit, --image and --lint do. Its texts are in tests/golden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from clusterctl.cli.render import app
from clusterctl.errors import ArtifactError, ClusterctlError, InventoryError, UsageError

INVENTORY = """\
version: 1
defaults: {gpus: 8}
groups: {odd: {nodes: "gpu[1,3]"}}
nodes: [{name: "gpu[1-3]"}, {name: bare, gpus: 0}, {name: slow, socket_ifname: eth9}]
"""


@pytest.fixture(autouse=True)
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(INVENTORY)
    monkeypatch.setenv("CLUSTERCTL_INVENTORY", str(path))


def render(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    app(args=list(arguments), standalone_mode=False)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "kind", "reason"),
    [
        (["mpirun", "--limit", "gpu[1-3]", "-np", "25", "--", "x"], ArtifactError, "has 24 slots"),
        (["mpirun", "--limit", "bare", "--", "x"], ArtifactError, "how many ranks bare takes"),
        (["mpirun", "--limit", "gpu1,slow", "--", "x"], ArtifactError, "socket_ifname differs between nodes"),
        (["mpirun", "--limit", "gpu1"], UsageError, "what ranks run is not said"),
        (["mpirun", "--limit", "gpu1", "--model", "m", "--", "x"], UsageError, "cannot be given together"),
        (["mpirun", "--limit", "gpu1", "--model", "m", "--collective", "c"], UsageError, "together"),
        (["mpirun", "--limit", "gpu1", "--collective", "scan"], ArtifactError, "no collective 'scan'"),
        (
            ["mpirun", "--limit", "gpu1", "--library", "ccore", "--topk", "--", "x"],
            ArtifactError,
            "not to ccore",
        ),
        (["mpirun", "--limit", "gpu9", "--", "x"], UsageError, "gpu9 is neither a node nor a group"),
        (["docker-run"], ArtifactError, "no image is named"),
        (["hostfile", "--limit", "gpu1", "-i", "/nowhere.yaml"], InventoryError, "cannot be read"),
        (["hostfile", "--lint", "/nowhere"], ArtifactError, "/nowhere cannot be read"),
    ],
)
def test_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], kind: type[ClusterctlError], reason: str
) -> None:
    with pytest.raises(kind) as caught:
        render(capsys, *arguments)
    assert reason in caught.value.message
    assert capsys.readouterr().out == ""


def test_a_smaller_number_of_ranks_leaves_nodes_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert " -H gpu1:8 " in render(capsys, "mpirun", "-np", "8", "--", "x")
    assert " -np 16 -H gpu1:8,gpu3:8 " in render(capsys, "mpirun", "--limit", "odd", "--", "x")
    assert " -np 4 -H bare:4 " in render(capsys, "mpirun", "--limit", "bare", "--slots", "4", "--", "x")


def test_the_2d_groups_are_a_nodes_slots_unless_told(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("mpirun", "--limit", "odd", "--two-d")
    assert " -x LIGHT_INTRA_SIZE=8 " in render(capsys, *common, "--", "x")
    assert " -x LIGHT_INTRA_SIZE=4 " in render(capsys, *common, "--intra-size", "4", "--", "x")


def test_an_image_given_here_beats_the_inventorys(capsys: pytest.CaptureFixture[str]) -> None:
    assert render(capsys, "docker-run", "--image", "i:2", "--", "sleep", "1").endswith(" i:2 sleep 1\n")


def test_lint_names_the_lines_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hosts"
    path.write_text("a slots=1\nb slot=1\n")
    # Outside standalone mode Typer returns the code of typer.Exit, or lets it pass, depending on its version.
    try:
        code = app(args=["hostfile", "--lint", str(path), "--json"], standalone_mode=False)
    except typer.Exit as stop:
        code = stop.exit_code
    assert code == 1
    document = json.loads(capsys.readouterr().out)
    assert [finding["line"] for finding in document["findings"]] == [2, 2]
    path.write_text("a slots=1\n")
    assert render(capsys, "hostfile", "--lint", str(path)) == f"{path}: no findings\n"
