"""Shell completion: the answers to requests, and the scripts in real shells."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest
from hostile_texts import VARIANTS

from clusterctl.cli import main as cli
from clusterctl.cli.completion import answer as protocol
from clusterctl.cli.completion import values
from clusterctl.cli.completion.answer import Completions
from clusterctl.cli.completion.command import Shell, script
from clusterctl.documents.runs import RunOutcome
from clusterctl.launch.choose import LAUNCHERS, LIBRARIES

INVENTORY = """
version: 1
nodes: [{name: "gpu[01-03]", address: "10.0.0.[1-3]"}, {name: spare, address: 10.0.0.9}]
groups: {rack: {nodes: "gpu[01-02]"}}
"""
BENCH, UNDONE = "20261121T070000Z-bench-1a2b", "20261121T080000Z-bootstrap-77cf"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with an inventory, two runs and a baseline."""
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    for run in (BENCH, UNDONE, "baselines"):
        (tmp_path / "runs" / run).mkdir(parents=True)
    (tmp_path / "runs" / "baselines" / "fleet.baseline.json").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLUSTERCTL_INVENTORY", raising=False)
    monkeypatch.delenv("CLUSTERCTL_RUNS", raising=False)
    return tmp_path


def answer(words: list[str]) -> Completions:
    return protocol.answer(words, cli.application)


def text(request: list[str]) -> str:
    return protocol.text(request, cli.application)


def completed(line: str) -> list[str]:
    """Return what completes a line whose words have no blanks."""
    return list(answer(line.split(" ")).words)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ch", ["check"]),
        ("bootst", ["bootstrap"]),
        ("runs base", ["baseline"]),
        ("runs baseline rec", ["record"]),
        ("help runs base", ["baseline"]),
        ("-v --color never ch", ["check"]),
        ("--color ", ["auto", "always", "never"]),
        ("check --strict --col", ["--color"]),
        ("render mpirun --no-t", ["--no-two-d", "--no-topk", "--no-topk-fp16", "--no-tree-spawn"]),
        ("check --limit ", ["rack", "gpu01", "gpu02", "gpu03", "spare"]),
        ("check --limit gpu01,g", ["gpu01,gpu02", "gpu01,gpu03"]),
        ("check --limit=rack,!gpu0", ["--limit=rack,!gpu01", "--limit=rack,!gpu02", "--limit=rack,!gpu03"]),
        ("check --only memlock,num", ["memlock,numa-balancing"]),
        ("bench --model resnet1", ["resnet18", "resnet101", "resnet152"]),
        ("bench --collective reduce,all_", ["reduce,all_reduce", "reduce,all_gather"]),
        ("render mpirun --collective all_r", ["all_reduce"]),
        ("bench -d half,b", ["half,bfloat16"]),
        ("bench --op ", ["sum", "prod", "max", "min", "avg"]),
        ("bench --library nccl", ["nccl", "nccl+ccore"]),
        ("bench --compare nccl,g", ["nccl,gloo"]),
        ("bench --baseline ", ["fleet"]),
        ("runs baseline show fl", ["fleet"]),
        ("runs list --verb boots", ["bootstrap"]),
        ("runs show ", ["latest", UNDONE, BENCH]),
        ("lab up --driver ", ["docker", "qemu"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("undo --run ", ["latest", UNDONE]),
        ("undo --run 77", []),
        ("undo --run 77cf", [UNDONE]),
        ("runs compare ", ["latest", BENCH]),
        ("runs show x ", ["--html", "--runs", "--json", "--verbose", "--quiet", "--color", "--help"]),
        ("nonsense ", []),
        ("check --nonsense x", []),
        ("bench --np ", []),
    ],
)
def test_words_are_completed(line: str, expected: list[str], place: Path) -> None:
    assert completed(line) == expected


@pytest.mark.parametrize("line", ["check ", "check -i ", "explain a.log ", "bench --html ", "exec -- ls "])
def test_files_are_left_to_the_shell(line: str, place: Path) -> None:
    assert answer(line.split(" ")) == Completions("files")


def test_directories_are_left_to_the_shell(place: Path) -> None:
    assert answer(["check", "--record", ""]) == Completions("directories")


def test_an_option_that_was_given_is_not_offered_again_unless_it_may_be(place: Path) -> None:
    offered = completed("check --strict --limit gpu01 --")
    assert "--strict" not in offered
    assert {"--limit", "--only", "--help"} <= set(offered)


def test_the_inventory_of_the_command_line_has_precedence(place: Path) -> None:
    (place / "other.yaml").write_text("version: 1\nnodes: [{name: b1, address: 10.0.0.1}]\n")
    assert completed("check other.yaml --limit ") == ["b1"]
    assert completed("bench -i other.yaml --limit ") == ["b1"]
    assert completed("check root@c[1-2] --limit ") == ["c1", "c2"]


@pytest.mark.parametrize(
    "content", ["nodes: [", "[]", "nodes: {a: b}", "nodes: [{name: [1]}, 3]", "\0", "a: &a [*a]"]
)
def test_a_broken_inventory_completes_nothing(content: str, place: Path) -> None:
    (place / "inventory.yaml").write_text(content)
    assert completed("check --limit ") == []


# Each touches a file if a shell evaluates it.
_WORDS = (
    "$(touch${IFS}F)",
    "`touch${IFS}F`",
    ";touch${IFS}F;",
    "&touch${IFS}F&",
    "|touch${IFS}F",
    ">F",
    "<(touch F)",
)
_SIGNS = (
    "'",
    '"',
    "\\",
    " ",
    "*",
    "?",
    "[a]",
    "{a,b}",
    "~",
    "!!",
    "#",
    "^",
    "(",
    ")",
    "$HOME",
    "$'\\x41'",
    "=",
    ":",
    "%",
    "é",
)


def _names() -> list[str]:
    """Names of files that a shell would execute, expand, split or unquote."""
    found = [f"y{sign}" for sign in (*_WORDS, *_SIGNS)] + [f"y'{word}'" for word in _WORDS]
    found += [f'y"{word}"' for word in _WORDS] + [f"y\\{word}" for word in _WORDS]
    chance = random.Random(30)
    while len(found) < VARIANTS:
        found.append("y" + "".join(chance.choices((*_WORDS, *_SIGNS, "x"), k=chance.randint(2, 6))))
    return list(dict.fromkeys(found))


_NEVER = [
    "y$(touch${IFS}F)",
    "y`id`",
    "y;id",
    "y z",
    "-y",
    "y'",
    "y\\n",
    "y\x1b[2J",
    "y\u202e",
    "y\u00e9",
    "y/../z",
    "..",
]
_VALID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@pytest.mark.parametrize("name", [*_NEVER, *(one for one in _names() if one == one.strip())], ids=ascii)
def test_names_that_no_inventory_may_hold_are_not_offered(name: str, place: Path) -> None:
    assert not _VALID.fullmatch(name)
    # A set of nodes that cannot be read, or a file with control characters, completes nothing.
    is_read = "[" not in name and name.isprintable()
    (place / "inventory.yaml").write_text(
        json.dumps({"nodes": [name, "ok"], "groups": {name: {}, "rack": {}}})
    )
    assert completed("check --limit ") == (["rack", "ok"] if is_read else [])


def test_names_with_control_characters_are_not_offered(place: Path) -> None:
    (place / "runs" / "baselines" / "a\x1b[2J.baseline.json").touch()
    assert text(["zsh", "bench", "--baseline", ""]) == "words\nfleet\t"


def test_bash_gets_the_part_after_its_last_word_break(place: Path) -> None:
    assert text(["bash", "clusterctl check --limit=sp"]) == "words\nspare\tnode"
    assert text(["bash", "clusterctl check --limit 'sp"]) == "words\nspare\tnode"
    assert text(["bash", "clusterctl undo "]).startswith("files")
    assert text([]).startswith("words")


def test_repeated_lists_are_those_of_their_modules() -> None:
    assert set(values.LAUNCHERS) == set(LAUNCHERS)
    assert values.LIBRARIES == LIBRARIES
    assert [one.value for one in RunOutcome] == list(values.STATUSES)


# Real shells ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def environment(place: Path) -> dict[str, str]:
    """An environment with clusterctl in PATH and a bare terminal."""
    (place / "bin").mkdir()
    program = place / "bin" / "clusterctl"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom clusterctl.cli.main import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(place),
        "TERM": "dumb",
    }


def test_the_command_prints_each_script(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in Shell:
        assert cli.main(["completion", shell.value]) == 0
        assert capsys.readouterr().out == script(shell)


@pytest.mark.parametrize("shell", [["bash", "--norc", "--noprofile"], ["zsh", "-f"]], ids=["bash", "zsh"])
def test_a_person_completes_with_the_tab_key(
    shell: list[str], environment: dict[str, str], tier_unavailable: Callable[[str], None]
) -> None:
    if shutil.which(shell[0]) is None:
        tier_unavailable(f"{shell[0]} is not installed")
    terminal = pexpect.spawn(
        shell[0], [*shell[1:], "-i"], env=environment, encoding="utf-8", dimensions=(40, 200), timeout=60
    )
    prepare = "autoload -U compinit; compinit -u -D; " if shell[0] == "zsh" else ""
    terminal.sendline(f"{prepare}source <(clusterctl completion {shell[0]}); echo rea''dy")
    terminal.expect("ready")
    # Ctrl-A goes to the start of the line, so that the shell prints what it completed.
    terminal.send("clusterctl boots\t--dr\t--limit=sp\t--resume 77cf\t\x01echo en''d: \r")
    terminal.expect(f"\nend: clusterctl bootstrap --dry-run --limit=spare *--resume {UNDONE}")
    assert not any(word in str(terminal.before) for word in ("Traceback", "error:"))
    terminal.close(force=True)


def test_bash_quotes_what_it_would_execute(environment: dict[str, str], place: Path) -> None:
    names = [one for one in _names() if "/" not in one]
    assert len(names) >= VARIANTS
    for name in names:
        (place / "runs" / "baselines" / f"{name}.baseline.json").touch()
    line = "clusterctl bench --baseline y"
    ask = (
        "source <(clusterctl completion bash) 2>/dev/null; compopt() { :; }; "
        f"COMP_LINE='{line}' COMP_POINT={len(line)}; _clusterctl_complete clusterctl; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        ("bash", "--norc", "-c", ask), env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    words = done.stdout.splitlines()
    again = subprocess.run(
        ("bash", "--norc", "-c", f"printf '%s\\n' {' '.join(words)}"),
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert sorted(again.stdout.splitlines()) == sorted(names)
    assert not (place / "F").exists()


def test_fish_completes_with_descriptions(
    environment: dict[str, str], tier_unavailable: Callable[[str], None]
) -> None:
    if shutil.which("fish") is None:
        tier_unavailable("fish is not installed")
    lines = (
        "clusterctl boots",
        "clusterctl check --limit=sp",
        "clusterctl bench --model bert-",
        "clusterctl explain inv",
    )
    program = "clusterctl completion fish | source; " + "; ".join(f"complete -C '{line}'" for line in lines)
    done = subprocess.run(
        ["fish", "--no-config", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "bootstrap\tPlan the missing changes, ask, apply them, and check again.",
        "--limit=spare\tnode",
        "bert-large",
        "bert-base",
        "bert-tiny",
        "inventory.yaml",
    ]
    assert done.stderr == ""
