"""A command's conversation: login noise, sudo's question, lines, limits; no wire involved."""

from __future__ import annotations

import logging
import random
import threading
import time

import pytest
from hostile_texts import VARIANTS

from clusterctl.inventory.model import Become
from clusterctl.transport import sudo
from clusterctl.transport.base import FailureKind, TransportError
from clusterctl.transport.exchange import Exchange
from clusterctl.transport.sudo import SudoPassword, as_root_text

ARGV = ("cat",)


def kind_of(call, *args):
    with pytest.raises(TransportError) as raised:
        call(*args)
    return raised.value.failure.kind


@pytest.fixture
def password(monkeypatch):
    monkeypatch.setenv(sudo.PASSWORD_VARIABLE, "s3cret'$(x)")
    return SudoPassword()


def test_noise_before_the_start_is_no_output_even_in_pieces():
    exchange = Exchange("n", ARGV, stdin=b"in", marker="m4rk")
    assert exchange.take_input() == (b"", False), "input waits for the start"
    for piece in (b"Welcome!\nm4r", b"k 12", b"3\nou", b"t"):
        exchange.feed_stdout(piece)
    assert exchange.pid == 123
    assert exchange.take_input() == (b"in", True)
    assert exchange.take_input() == (b"", False)
    assert exchange.completed(0).stdout == b"out"


@pytest.mark.parametrize("number", [b"9" * 5000, b"-1", b"0", "٣".encode(), b""])
def test_a_process_id_that_is_none_is_not_kept(number):
    exchange = Exchange("n", ARGV, marker="m4rk")
    exchange.feed_stdout(b"m4rk " + number + b"\nout")
    assert (exchange.started, exchange.pid) == (True, None)
    assert exchange.completed(0).stdout == b"out"


def test_a_shell_that_runs_nothing_is_a_protocol_failure_with_its_words():
    exchange = Exchange("n", ARGV, marker="m")
    exchange.feed_stdout(b"This account is currently not available.\n")
    with pytest.raises(TransportError, match="currently not available") as raised:
        exchange.completed(1)
    assert raised.value.failure.kind is FailureKind.PROTOCOL


def test_lines_arrive_as_they_are_complete_and_the_last_at_the_end():
    lines = []
    exchange = Exchange("n", ARGV, on_line=lines.append)
    exchange.feed_stdout(b"a\nb\xff")
    assert lines == ["a"]
    exchange.feed_stdout(b"\n\nlast")
    assert lines == ["a", "b\ufffd", ""]
    assert exchange.completed(0).stdout == b"", "what was handed on is not kept"
    assert lines[-1] == "last"


def test_what_exceeds_the_kept_bytes_is_counted_and_ends_nothing():
    lines = []
    for on_line in (None, lines.append):
        exchange = Exchange("n", ARGV, on_line=on_line, max_output_bytes=10, keep_bytes=6)
        for _ in range(3):
            exchange.feed_stdout(b"1\n2\n3")
        exchange.feed_stderr(b"123456789")
        exchange.check()
        done = exchange.completed(0)
        assert (done.stdout_cut, done.stderr, done.stderr_cut) == (9, b"123456", 3)
        assert done.stdout == (b"1\n2\n31" if on_line is None else b"")
    assert lines == ["1", "2", "31"]


def test_a_verbose_log_shows_the_whole_command_without_its_secrets(caplog):
    with caplog.at_level(logging.DEBUG, "clusterctl"):
        logging.getLogger("clusterctl").addHandler(caplog.handler)
        try:
            Exchange("n", ("docker", "login", "--password", "hunter2", "x" * 200), stdin=b"s3cret\n")
        finally:
            logging.getLogger("clusterctl").removeHandler(caplog.handler)
    assert f"n: docker login --password ******* {'x' * 200} with a script of 1 lines" in caplog.text
    assert "hunter2" not in caplog.text and "s3cret" not in caplog.text


def test_output_is_bounded():
    exchange = Exchange("n", ARGV, max_output_bytes=1000)
    exchange.feed_stdout(b"x" * 600)
    exchange.check()
    exchange.feed_stderr(b"x" * 600)
    assert kind_of(exchange.check) is FailureKind.PROTOCOL


@pytest.mark.parametrize("keep", [None, 0, 1000, 1 << 30])
def test_errors_before_the_start_are_noise_whatever_is_kept(keep):
    exchange = Exchange("n", ARGV, marker="m", keep_bytes=keep, max_output_bytes=1 << 30)
    exchange.feed_stderr(b"x" * (1 << 20))
    exchange.check()
    exchange.feed_stderr(b"x")
    with pytest.raises(TransportError, match="wrote more than 1 MiB before the command started"):
        exchange.check()
    started = Exchange("n", ARGV, marker="m", keep_bytes=5)
    started.feed_stderr(b"noise ")
    started.feed_stdout(b"m 7\n")
    for _ in range(100):
        started.feed_stderr(b"x" * (1 << 16))
        started.check()
    assert len(started.completed(0).stderr) < 12


NOISE = (
    b"x",
    b"\n",
    b"\r",
    b"\x00",
    b"\xff",
    b"m",
    b"ask",
    b"m 12",
    b"mm ",
    b"\x1b[2J",
    "\u202e".encode(),
    b"m\n",
)
"""Noise without the whole marker ``m4rk `` and the whole question ``ask?``, also with the begin of both."""


@pytest.mark.parametrize("seed", range(VARIANTS))
def test_noise_of_any_kind_before_the_start_ends_at_one_mib(password, seed):
    """On both streams, in pieces of any size; another node with less noise of the same kind is not ended."""
    chance = random.Random(seed)
    noise = (chance.choice(NOISE) * 70_000)[: chance.choice((1, 4095, 4096, 65_536))]
    more = {
        "keep_bytes": chance.choice((None, 0, 5, 1 << 30)),
        "max_output_bytes": chance.choice((2 << 20, 1 << 30)),
    }
    on_line = chance.choice((None, [].append))

    def new(where):
        asks = {"prompt": "ask?", "password": password.of("ops", where), "may_need_sudo": True}
        return Exchange(where, ARGV, marker="m4rk", on_line=on_line, **more, **(asks if seed % 2 else {}))

    bad, held, most = new("bad"), 0, 1 << 20
    with pytest.raises(
        TransportError, match=r"^bad: wrote more than 1 MiB before the command started"
    ) as ended:
        for piece in range(3 * most // min(len(noise), 4096)):
            data = noise if len(noise) > 1 else noise * 4096
            (bad.feed_stderr if chance.random() < 0.5 or not piece else bad.feed_stdout)(data)
            held += len(data)
            bad.check()
    assert most < held <= most + max(len(noise), 4096)
    assert ended.value.failure.kind is FailureKind.PROTOCOL and not bad.started
    good = new("good")
    good.feed_stderr(noise)
    good.feed_stdout(noise + b"\nm4rk 7\n")
    good.check()
    assert (good.started, good.pid) == (True, 7)


PIECES = (
    *(b"", b"plain", b" ", b"\r", b"\xff", b"\x00", b"\x1b[2J", b"\t", b"x" * 2999, b"x" * 65_536),
    *(one.encode() for one in ("\u00e9", "\u202e", "\u2028", "\x85", "\U0001f600")),
)


@pytest.mark.parametrize("seed", range(VARIANTS))
def test_lines_in_pieces_of_any_size_are_the_same_lines(seed):
    """Cut inside characters too; kept bytes, line ends and empty lines at every place."""
    chance = random.Random(seed)
    text = b"\n".join(
        b"".join(chance.choices(PIECES, k=chance.randint(0, 4))) for _ in range(chance.randint(1, 9))
    )
    expected = text.decode(errors="replace").split("\n")
    keep = chance.choice((None, len(text), len(text) // 2))
    if keep is not None:
        expected = text[:keep].decode(errors="replace").split("\n")
    lines, sizes = [], chance.choice(((1, 1), (1, 3), (1, 200), (1000, 70_000)))
    exchange, at = Exchange("n", ARGV, on_line=lines.append, keep_bytes=keep), 0
    while at < len(text):
        size = chance.randint(*sizes) if len(text) < 5000 or sizes[1] > 200 else chance.randint(200, 3000)
        exchange.feed_stdout(text[at : at + size])
        at += size
    done = exchange.completed(0)
    assert lines == expected[: None if expected[-1] else -1]
    assert done.stdout == b"" and done.stdout_cut == (0 if keep is None else len(text) - keep)


def test_a_line_that_arrives_byte_by_byte_is_one_line():
    lines = []
    exchange = Exchange("n", ARGV, on_line=lines.append)
    for byte in b"first\n" + b"y" * 3000 + b"\n\nlast\n":
        exchange.feed_stdout(bytes([byte]))
    assert lines == ["first", "y" * 3000, "", "last"]


def test_lines_that_were_handed_on_count_as_output():
    exchange = Exchange("n", ARGV, on_line=lambda _: None, max_output_bytes=1000)
    exchange.feed_stdout(b"x" * 600 + b"\n")
    exchange.check()
    exchange.feed_stdout(b"x" * 600 + b"\n")
    assert kind_of(exchange.check) is FailureKind.PROTOCOL


def test_the_deadline(monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr("clusterctl.transport.exchange.time.monotonic", lambda: now)
    exchange = Exchange("n", ARGV, timeout_s=0.05)
    exchange.check()
    assert exchange.wait_s <= 0.05
    now += 0.06
    assert kind_of(exchange.check) is FailureKind.DEADLINE


def asking(password, where="n"):
    return Exchange(
        where,
        ARGV,
        stdin=b"data",
        marker="m",
        prompt="ask?",
        password=password.of("ops", where),
        may_need_sudo=True,
    )


def test_the_password_goes_only_to_sudo_and_only_when_it_asks(password):
    exchange = asking(password)
    assert exchange.take_input() == (b"", False)
    exchange.feed_stderr(b"lecture\nas")
    exchange.feed_stderr(b"k?")
    assert exchange.take_input() == (b"s3cret'$(x)\n", False)
    assert exchange.take_input() == (b"", False)
    exchange.feed_stdout(b"m 7\n")
    exchange.check()
    assert exchange.take_input() == (b"data", True)
    done = exchange.completed(0)
    assert done.stderr == b"lecture\n" and b"s3cret" not in done.stdout


def test_without_a_question_the_password_is_not_sent(password):
    exchange = asking(password)
    exchange.feed_stdout(b"m 7\n")
    exchange.feed_stderr(b"ask?")
    assert exchange.take_input() == (b"data", True)
    assert exchange.completed(0).stderr == b"ask?", "what the command says is its own"


@pytest.mark.parametrize("size", [1, 5, 7, 100])
def test_the_question_is_found_in_pieces_of_any_size_and_left_out(password, size):
    exchange = Exchange(
        "n", ARGV, marker="m4rk", prompt="pr0mpt", password=password.of("ops", "n"), may_need_sudo=True
    )
    said = b"Lecture: be careful. pr0mppr0mpt and so on"
    for begin in range(0, len(said), size):
        exchange.feed_stderr(said[begin : begin + size])
    assert exchange.take_input() == (b"s3cret'$(x)\n", False)
    exchange.feed_stdout(b"m4rk 7\n")
    assert exchange.completed(0).stderr == b"Lecture: be careful. pr0mp and so on"


def test_what_sudo_rs_writes_around_the_question_is_left_out(password):
    exchange = asking(password)
    exchange.feed_stderr(b"[sudo: ask?] Password: ")
    assert exchange.take_input() == (b"s3cret'$(x)\n", False)
    exchange.feed_stderr(b"\n")
    exchange.feed_stdout(b"m 7\n")
    exchange.feed_stderr(b"its own [sudo: ] line\n")
    assert exchange.completed(0).stderr == b"its own [sudo: ] line\n"


def test_a_command_is_ended_after_256_mib_that_are_dropped():
    exchange = Exchange("n", ARGV, keep_bytes=1000)
    data = b"x" * (16 << 20)
    for feed in [exchange.feed_stdout, exchange.feed_stderr] * 8:
        exchange.check()
        feed(data)
    exchange.check()
    exchange.feed_stdout(b"x" * 2001)
    with pytest.raises(
        TransportError, match=r"^n: wrote 256 MiB more than is kept, and was ended: "
    ) as raised:
        exchange.check()
    assert raised.value.failure.kind is FailureKind.PROTOCOL


def test_a_flood_before_the_start_is_looked_through_once(password):
    exchange = Exchange(
        "n", ARGV, marker="m4rk", prompt="c" * 27 + "f", password=password.of("ops", "n"), may_need_sudo=True
    )
    began = time.process_time()
    for _ in range(250):
        exchange.feed_stderr(b"c" * 131072)
    exchange.feed_stderr(b"f")
    assert exchange.take_input()[0]
    # With a full search each time it took 4 s and more.
    assert time.process_time() - began < 2


@pytest.mark.parametrize("noise", [b"x", b"m4rk x"])
def test_noise_in_small_pieces_is_looked_through_once(noise):
    exchange = Exchange("n", ARGV, marker="m4rk")
    exchange.feed_stdout(noise)
    began = time.process_time()
    for _ in range(250_000):
        exchange.feed_stdout(b"xxxx")
    # With a full search each time it took 5 s and more.
    assert time.process_time() - began < 2
    assert not exchange.started
    exchange.feed_stdout(b"\n" if len(noise) > 1 else b"m4rk 7\n")
    assert (exchange.started, exchange.pid) == (True, None if len(noise) > 1 else 7)


def test_a_second_question_means_a_wrong_password_which_is_tried_nowhere_else(password):
    exchange = asking(password)
    exchange.feed_stderr(b"ask?")
    exchange.take_input()
    exchange.feed_stderr(b"Sorry, try again.\nask?")
    assert kind_of(exchange.check) is FailureKind.SUDO
    second = asking(password, "other")
    second.feed_stderr(b"ask?")
    with pytest.raises(TransportError, match=r"of ops .* on n$") as raised:
        second.take_input()
    assert "s3cret" not in str(raised.value) + repr(password) + str(raised.value.hint)


def test_other_nodes_wait_for_the_first_to_accept(password):
    first, second = (password.of("ops", node) for node in ("first", "second"))
    assert first.offer(1) is not None
    assert second.offer(0.01) is None, "not while the first has not answered"
    got = []
    waiting = threading.Thread(target=lambda: got.append(second.offer(60)))
    waiting.start()
    first.settle(accepted=True)
    waiting.join(60)
    assert got == ["s3cret'$(x)"]


def test_a_node_that_gives_no_verdict_lets_the_next_one_try(password):
    first = asking(password)
    first.feed_stderr(b"ask?")
    first.take_input()
    first.close()
    assert password.of("ops", "second").offer(0.1) is not None


@pytest.fixture
def typing(monkeypatch):
    """A function ``typing(*answers, expected=1) -> (password, questions)``."""
    monkeypatch.delenv(sudo.PASSWORD_VARIABLE, raising=False)

    def make(*answers, expected=1):
        left, questions = list(answers), []

        def ask(question):
            questions.append(question)
            return left.pop(0)

        return SudoPassword(ask, expected=expected), questions

    return make


def test_a_person_is_asked_once_and_only_when_needed(typing):
    password, questions = typing("typed")
    first = password.of("ops", "n")
    assert first.available and not questions
    assert first.offer(1) == "typed"
    first.settle(accepted=True)
    assert password.of("ops", "o").offer(1) == "typed"
    assert [(q.user, q.nodes) for q in questions] == [("ops", ("n",))]
    nothing, _ = typing(None)
    assert nothing.of("ops", "n").offer(1) is None and not nothing.of("ops", "n").available
    assert not SudoPassword().of("ops", "n").available
    assert nothing.failure is None


def test_a_node_that_comes_while_the_question_is_open_waits_for_the_answer(monkeypatch):
    monkeypatch.delenv(sudo.PASSWORD_VARIABLE, raising=False)
    opened, answer = threading.Event(), threading.Event()

    def ask(_question):
        opened.set()
        assert answer.wait(60)
        return "typed"

    password = SudoPassword(ask)
    first, late = password.of("ops", "first"), password.of("ops", "late")
    got = {}
    threads = [
        threading.Thread(target=lambda one=one: got.update({one.node: one.offer(0.01)}))
        for one in (first, late)
    ]
    threads[0].start()
    assert opened.wait(60)
    assert late.available, "sudo must ask there"
    threads[1].start()
    answer.set()
    threads[0].join(60)
    first.settle(accepted=True)
    threads[1].join(60)
    assert got == {"first": "typed", "late": "typed"}


def test_the_question_names_the_nodes_that_need_the_password(typing):
    password, questions = typing("typed", expected=3)
    ones = [password.of("ops", node) for node in "abc"]

    def work(one):
        if one.offer(60) is not None:
            one.settle(accepted=True)

    threads = [threading.Thread(target=work, args=(one,)) for one in ones]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [sorted(q.nodes) for q in questions] == [["a", "b", "c"]]


def test_a_typed_password_has_three_tries_on_one_node(typing):
    password, questions = typing("one", "two", "three")
    one, other = password.of("ops", "n"), password.of("ops", "o")
    tried = []

    def refuses():
        given = one.offer(1)
        if given is not None:
            tried.append(given)
            one.settle(accepted=False)
        raise TransportError(one.failure("n"))

    with pytest.raises(TransportError, match=r"^n: sudo refused the password of ops on n$") as raised:
        one.retried(refuses)
    assert "n only" in str(raised.value.hint) and sudo.PASSWORD_VARIABLE not in str(raised.value.hint)
    assert tried == ["one", "two", "three"]
    assert [(q.refused_by, q.left) for q in questions] == [(None, 3), ("n", 2), ("n", 1)]
    assert other.offer(1) is None and len(questions) == 3
    assert (
        password.failure is not None and password.failure.message == "sudo refused the password of ops on n"
    )


def test_a_sudo_that_ends_after_one_wrong_password_has_refused_it(typing):
    password, _ = typing("wrong", None)
    exchange = asking(password)
    exchange.feed_stderr(b"ask?")
    exchange.take_input()
    exchange.feed_stderr(b"\nsudo: 1 incorrect password attempt\n")
    with pytest.raises(TransportError, match="refused the password of ops"):
        exchange.completed(1)


def test_each_account_has_a_password_of_its_own(typing):
    password, questions = typing("of ops", "of root2")
    for user in ("ops", "root2"):
        one = password.of(user, f"n-{user}")
        assert one.offer(1) == f"of {user}"
        one.settle(accepted=True)
    assert [q.user for q in questions] == ["ops", "root2"]


def test_a_node_with_another_password_gets_the_accepted_one_once(password):
    first, other = password.of("ops", "n"), password.of("ops", "o")
    first.offer(1)
    first.settle(accepted=True)
    assert other.offer(1) is not None
    other.settle(accepted=False)
    assert other.offer(1) is None
    assert other.failure("o").message == "o: sudo refused the password of ops, which n accepted"
    assert first.offer(1) is not None and password.failure is None


def test_a_closed_connection_does_not_wait_for_the_answer(monkeypatch):
    monkeypatch.delenv(sudo.PASSWORD_VARIABLE, raising=False)
    opened = threading.Event()

    def ask(question):
        opened.set()
        while not question.withdrawn():
            time.sleep(0.01)

    password = SudoPassword(ask)
    ones = [password.of("ops", node) for node in "ab"]
    threads = [threading.Thread(target=one.offer, args=(60,)) for one in ones]
    threads[0].start()
    assert opened.wait(60)
    threads[1].start()
    for one in reversed(ones):
        one.withdraw()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("sudo: a password is required", "no password was given"),
        ("sudo: sorry, you must have a tty to run sudo", "requiretty"),
        ("bob is not in the sudoers file.  This incident will be reported.", "may not use sudo"),
        ("Sorry, user bob is not allowed to execute '/bin/sh -c x' as root on gpu01.", "may not use sudo"),
        ("sh: 1: exec: sudo: not found", "not installed"),
        ("clusterctl: not root, and 'become' set to none", "forbids sudo"),
        ("sudo: Account or password is expired: account has expired", "expired"),
        ("sudo: unable to stat /etc/sudoers", "unable to stat"),
        # sudo-rs 0.2.5 and 0.2.15
        ("sudo-rs: interactive authentication is required", "no password was given"),
        ("sudo: I'm sorry bob. I'm afraid I can't do that", "may not use sudo"),
        ("", "nothing"),
    ],
)
def test_what_sudo_says_becomes_a_reason(said, means):
    exchange = Exchange("n", ARGV, marker="m", may_need_sudo=True)
    exchange.feed_stderr(said.encode())
    with pytest.raises(TransportError, match=means) as raised:
        exchange.completed(1)
    assert raised.value.failure.kind is FailureKind.SUDO and raised.value.failure.hint


def test_sudo_lines():
    inner = "echo m $$; exec id"
    assert as_root_text(inner, become=Become.AUTO, user="root", prompt=None) == inner
    assert "sudo -n -H" in as_root_text(inner, become=Become.SUDO, user="root", prompt=None)
    assert "sudo -S -p tok -H" in as_root_text(inner, become=Become.AUTO, user="bob", prompt="tok")
    assert "sudo" not in as_root_text(inner, become=Become.NONE, user="bob", prompt=None)
