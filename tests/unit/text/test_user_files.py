"""Files that users name: anything but a bounded regular file is refused at once, with what to do."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from clusterctl.text import user_files
from clusterctl.text.user_files import UnfitFileError

LIMIT = 1000


def refusal(path: Path | str, *, pipes: bool = False) -> UnfitFileError:
    with pytest.raises(UnfitFileError) as caught:
        user_files.read(path, LIMIT, pipes=pipes)
    assert caught.value.hint and "expected a regular file of at most 1000 bytes" in (
        caught.value.strerror or ""
    )
    return caught.value


def test_a_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * LIMIT)
    assert user_files.read(tmp_path / "f", LIMIT) == b"x" * LIMIT
    (tmp_path / "link").symlink_to("f")
    assert len(user_files.read(str(tmp_path / "link"), LIMIT)) == LIMIT
    (tmp_path / "f").write_bytes(b"x" * (LIMIT + 1))
    assert "it holds 1001 bytes" in str(refusal(tmp_path / "f"))


def test_pipes_devices_and_sockets_are_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "a pipe (FIFO)" in str(refusal(tmp_path / "pipe"))
    assert "a pipe (FIFO)" in str(refusal(tmp_path / "pipe", pipes=True)), "no writer may ever come"
    for device in ("/dev/zero", "/dev/urandom", "/dev/full"):
        assert "a character device" in str(refusal(device))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert "a socket" in str(refusal(tmp_path / "socket"))


def test_a_fifo_that_replaces_the_file_after_the_look_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "plain").write_text("x")
    monkeypatch.setattr(user_files, "_status", lambda _: (tmp_path / "plain").stat())
    assert "a pipe (FIFO)" in str(refusal(tmp_path / "pipe"))
    # This file alone: threads of earlier tests may still close theirs.
    opened = {os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()}
    assert str(tmp_path / "pipe") not in opened, "the refused file was closed"


def test_a_file_that_claims_no_size_is_bounded_as_it_is_read(tmp_path: Path) -> None:
    # Files of /proc have a size of 0, whatever they hold.
    with pytest.raises(UnfitFileError, match="it holds more"):
        user_files.read("/proc/self/smaps", 100)


def test_the_null_device_is_an_empty_file() -> None:
    assert user_files.read(os.devnull, LIMIT) == b""
    assert user_files.problem_with(os.devnull) is None


def test_a_missing_file_and_a_directory_are_the_systems_own_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        user_files.read(tmp_path / "missing", LIMIT)
    with pytest.raises(IsADirectoryError):
        user_files.read(tmp_path, LIMIT)
    with pytest.raises(OSError, match="null"):
        user_files.read("a\0b", LIMIT)
    assert user_files.problem_with(tmp_path / "missing") is None


def test_a_pipe_of_the_shell_is_read_to_its_end() -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb"):
        writer = threading.Thread(target=lambda: (os.write(theirs, b"version: 1\n"), os.close(theirs)))
        writer.start()
        assert user_files.read(f"/dev/fd/{ours}", LIMIT, pipes=True) == b"version: 1\n"
        writer.join()


def test_a_pipe_of_the_shell_is_refused_where_none_is_expected() -> None:
    with subprocess.Popen(("echo", "x"), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert "a pipe (FIFO)" in str(refusal(f"/dev/fd/{process.stdout.fileno()}"))


def test_a_pipe_whose_writer_stays_is_left_after_the_limit_of_time_and_of_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "wb", buffering=0) as writer:
        monkeypatch.setattr(user_files, "PIPE_TIMEOUT_S", 0.05)
        with pytest.raises(UnfitFileError, match="did not end within"):
            user_files.read(f"/dev/fd/{ours}", LIMIT, pipes=True)
        writer.write(b"x" * (LIMIT + 1))
        assert "it holds more" in str(refusal(f"/dev/fd/{ours}", pipes=True))


def test_text_has_the_lines_that_open_gives(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\r\nb\rc\xff")
    assert user_files.read_text(tmp_path / "f", LIMIT, errors="replace") == "a\nb\nc\ufffd"
    with pytest.raises(UnicodeDecodeError):
        user_files.read_text(tmp_path / "f", LIMIT)


@pytest.mark.parametrize(
    ("size", "said"),
    [(0, "0 bytes"), (1000, "1000 bytes"), (4 << 20, "4 MiB"), (1536, "1536 bytes"), (1 << 30, "1 GiB")],
)
def test_sizes_are_said_in_the_unit_that_divides_them(size: int, said: str) -> None:
    assert user_files.size_text(size) == said
