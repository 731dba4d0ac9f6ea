"""The help of every command: headings, words for values, defaults, exit codes, and lines that fit."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator

import pexpect
import pytest

from clusterctl.cli import main as cli
from clusterctl.cli.completion.values import kind_of
from clusterctl.cli.description import CommandDescription, described
from clusterctl.cli.help import headings, page

WHOLE = described(cli.application())


def every(command: CommandDescription = WHOLE) -> Iterator[CommandDescription]:
    yield command
    for below in command.commands.values():
        yield from every(below)


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_lines_fit_and_a_wider_terminal_is_used(columns: int) -> None:
    pages = [page.render(command, WHOLE, columns).splitlines() for command in every()]
    assert len(pages) > 30
    longest = max(len(line) for lines in pages for line in lines)
    assert columns - 20 < longest <= columns


def test_columns_decides_the_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heights = []
    for columns in ("80", "200", "1000"):
        monkeypatch.setenv("COLUMNS", columns)
        assert cli.main(["bench", "--help"]) == 0
        heights.append(len(capsys.readouterr().out.splitlines()))
    assert heights[0] > heights[1] == heights[2]


def test_no_value_is_named_after_a_python_type() -> None:
    for command in every():
        assert not re.search(r"<(int|str|float|path|list)|list\[", page.render(command, WHOLE, 120)), (
            command.path
        )


def test_each_page_names_the_global_options_and_its_exit_codes() -> None:
    for command in every():
        shown = page.render(command, WHOLE, 120)
        assert all(word in shown for word in ("-v, --verbose", "-q, --quiet", "-h, --help")), command.path
        assert ("--version" in shown) == (command is WHOLE), command.path
        if command.function is not None and command is not WHOLE:
            stated = "Exit code" in (command.function.__doc__ or "")
            assert stated == ("\nExit codes:\n" in shown), command.path


def test_the_top_page_has_exit_codes_and_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^  10 +A program failed to start", shown, re.MULTILINE)
    assert "\n'clusterctl requirements show NAME' prints" in shown
    assert "Guides: docs/README.md in the source repository" in shown


def test_the_options_of_vendors_come_last_but_for_output() -> None:
    mpirun = page.render(WHOLE.commands["render"].commands["mpirun"], WHOLE, 120)
    headings = re.findall(r"^([A-Z].*):$", mpirun, re.MULTILINE)
    assert headings[headings.index("LightCC and Horovod") + 1] == "Output"
    vendor = mpirun.partition("\nLightCC and Horovod:\n")[2].partition("\n\n")[0]
    assert all(
        word in vendor
        for word in ("--two-d/", "--topk/", "--topk-fp16/", "--topk-ratio", "--fusion-threshold")
    )
    assert "--nccl-debug" not in vendor


def test_values_have_their_range_and_default() -> None:
    up = page.render(WHOLE.commands["up"], WHOLE, 120)
    assert re.search(r"--port N +Port .*\[default: 2222; 1 to 65535\]", up)
    mpirun = page.render(WHOLE.commands["render"].commands["mpirun"], WHOLE, 120)
    assert re.search(r"--library nccl\|gloo\|ccore ", mpirun)
    assert "[default: --tree-spawn]" in mpirun
    assert mpirun.startswith("Usage: clusterctl render mpirun [OPTIONS] [PROGRAM...]\n")


def test_an_error_shows_the_same_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["exec", "--no-such"]) == 2
    assert capsys.readouterr().err.startswith("Usage: clusterctl exec [OPTIONS] -- COMMAND...\n")


# Without these options nothing is selected, written or continued; the text says what each one does.
NO_DEFAULT_KINDS = {
    "FILE",
    "INVENTORY",
    "DIR",
    "RUN",
    "NODESET",
    "REQUIREMENT",
    "IMAGE",
    "MODEL",
    "BASELINE",
    "BENCHMARK",
    "LIBRARY",
}
NO_DEFAULT = {
    *(
        "--batch",
        "--max-failures",
        "--node-timeout",
        "--volume",
        "--mount",
        "--compare",
        "--slots",
        "--collective",
    ),
    *("--batch-size", "--nccl-debug", "--gid-index", "--gdr-level", "--fusion-threshold", "--cycle-time"),
    *("--two-d-threshold", "--topk-ratio", "--topk-threshold", "--partition", "--rdma-resource", "--package"),
    *("--nccl-tests", "--family", "--rendezvous-port", "--comment", "--status", "--since", "--newest"),
    *("--library-version", "--network", "--build-arg", "--group", "-i"),
    *("--label", "--keep", "--older-than", "--verb", "--for", "--only", "--skip", "--min-efficiency"),
}


def test_each_option_with_a_value_states_its_default() -> None:
    silent = {
        one.spellings[-1]
        for command in every()
        if command.application is None
        for one in command.parameters
        if one.is_option and not one.is_flag and not one.required
        if kind_of(one.metavar) not in NO_DEFAULT_KINDS
        if not one.shown_default and "default" not in (one.info.help or "").lower()
    }
    assert silent - NO_DEFAULT == set(), (
        "state the default with show_default='...', or list the option in NO_DEFAULT"
    )


def test_the_command_help_prints_the_same_page(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["check"], ["runs", "baseline"], ["runs", "baseline", "record"]):
        assert cli.main([*words, "--help"]) == 0
        expected = capsys.readouterr().out
        assert cli.main(["help", *words]) == 0
        assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["chekc"], "did you mean check?"),
        (["runs", "lst"], "did you mean list?"),
        (["check", "x"], "help check"),
    ],
)
def test_help_of_an_unknown_command_suggests_one(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["help", *words]) == 2
    assert hint in capsys.readouterr().err


def test_a_colour_terminal_shows_headings_and_options_in_colour() -> None:
    program = "import sys; from clusterctl.cli.main import main; sys.exit(main(['down', '--help']))"
    environment = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")
    }
    shown = pexpect.run(
        shlex.join([sys.executable, "-c", program]), env={**environment, "TERM": "xterm"}, timeout=60
    ).decode()
    assert "\x1b[1mUsage\x1b[0m: clusterctl down" in shown and "\x1b[36m--force\x1b[0m" in shown
    environment["TERM"] = "dumb"
    assert (
        "\x1b"
        not in pexpect.run(shlex.join([sys.executable, "-c", program]), env=environment, timeout=60).decode()
    )


def test_every_command_stands_under_a_heading() -> None:
    listed = {name: told for summaries in headings.OF_COMMANDS.values() for name, told in summaries.items()}
    found = {name: command.summary for name, command in WHOLE.commands.items()}
    assert listed == found, "write the command and the first line of its docstring into OF_COMMANDS"
