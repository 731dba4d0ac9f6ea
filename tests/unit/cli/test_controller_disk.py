"""A disk of the controller that is full is reported as the controller's, and no node is blamed for it."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from toy_bootstrap import engine

from clusterctl.apply import bootstrap
from clusterctl.apply.journal import Options
from clusterctl.cli import main
from clusterctl.errors import ControllerFileError
from clusterctl.inventory import load
from clusterctl.inventory.model import Node
from clusterctl.rundir import RunDir
from clusterctl.transport.base import Failure, FailureKind, TransportError
from clusterctl.transport.fanout import fan_out
from clusterctl.transport.ssh.host_keys import HostKeyPolicy, ShownKey

INVENTORY = (
    "version: 1\ndefaults: {connection: local}\nnodes:\n- {name: 'n[1-3]', address: '127.0.0.[1-3]'}\n"
)
ONE = "version: 1\nnodes:\n- {name: n1, address: 127.0.0.1, connection: local}\n"
FULL = os.strerror(errno.ENOSPC)
tmpfs = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root, to mount a small file system"
)


class Wire:
    """A connection that waits until it is closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


def test_a_file_of_ours_that_cannot_be_written_ends_all_nodes_work_and_is_raised() -> None:
    wires = {name: Wire() for name in ("n1", "n2", "n3")}
    cut: list[str] = []

    def work(node: Node, wire: Wire) -> None:
        if node.name == "n2":
            raise ControllerFileError("cannot write /x/apply.journal.jsonl")
        assert wire.closed.wait(60)
        cut.append(node.name)
        raise TransportError(Failure(FailureKind.LOST, "cut off"))

    nodes = [Node(name=name, address=name) for name in wires]
    with pytest.raises(ControllerFileError, match=r"apply\.journal"):
        fan_out(nodes, lambda node: wires[node.name], work)  # type: ignore[arg-type,return-value]
    assert all(wire.closed.is_set() for wire in wires.values())
    assert sorted(cut) == ["n1", "n3"]


def test_a_journal_on_a_full_disk_ends_the_bootstrap_before_a_node_is_changed(tmp_path: Path) -> None:
    root = tmp_path / "nodes"
    made = engine(root)
    run = RunDir.create("bootstrap", tmp_path / "runs")
    prepared = bootstrap.prepare(made, load.from_text(ONE), Options(), run)
    (run.path / "apply.journal.jsonl").symlink_to("/dev/full")
    with pytest.raises(ControllerFileError) as raised:
        bootstrap.apply(made, prepared, run)
    assert raised.value.message.endswith(f"apply.journal.jsonl: {FULL} on this machine")
    assert "--resume" in str(raised.value.hint)
    assert not list(root.glob("*/etc/*"))
    # Once there is room, the run goes on from where it is.
    (run.path / "apply.journal.jsonl").unlink()
    result = bootstrap.apply(made, prepared, run)
    assert {name: outcome.failure for name, outcome in result.outcomes.items()} == {"n1": None}
    assert len(list(root.glob("*/etc/*.conf"))) == 3


def test_known_hosts_on_a_full_disk_is_not_the_nodes_failure(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text("n0 ssh-ed25519 AAAA")
    shown = ShownKey("n1", "n1", 22, "ssh-ed25519", "AAAA", files=(str(file),))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30, limits[1]))
    try:
        with pytest.raises(ControllerFileError, match=r"cannot write .*known_hosts: .* on this machine"):
            HostKeyPolicy(accept_new=True).verify(shown)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_text() == "n0 ssh-ed25519 AAAA", "half a line would hide the next one"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG])
def test_a_broken_disk_is_an_error_wherever_it_shows(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(verb: str | None) -> None:
        raise OSError(number, os.strerror(number), "/some/file")

    monkeypatch.setattr(main, "application", fails)
    assert main.main(["check", "--json"]) == 3
    out, err = capsys.readouterr()
    assert f"cannot write /some/file: {os.strerror(number)} on this machine" in err
    assert json.loads(out)["error"]["exit_code"] == 3


def test_another_error_of_the_system_stays_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(verb: str | None) -> None:
        raise OSError(errno.ENOTSUP, "no")

    monkeypatch.setattr(main, "application", fails)
    with pytest.raises(OSError, match="no"):
        main.main(["check"])


@tmpfs
@pytest.mark.parametrize(
    ("options", "file", "size"),
    [
        (("--record", "small/bug", "--runs", "runs"), "small/bug/nodes/n", "24k"),
        (("--record", "small/bug.tar.gz", "--runs", "runs"), "small/bug.tar.gz", "4k"),
        (("--runs", "small"), "small/", "24k"),
    ],
)
def test_a_check_on_a_full_disk_names_the_file_and_blames_no_node(
    tmp_path: Path, options: tuple[str, ...], file: str, size: str
) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "fleet.yaml").write_text(INVENTORY)
    script = (
        f'mount -t tmpfs -o size={size},nr_inodes=40 none small && "$@"; code=$?; ls -A small >&2; exit $code'
    )
    words = ("sh", "-c", script, "sh", sys.executable, "-m", "clusterctl.cli.main", "check", "fleet.yaml")
    done = subprocess.run(
        ("unshare", "-m", *words, *options),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert f"error: cannot write {file}" in done.stderr and f"{FULL} on this machine" in done.stderr
    assert "hint: free space there" in done.stderr
    assert "unreachable" not in done.stderr + done.stdout and "Traceback" not in done.stderr
    assert "\nbug" not in done.stderr, "no half recording is left"
