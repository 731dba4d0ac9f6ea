"""Every file that a user names and clusterctl reads: a pipe without a writer and a device end in an error at once."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterctl import config
from clusterctl.apply import carry, payload
from clusterctl.cli import up
from clusterctl.cli.inventory import importing as import_verb
from clusterctl.cli.main import main
from clusterctl.errors import ClusterctlError, ConfigError, InventoryError, PlanError
from clusterctl.facts import earlier
from clusterctl.facts.recording.store import RecordingReader
from clusterctl.images import packages
from clusterctl.inventory.model import Node
from clusterctl.lab import model as lab
from clusterctl.results import baseline_files, folders
from clusterctl.rundir import RunDir

Place = Callable[[str], Path]


@pytest.fixture(params=["pipe", "device"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A function that puts a pipe, or a link to a device, at a path below ``tmp_path``."""

    def put(name: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if request.param == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        return path

    return put


def refused(read: Callable[[], object], kind: type[ClusterctlError] = ClusterctlError) -> None:
    with pytest.raises(kind, match=r"it is a (pipe|character device)") as caught:
        read()
    assert "expected a regular file" in caught.value.message
    assert caught.value.hint


def test_documents_of_runs_results_and_labs(endless: Place, tmp_path: Path) -> None:
    endless("run/facts.json")
    refused(lambda: RunDir(tmp_path / "run").read("facts"))
    endless("results/results.json")
    refused(lambda: folders.read(tmp_path / "results"))
    endless("baselines/b.baseline.json")
    refused(lambda: baseline_files.load("b", tmp_path))
    endless("lab/state.json")
    refused(lambda: lab.load(tmp_path / "lab"))
    assert earlier._read(endless("former/facts.json")) == {}, "what former runs saw is not needed"


def test_a_recording(endless: Place, tmp_path: Path) -> None:
    endless("recording/manifest.json")
    with pytest.raises(ConfigError, match=r"not a complete recording: manifest\.json"):
        RecordingReader(tmp_path / "recording").read("manifest.json")


def test_what_is_carried_to_nodes(endless: Place, tmp_path: Path) -> None:
    endless("packages/SHA256SUMS")
    refused(lambda: carry.read(str(tmp_path / "packages"), "apt", ()), PlanError)
    endless("more/a_1_all.deb")
    (tmp_path / "more/SHA256SUMS").write_text(f"{'0' * 64}  a_1_all.deb\n")
    refused(lambda: carry.read(str(tmp_path / "more"), "apt", ("a",)), PlanError)
    refused(lambda: payload.pack(str(endless("tree.tar"))), PlanError)
    refused(lambda: packages.sha256_of(endless("nccl.txz")))


def test_known_hosts_of_jump_hosts(endless: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLUSTERCTL_KNOWN_HOSTS", raising=False)
    node = Node(name="a", address="a", proxy_jump="j", known_hosts=str(endless("kh")))
    refused(lambda: up._jump_known_hosts((node,)), ConfigError)
    assert up._jump_known_hosts((node.model_copy(update={"known_hosts": os.devnull}),)) == ""


def test_the_settings_of_the_tool(endless: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(config.FANOUT.variable, raising=False)
    endless("clusterctl/config.yaml")
    refused(lambda: config.resolve(config.FANOUT), ConfigError)


@pytest.mark.parametrize(
    "text",
    [
        f"fanout: {'[' * 20_000}",
        "fanout: [&a [1, 1], "
        + ", ".join(f"&{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]" for i in range(24))
        + "]",
        f"fanout: -0x{'f' * 60_000}",
        f"fanout: {'9' * 5000}",
        "#" * 70_000,
    ],
)
def test_settings_that_multiply_are_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(config.FANOUT.variable, raising=False)
    (tmp_path / "clusterctl").mkdir()
    (tmp_path / "clusterctl/config.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.resolve(config.FANOUT)
    assert len(caught.value.message) < 1000


def test_verbs_that_read_a_file(endless: Place, capsys: pytest.CaptureFixture[str]) -> None:
    for words, code in (
        (("check", str(endless("inventory.yaml"))), 4),
        (("inventory", "import", str(endless("hosts"))), 4),
        (("explain", str(endless("run.log"))), 3),
        (("render", "hostfile", "--lint", str(endless("hostfile"))), 9),
    ):
        assert main(list(words)) == code
        said = capsys.readouterr().err
        assert "expected a regular file" in said and "give that file instead" in said, words


def test_files_beside_an_imported_one(endless: Place, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("[a]\nx\n")
    endless("group_vars/a.yml")
    refused(lambda: import_verb._source(str(tmp_path / "hosts")), InventoryError)


def test_files_beside_an_imported_one_are_bounded_over_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hosts").write_text("[a]\nx\n")
    (tmp_path / "group_vars").mkdir()
    for i in range(5):
        (tmp_path / f"group_vars/g{i}.yml").write_text("a: 1\n")
    assert len(import_verb._source(str(tmp_path / "hosts")).beside) == 5
    monkeypatch.setattr(import_verb, "MAX_BYTES_BESIDE", 20)
    with pytest.raises(InventoryError, match="with it, 5 files of 25 characters belong"):
        import_verb._source(str(tmp_path / "hosts"))
    monkeypatch.setattr(import_verb, "MAX_FILES", 3)
    with pytest.raises(InventoryError, match="with it, 4 files"):
        import_verb._source(str(tmp_path / "hosts"))


def test_explain_follows_a_pipe_of_the_shell(tmp_path: Path) -> None:
    program = "import sys; from clusterctl.cli.main import main; sys.exit(main())"
    written = "sleep 0.2; echo 'Host key verification failed.'"
    ran = subprocess.run(
        ("bash", "-c", f'"$0" -c "$1" explain <({written})', sys.executable, program),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0 and "ssh-host-key-unknown" in ran.stdout, ran.stderr


def test_source_trees_are_bounded_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload, "LIMIT_BYTES", 30_000)
    (tmp_path / "tree").mkdir()
    for name in "ab":
        (tmp_path / "tree" / name).write_bytes(b"x" * 20_000)
    with pytest.raises(PlanError, match="holds more than 30000 bytes"):
        payload.pack(str(tmp_path / "tree"))
    with tarfile.open(tmp_path / "tree.tgz", "w:gz") as tar:
        tar.add(tmp_path / "tree", "tree")
    with pytest.raises(PlanError, match="holds more than 30000 bytes"):
        payload.pack(str(tmp_path / "tree.tgz"))
