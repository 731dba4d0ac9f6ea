"""What nodes answered to a command: equal output once, and no node can imitate another."""

from __future__ import annotations

import random

import pytest
from hostile_texts import BLANKS, DASHES, UNSEEN, VARIANTS, WIDE_DASHES

from clusterctl.cli import on_nodes
from clusterctl.report.line import TonedLine
from clusterctl.report.text import answers
from clusterctl.transport.base import Completed, Failure, FailureKind

NODES = [f"gpu{number:02}" for number in range(1, 65)]


def done(stdout: bytes = b"", stderr: bytes = b"", status: int = 0, cut: int = 0) -> Completed:
    return Completed(("x",), status, stdout, stderr, 0.1, cut)


def _text(lines: list[TonedLine]) -> str:
    return "\n".join(line.text for line in lines)


def test_64_equal_answers_are_one_block() -> None:
    found = dict.fromkeys(NODES, done(b"6.8.0-60\n"))
    assert _text(answers.output(found)) == "--- gpu[01-64] (64)\n6.8.0-60"
    assert _text(answers.errors(found)) == answers.statuses(found) == ""


def test_64_different_answers_are_64_blocks_in_the_order_of_the_inventory() -> None:
    found = {name: done(name.encode()) for name in NODES}
    assert _text(answers.output(found)).splitlines()[::2] == [f"--- {name}" for name in NODES]


def test_different_errors_do_not_unfold_equal_output() -> None:
    found = {name: done(b"up\n", f"{name}: warning\n".encode()) for name in NODES}
    assert _text(answers.output(found)) == "--- gpu[01-64] (64)\nup"
    assert _text(answers.errors(found)).count("\n") == 127


def test_status_and_missing_output_are_stated() -> None:
    found = {"a": done(), "b": done(b"x", status=2), "c": done(b"x"), "d": done(b"y\n", status=2)}
    assert _text(answers.output(found)).splitlines() == [
        "--- a, no output",
        "--- b, status 2",
        "x",
        "--- c",
        "x",
        "--- d, status 2",
        "y",
    ]
    assert answers.statuses(found) == "status 0: a,c (2); status 2: b,d (2)"


def test_a_node_cannot_write_a_head() -> None:
    found = {"a": done(b"1\r\n--- b\n--- c, status 1\n---\n\n")}
    assert _text(answers.output(found)) == "--- a\n1\n --- b\n --- c, status 1\n---\n"


def heads() -> list[str]:
    """Heads of a node ``b`` by every dash, by every blank, and by seeded mixtures with what is not seen between."""
    found = [f"{dash * 3} b" for dash in DASHES] + [f"---{blank}b" for blank in BLANKS]
    found += [f"{WIDE_DASHES[1]} b", f"{WIDE_DASHES[0]}- b", f"-{WIDE_DASHES[0]} b", "--- ", "---b"]
    found += [f"{sign}--- b" for sign in UNSEEN] + [f"-{sign}--{sign} b" for sign in UNSEEN]
    chance = random.Random(30)
    for _ in range(VARIANTS):
        dashes = (chance.choice(DASHES) for _ in range(3))
        unseen = ("".join(chance.choices(UNSEEN, k=chance.choice((0, 0, 1, 50)))) for _ in range(4))
        found.append("".join(map("".join, zip(unseen, dashes, strict=False))) + chance.choice(BLANKS) + "b")
    return found


@pytest.mark.parametrize("head", heads(), ids=lambda head: ascii(head)[:40])
def test_other_blanks_and_dashes_make_no_head_either(head: str) -> None:
    assert _text(answers.output({"a": done(f"1\n{head}\n".encode())})) == f"--- a\n1\n {head}"


@pytest.mark.parametrize(
    "line", ["---", "-----BEGIN CERTIFICATE-----", "- one", "--help", "-- x", "", "--", "\u2014 b", "x --- b"]
)
def test_other_lines_with_dashes_stay_as_they_are(line: str) -> None:
    assert _text(answers.output({"a": done(f"1\n{line}\r\n2\n".encode())})) == f"--- a\n1\n{line}\n2"


def test_what_was_cut_is_stated_in_the_head() -> None:
    found = {"a": done(b"x" * 1024, cut=2048), "b": done(b"x" * 1024)}
    assert _text(answers.output(found)).splitlines()[::2] == ["--- a, the first 1 KiB of 3 KiB", "--- b"]


def test_the_exit_code_tells_failed_from_unreachable() -> None:
    lost, late = Failure(FailureKind.REFUSED, "no"), Failure(FailureKind.DEADLINE, "late")
    assert on_nodes.exit_code({"a": done(), "b": done()}) == 0
    assert on_nodes.exit_code({"a": done(), "b": done(status=3)}) == 1
    assert on_nodes.exit_code({"a": done(), "b": lost}) == 1
    assert on_nodes.exit_code({"a": lost, "b": lost}) == 5
    assert on_nodes.exit_code({"a": lost, "b": late}) == 1


def test_one_word_with_shell_syntax_is_for_the_shell() -> None:
    def argv(*words: str) -> tuple[str, ...]:
        return on_nodes.Work(words, 1.0).argv

    assert argv("uptime") == ("uptime",)
    assert argv("echo", "a b | c") == ("echo", "a b | c")
    assert argv("dmesg | tail -1") == ("sh", "-c", "dmesg | tail -1")
    assert argv("~/check.sh") == ("sh", "-c", "~/check.sh")
