"""What reaches a node's login shell means the same to every shell, whatever the arguments contain."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from clusterctl.errors import CommandError
from clusterctl.transport.command import checked_argv, end_text, for_login_shell, shell_text, shown

SHOW = ("sh", "-c", 'for a in "$@"; do printf "%s\\0" "$a"; done; printf "%s" "${V-unset}"', "sh")
SHELLS = [shell for shell in ("sh", "bash", "csh", "tcsh", "fish", "zsh") if shutil.which(shell)]
hostile = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=40)


def run_line(shell, line):
    return subprocess.run((shell, "-c", line), capture_output=True, timeout=20, check=False)


@pytest.mark.parametrize("shell", SHELLS)
@given(words=st.lists(hostile, max_size=4), value=hostile, deadline=st.sampled_from([None, 5.0]))
@example(
    words=["a'b", 'c"d', "$HOME `id` $(id)", "!!", "\\", "\\n", "line\nbreak\n"], value="-n\n", deadline=None
)
@example(
    words=["", "*", "~", "-rf", "%s%n", "a;b&&c|d>e<f", "é\u2028\U0001f4a9", "\x01\x7f"],
    value="",
    deadline=5.0,
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_arguments_and_environment_arrive_as_they_were(shell, words, value, deadline):
    text = shell_text(checked_argv((*SHOW, *words), {"V": value}), marker="begin", timeout_s=deadline)
    done = run_line(shell, for_login_shell(text))
    start, _, rest = done.stdout.partition(b"\n")
    assert start.split()[0] == b"begin" and start.split()[1].isdigit()
    assert rest == b"".join(word.encode() + b"\0" for word in words) + value.encode()
    assert done.returncode == 0 and done.stderr == b""


def test_bytes_of_file_names_that_are_not_utf8_arrive_too():
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    line = for_login_shell(
        shell_text(checked_argv(("printf", "%s", name), None), marker=None, timeout_s=None)
    )
    assert run_line("sh", line).stdout == b"caf\xe9"


def test_a_plain_command_stays_readable():
    text = shell_text(("sh", "-s"), marker="m", timeout_s=None)
    assert for_login_shell(text) == "exec sh -c 'echo m $$; exec sh -s'"


def test_what_no_process_can_be_given_is_refused():
    for argv, env in (
        ((), None),
        (("echo", "a\0b"), None),
        (("true",), {"A B": "x"}),
        (("true",), {"A=B": ""}),
    ):
        with pytest.raises(CommandError):
            checked_argv(argv, env)
    with pytest.raises(CommandError, match="Linux accepts at most"):
        for_login_shell("echo " + "x" * 140_000)


@pytest.mark.parametrize("deadline", [None, 5.0])
def test_a_missing_program_is_status_127_and_the_shell_says_so(deadline):
    line = for_login_shell(shell_text(("no-such-program-here",), marker="m", timeout_s=deadline))
    done = run_line("sh", line)
    assert done.returncode == 127
    assert b"no-such-program-here: not found" in done.stderr and b"timeout" not in done.stderr


def test_the_guard_ends_a_command_that_nobody_waits_for():
    text = shell_text(("sleep", "60"), marker=None, timeout_s=0.01)
    # 0.01 s round up to 1 s, and 2 s of grace: status 124 is timeout(1)'s own.
    assert subprocess.run(("sh", "-c", text), timeout=20, check=False).returncode == 124


def test_a_command_is_ended_with_its_children():
    text = shell_text(("sh", "-c", "sleep 300 & sleep 300"), marker="m", timeout_s=None)
    with subprocess.Popen(("sh", "-c", text), stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline().split()[1])
        assert pid == process.pid
        subprocess.run(("sh", "-c", end_text(pid)), timeout=20, check=False)
        # The pipe ends only when the child in the background has ended too.
        assert process.stdout.read() == b""


def test_commands_are_short_in_messages():
    assert shown(("sh", "-c", "a\nb")) == "sh -c 'a b'"
    assert len(shown(("x" * 500,))) == 80
