"""The commit-msg hook accepts subjects as CONTRIBUTING.md describes them, and names what is wrong with others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from commit_message import faults

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "message",
    [
        "undo: Stop the socket unit that bootstrap installed",
        "images, lab, core docs: Write the last idioms in plain English\n\nThe reason, in a sentence.\n",
        "json_text: Write null for NaN and Infinity\n# Please enter the commit message for your changes. Nobody.\n",
        ".github: Pass the address of the runner",
        "core: Speed up the sum of halves",
        "core: Bring up links at once",
        "cli: Process several files",
        "Merge branch 'x' into y",
        'Revert "undo: Stop the socket unit that bootstrap installed"',
        "fixup! undo: Stop the socket unit",
        "a: " + "Add " + "x" * 65,
    ],
)
def test_a_good_message_passes(message: str) -> None:
    assert faults(message) == []


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "expected 'area: Imperative verb ...'"),
        ("Stop the socket unit", "expected 'area: Imperative verb ...'"),
        ("Undo: Stop the socket unit", "expected 'area: Imperative verb ...'"),
        ("undo:Stop the socket unit", "expected 'area: Imperative verb ...'"),
        ("undo: stop the socket unit", "'stop' follows the area"),
        ("undo: The socket unit stops", "'The' follows the area"),
        ("undo: A socket that came with its unit does not start it again", "'A' follows the area"),
        ("undo: Stopped the socket unit", "'Stopped' is not imperative"),
        ("undo: Stops the socket unit", "'Stops' is not imperative"),
        ("undo: Stopping the socket unit", "'Stopping' is not imperative"),
        ("undo: Stop the socket unit.", "ends with a period"),
        ("a: " + "Add " + "x" * 66, "has 73 characters"),
        ("undo: Stop the unit\nwhich bootstrap installed", "the second line has text"),
        ("undo: Stop the unit anew", "'anew'"),
        ("undo: Stop the unit\n\nNobody asked for it.", "'Nobody'"),
    ],
)
def test_each_fault_of_a_message_is_named(message: str, said: str) -> None:
    (fault,) = faults(message)
    assert said in fault


def test_the_hook_that_pre_commit_installs_reads_the_file_of_git(tmp_path: Path) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    (hook,) = [hook for hook in hooks if hook["stages"] == ["commit-msg"]]
    command = hook["entry"].split()
    message = tmp_path / "COMMIT_EDITMSG"
    for text, code in (("undo: Stop the unit\n", 0), ("Stopped the unit.\n", 1)):
        message.write_text(text)
        done = subprocess.run(
            [sys.executable, *command[1:], str(message)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, bool(done.stderr)) == (code, bool(code))


def test_the_other_hook_runs_what_make_lint_fast_runs() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    (fast,) = [hook for hook in config["repos"][0]["hooks"] if hook["stages"] == ["pre-commit"]]
    assert (fast["entry"], fast["pass_filenames"], fast["always_run"]) == ("make lint-fast", False, True)
