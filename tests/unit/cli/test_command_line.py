"""What a command line means: options given twice, options that stand anywhere, a program's own words, ids of runs."""

from __future__ import annotations

import json
import os
import re

import pytest

from clusterctl.cli import main as cli
from clusterctl.cli.session import open_session
from clusterctl.errors import ImageError
from clusterctl.inventory import load
from clusterctl.inventory.recorded import recorded
from clusterctl.rundir import RunDir

INVENTORY = "version: 1\nnodes: [{name: 'n[1-4]', slots: 1, address: '10.0.0.[1-4]'}]\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLUSTERCTL_RUNS", "runs")
    monkeypatch.delenv("CLUSTERCTL_INVENTORY", raising=False)
    (tmp_path / "four.yaml").write_text(INVENTORY)
    return tmp_path


def judged(capsys, *words):
    cli.main(["check", *words, "--json"])
    (node,) = json.loads(capsys.readouterr().out)["nodes"]
    return [verdict["requirement"] for verdict in node["verdicts"]]


def test_only_and_skip_given_twice_add_up(capsys):
    assert sorted(judged(capsys, "--only", "memlock", "--only", "acs,docker")) == ["acs", "docker", "memlock"]
    left = judged(capsys, "--skip", "acs", "--skip", "memlock")
    assert "docker" in left and not {"acs", "memlock"} & set(left)


def test_limit_given_twice_adds_up(capsys):
    assert cli.main(["render", "hostfile", "-i", "four.yaml", "--limit", "n1", "--limit", "n[3-4]"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["n1", "n3", "n4"]


def test_v_and_q_stand_anywhere_but_among_the_words_of_a_program(capsys):
    for words in (
        ["-vvv", "render", "hostfile"],
        ["render", "-q", "hostfile"],
        ["render", "hostfile", "-vv"],
    ):
        assert cli.main([*words, "-i", "four.yaml"]) == 0
    capsys.readouterr()
    line = ["render", "mpirun", "-i", "four.yaml", "-np", "4"]
    assert cli.main([*line, "--", "nvidia-smi", "-q"]) == 0
    assert "nvidia-smi -q" in capsys.readouterr().out
    assert cli.main([*line, "nvidia-smi", "-q"]) == 2
    said = capsys.readouterr().err
    assert "No such option: -q" in said
    assert "options follow '--'; clusterctl's own -q goes before the command" in said
    assert cli.main(["render", "-v", "mpirun", "-q", *line[2:], "nvidia-smi"]) == 0


def test_words_that_look_like_a_programs_options_are_told_where_they_stand(capsys):
    assert cli.main(["exec", "nvidia-smi", "-L"]) == 2
    assert capsys.readouterr().err.endswith("hint: a program and its options follow '--'\n")


def test_an_option_before_the_verb_is_told_where_it_stands(capsys):
    assert cli.main(["--json", "check"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["hint"].endswith(": clusterctl COMMAND --json")


def test_verbose_names_the_commands(capsys):
    cli.main(["check", "--only", "acs", "-vv"])
    said = capsys.readouterr().err
    assert re.search(r"^localhost \(this machine\): sh with a script of \d+ lines$", said, re.MULTILINE)
    assert "localhost (this machine): status 0 after" in said


def test_an_inventory_that_is_not_there_now_is_not_this_machine(folder, capsys):
    (folder / "inventory.yaml").symlink_to("/nosuch/inventory.yaml")
    assert cli.main(["check"]) == 4
    assert "inventory.yaml: cannot be read" in capsys.readouterr().err


def test_an_inventory_whose_name_is_not_utf8(folder, capsys):
    name = os.fsdecode(b"four-\xff.yaml")
    (folder / name).write_text("version: 1\nnodes: [{name: here, connection: local}]\n")
    assert cli.main(["check", name, "--only", "acs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"][0]["name"] == "here"


def test_the_run_of_another_verb_is_refused(folder, capsys):
    cli.main(["check", "--only", "acs"])
    (run,) = (path.name for path in (folder / "runs").iterdir() if "-check-" in path.name)
    capsys.readouterr()
    for words in (["down", "--force", "--run", run], ["bootstrap", "--resume", run]):
        assert cli.main(words) == 2
        assert f"{run} is not a run of '{words[0].replace('down', 'up')}'" in capsys.readouterr().err


def test_down_with_nothing_up_succeeds(folder, capsys):
    assert cli.main(["down", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"schema": "clusterctl.down/1", "run": None, "removed": 0, "failed": []}
    assert "nothing to remove: no containers are recorded as running in runs" in err
    assert cli.main(["exec", "--", "true"]) == 10


def test_no_name_of_a_run_is_not_the_only_run_there_is(folder, capsys):
    """A script's unset variable, as in down --run "$RUN"."""
    up = RunDir.create("up", folder / "runs")
    up.write("inventory", recorded(load.load(folder / "four.yaml")))
    (up.path / "containers.yaml").write_text(INVENTORY)
    for words in (["down", "--force"], ["exec"], ["bootstrap"]):
        option = "--resume" if words == ["bootstrap"] else "--run"
        assert cli.main([*words, option, "", *(["--", "true"] if words == ["exec"] else [])]) == 2
        assert "error: run '' not found in runs" in capsys.readouterr().err
    assert (up.path / "containers.yaml").exists()


def test_an_export_in_a_pipe_has_the_ends_of_lines_of_one(capsys):
    assert cli.main(["runs", "export", "--format", "csv"]) in {0, 11}
    assert "x0d" not in capsys.readouterr().out
    assert cli.main(["runs", "export", "--json", "--format", "csv"]) == 2


@pytest.mark.parametrize("name", ["", " ", "-x", "a b"])
@pytest.mark.parametrize("verb", [["up"], ["render", "docker-run"], ["render", "mpijob"]])
def test_what_is_no_image_is_not_taken_for_one(verb, name, capsys):
    """Most likely an unset variable of a script; or docker would take the program for its image."""
    assert cli.main([*verb, f"--image={name}", *(["--", "true"] if verb[0] == "render" else [])]) == 2
    assert f"{name!r} is not a valid image name" in capsys.readouterr().err


@pytest.mark.parametrize("volume", ["", "-v", "/my data:/data"])
def test_a_volume_that_down_could_not_read_again_is_refused(volume, capsys):
    assert cli.main(["up", f"--volume={volume}", "--image", "a"]) == 2
    assert "is not /on/the/host:/in/the/container[:ro], without spaces" in capsys.readouterr().err


def test_containers_that_cannot_be_reached_share_a_line_with_its_hint(folder, monkeypatch, capsys):
    (folder / "gone.yaml").write_text(
        "version: 1\nnodes: [{name: 'n[1-9]', address: '127.0.0.[1-9]', port: 1}]\n"
    )
    monkeypatch.setattr(
        "clusterctl.cli.containers_session.containers_session",
        lambda *_, **__: open_session(folder / "gone.yaml", limit=None, fanout=None),
    )
    assert cli.main(["exec", "--", "true"]) == 5
    said = capsys.readouterr().err.splitlines()
    assert (
        said[0].startswith("n[1-9] (9): refused: ")
        and said[1] == "    hint: is sshd running, and on this port?"
    )
    assert len(said) == 2


def test_a_node_without_a_docker_engine_is_no_node_that_cannot_be_reached(folder, monkeypatch, capsys):
    def no_engine(node, transport, **_):
        transport.run(("true",), timeout_s=10)
        raise ImageError(f"{node.name}: Cannot connect to the Docker daemon")

    (folder / "here.yaml").write_text("version: 1\nnodes: [{name: here, connection: local}]\n")
    monkeypatch.setattr("clusterctl.images.prove.ask", no_engine)
    assert cli.main(["-q", "image", "prove", "-i", "here.yaml"]) == 9
    assert capsys.readouterr().err == "here: error: Cannot connect to the Docker daemon\n"
    (folder / "gone.yaml").write_text("version: 1\nnodes: [{name: gone, address: 127.0.0.1, port: 1}]\n")
    assert cli.main(["image", "prove", "-i", "gone.yaml"]) == 5
