"""``render``: what it refuses, and what --limit, --image and --lint do. Its texts are in tests/golden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from clusterctl.cli.render.app import app
from clusterctl.documents.locate import Locate, LocateStatus, PairRate
from clusterctl.errors import ArtifactError, ClusterctlError, InventoryError, ResultError, UsageError
from clusterctl.rundir import RunDir

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
        (["mpirun", "--limit", "bare", "--", "x"], ArtifactError, "the number of ranks for bare"),
        (["mpirun", "--limit", "gpu1,slow", "--", "x"], ArtifactError, "socket_ifname differs between nodes"),
        (["mpirun", "--limit", "gpu1"], UsageError, "no program to run was given"),
        (
            ["mpirun", "--limit", "gpu1", "--model", "m", "--", "x"],
            UsageError,
            "cannot be combined with --model",
        ),
        (
            ["mpirun", "--limit", "gpu1", "--model", "m", "--collective", "c"],
            UsageError,
            "cannot be combined",
        ),
        (["mpirun", "--limit", "gpu1", "--collective", "scan"], UsageError, "unknown collective 'scan'"),
        (
            ["mpirun", "--limit", "gpu1", "--library", "ccore", "--topk", "--", "x"],
            ArtifactError,
            "not to ccore",
        ),
        (["mpirun", "--limit", "gpu9", "--", "x"], UsageError, "gpu9 is not a node or group"),
        (["docker-run"], ArtifactError, "no image is set"),
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


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "registry_auth", "PGPASSWORD"]
)
def test_values_of_secrets_are_passed_on_by_name_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / "secret.yaml"
    path.write_text(
        f"version: 1\ndefaults: {{gpus: 2, env: {{{name}: hunter2, KEYBOARD: us}}}}\nnodes: [{{name: gpu1}}]\n"
    )
    for more in ((), ("--json",)):
        app(args=["mpirun", "-i", str(path), *more, "--", "x"], standalone_mode=False)
        captured = capsys.readouterr()
        assert "hunter2" not in captured.out + captured.err
        assert f"set {name} where mpirun runs" in captured.err
    argv = json.loads(captured.out)["argv"]
    assert argv[argv.index(name) - 1] == "-x" and "KEYBOARD=us" in argv


def test_secrets_that_differ_between_nodes_are_named_without_their_values(tmp_path: Path) -> None:
    path = tmp_path / "secret.yaml"
    path.write_text("version: 1\nnodes: [{name: a, gpus: 1, env: {HF_TOKEN: hunter2}}, {name: b, gpus: 1}]\n")
    with pytest.raises(ArtifactError, match="set on a; unset on b"):
        app(args=["mpirun", "-i", str(path), "--", "x"], standalone_mode=False)


def test_a_rendered_training_says_what_nodes_need(capsys: pytest.CaptureFixture[str]) -> None:
    app(args=["mpirun", "--limit", "gpu1", "--model", "resnet50"], standalone_mode=False)
    captured = capsys.readouterr()
    assert "clusterctl installed" in captured.err and "installed" not in captured.out
    app(args=["mpirun", "--limit", "gpu1", "--", "x"], standalone_mode=False)
    assert capsys.readouterr().err == ""


def test_the_hostfile_follows_the_network_that_locate_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = RunDir.create("locate", tmp_path / "runs")
    pairs = (("gpu1", "gpu2", 5.0), ("gpu1", "gpu3", 11.0), ("gpu2", "gpu3", 5.0))
    run.write(
        "results",
        Locate(
            run=run.id, status=LocateStatus.NONE, library=None, launcher=None, nodes=3, ranks=3, rounds=8, windows=3,
            repeated=0, duration_s=1.0, false_alarms_per_run=0.0, suspects=(), suspects_alone=(), sometimes_slow=(),
            groups=(), boundary=None, slow_rails=(), rates=(), failures=(),
            pairs=tuple(PairRate(nodes=(one, other), place=0, gbps=rate) for one, other, rate in pairs),
        ).document(),
    )  # fmt: skip
    text = render(capsys, "hostfile", "--limit", "gpu[1-3]", "--order", "topology", "--comment", "mine")
    assert text == (f"# mine\n# ordered by topology: {run.id}\ngpu1 slots=8\ngpu3 slots=8\ngpu2 slots=8\n")
    assert render(capsys, "hostfile", "--limit", "gpu[1-3]", "-np", "16").split() == [
        "gpu1", "slots=8", "gpu2", "slots=8",
    ]  # fmt: skip


def test_an_order_that_no_run_has_measured_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="has measured two of these nodes"):
        app(args=["hostfile", "--order", "topology", "--runs", str(tmp_path)], standalone_mode=False)
