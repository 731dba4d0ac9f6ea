"""The command line itself: exit codes, what is imported before a verb runs, and errors as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from clusterctl.cli import main as cli
from clusterctl.cli import verbs
from clusterctl.errors import InventoryError
from clusterctl.requirements import judge

HEAVY = ("fabric", "paramiko", "docker", "pydantic", "jinja2", "yaml", "rich", "torch")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from clusterctl.cli.main import main; sys.exit(main())",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom clusterctl.cli.main import main\nmain(['--help'])\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_check_imports_no_template_engine_for_reports_that_were_not_requested() -> None:
    program = (
        "import sys\nfrom clusterctl.cli.check.output import CheckReports\n"
        "from clusterctl.report.text import of_view\nfrom clusterctl.views.check import View\n"
        "CheckReports(None, None, None).write(View('', ()))\n"
        "print([name for name in ('jinja2', 'markupsafe') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_names_every_verb() -> None:
    done = run("--help")
    assert done.returncode == 0
    for verb in ("check", "bootstrap", "undo", "explain", "inventory", "render", "bench", "lab"):
        assert f"\n  {verb} " in done.stdout


def words(command) -> object:
    """All that can be said to a command: its options, or those of its commands."""
    inner = getattr(command, "commands", None)
    if inner is not None:
        return {name: words(found) for name, found in inner.items()}
    return [parameter.opts for parameter in command.params]


def test_a_verb_alone_is_what_it_is_among_all() -> None:
    whole = typer.main.get_command(cli.application()).commands
    assert len(whole) > 13
    for name, command in whole.items():
        assert verbs.named_in(["-v", name, "--help"]) == name
        alone = typer.main.get_command(cli.application(name)).commands
        assert list(alone) == [name]
        assert words(alone[name]) == words(command)


@pytest.mark.parametrize("arguments", [["--help"], ["--help", "check"], ["chekc"], ["-q"], []])
def test_all_verbs_are_there_where_none_is_named(arguments: list[str]) -> None:
    assert verbs.named_in(arguments) is None


@pytest.mark.parametrize(
    "verb", [(), ("render",), ("runs",), ("runs", "baseline"), ("image",), ("inventory",)]
)
def test_help_says_what_each_verb_does_in_whole_words(verb: tuple[str, ...]) -> None:
    lines = run(*verb, "--help").stdout.splitlines()[1:]  # without the usage
    assert len(lines) > 5 and not [line for line in lines if line.endswith("...") and ", ..." not in line]


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "clusterctl")


@pytest.mark.parametrize(
    "arguments",
    [("no-such-verb",), ("check", "--no-such-option"), ("check", "--fanout", "0"), ("check", "a", "b")],
)
def test_a_wrong_command_line_exits_2(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_an_expected_error_becomes_its_exit_code_with_its_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> None:
        raise InventoryError("nodes: expected at least one", hint="add a node")

    monkeypatch.setattr(cli, "application", lambda verb: refuse)
    assert cli.main(["check"]) == 4
    assert capsys.readouterr().err == "error: nodes: expected at least one\nhint: add a node\n"


def test_an_expected_error_is_one_json_document_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> None:
        raise InventoryError("nodes: expected at least one", hint="add a node")

    monkeypatch.setattr(cli, "application", lambda verb: refuse)
    assert cli.main(["check", "--json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert document["error"] == {
        "message": "nodes: expected at least one",
        "hint": "add a node",
        "exit_code": 4,
    }


def test_an_interrupt_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "application", lambda verb: interrupt)
    assert cli.main(["check"]) == 130


def test_a_programs_own_json_option_asks_nothing_of_us() -> None:
    done = run("exec", "--run", "no-such-run", "--", "nvidia-smi", "--json")
    assert done.returncode == 2 and not done.stdout and "no-such-run" in done.stderr


def test_a_wrong_option_is_one_json_document_when_asked() -> None:
    done = run("check", "--json", "--no-such-option")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["exit_code"] == 2


@pytest.mark.parametrize("nothing", ["", ",", " , "])
@pytest.mark.parametrize("option", ["--only", "--skip"])
def test_a_list_that_names_nothing_is_refused(option: str, nothing: str) -> None:
    done = run("check", option, nothing)
    assert done.returncode == 2
    assert "names no requirement" in done.stderr


def test_a_check_that_skips_everything_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text("version: 1\nnodes: [{name: a, address: 127.0.0.1}]\n")
    done = run("check", str(file), "--skip", ",".join(judge.ALL), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 2
    assert "no requirement is left to judge" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_talk_options_may_stand_after_the_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(cli, "application", lambda verb: lambda args, **_: seen.append(args))
    cli.main(["check", "-v", "x.yaml", "--quiet", "--", "-q"])
    assert seen == [["-v", "--quiet", "check", "x.yaml", "--", "-q"]]


def test_a_report_file_that_cannot_be_written_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    done = run("check", "--junit", str(tmp_path / "none" / "out.xml"), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 3
    assert "none/out.xml" in done.stderr
    assert not (tmp_path / "runs").exists()
