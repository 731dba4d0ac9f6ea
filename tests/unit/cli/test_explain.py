"""The verb ``explain``: files, directories, compressed logs and standard input; its exit codes and its JSON."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusterctl.cli import main as cli
from clusterctl.cli.failed_launch import say_cause
from clusterctl.report.known_errors import topic_files
from clusterctl.report.known_errors.run_logs import cause_in, of_ranks
from clusterctl.report.known_errors.scan import Scan
from clusterctl.rundir import RunDir

ERROR = "gpu02:5120:5166 [0] misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory"
ERROR += "\n"


def test_a_known_error_is_explained_with_its_source_and_its_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.log").write_text("fine\n" * 3 + ERROR * 2)
    assert cli.main(["explain", str(tmp_path / "run.log")]) == 0
    said = capsys.readouterr().out
    assert "nccl-memlock (NCCL): line 4, 2 times, last at 5; on gpu02" in said
    assert "clusterctl check INVENTORY --only memlock" in said
    assert "https://github.com/NVIDIA/nccl-tests/issues/206" in said


def test_nothing_known_exits_1_and_shows_what_looks_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.log").write_text("fine\nsome new error of the day\n")
    assert cli.main(["explain", str(tmp_path / "run.log")]) == 1
    said = capsys.readouterr().out
    assert "The catalogue of known errors matches no line" in said
    assert "line 2: some new error of the day" in said


def test_consequences_alone_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.log").write_text("E: Sub-process /usr/bin/dpkg returned an error code (1)\n")
    assert cli.main(["explain", str(tmp_path / "run.log")]) == 1
    assert "The cause is not in the catalogue" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(9), "a program, library or core dump (ELF)"),
        (b"LPKSHHRH" + bytes(50), "journalctl --file="),
        (b"\xfd7zXZ\x00\x00", "xzcat "),
        (bytes(range(256)) * 20, "is a binary file"),
    ],
)
def test_a_binary_file_is_refused_in_words(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.log").write_bytes(content)
    assert cli.main(["explain", str(tmp_path / "x.log")]) == 3
    assert said in capsys.readouterr().err
    (tmp_path / "y.log").write_text(ERROR)
    assert cli.main(["explain", str(tmp_path)]) == 0
    caught = capsys.readouterr()
    assert caught.err.startswith("skipped: ") and "nccl-memlock" in caught.out


def test_a_log_with_colours_and_a_tail_of_nul_is_text(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"\x1b[31mred\x1b[0m \x08\x08\n" * 100 + ERROR.encode() + bytes(6000))
    assert cli.main(["explain", str(tmp_path / "x.log")]) == 0


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ERROR.encode())))
    assert cli.main(["explain", "-", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["files"] == [{"name": "standard input", "lines": 1, "size_bytes": len(ERROR)}]
    assert document["findings"][0]["id"] == "nccl-memlock"


def test_several_files_a_folder_and_a_compressed_log_are_read_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    (tmp_path / "logs" / "b.log").write_text(ERROR)
    (tmp_path / "logs" / "deep" / "c.log").write_text(
        "ssh: connect to host gpu05 port 22: No route to host\n"
    )
    (tmp_path / "logs" / "not-a-log.json").write_text(ERROR)
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"Host key verification failed.\n"))
    assert cli.main(["explain", str(tmp_path / "a.log.gz"), str(tmp_path / "logs"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [Path(file["name"]).name for file in document["files"]] == ["a.log.gz", "b.log", "c.log"]
    assert [finding["id"] for finding in document["findings"]] == [
        "ssh-host-key-unknown",
        "nccl-memlock",
        "ssh-unreachable",
    ]
    assert document["findings"][2]["hosts"] == ["gpu05"]


def test_what_cannot_be_read_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", str(tmp_path / "nothing.log")]) == 3
    assert "No such file" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert cli.main(["explain", str(tmp_path / "empty")]) == 2
    assert cli.main(["explain", "-", "-"]) == 2
    assert cli.main(["explain", "x" * 300]) == 3
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"x" * 10000)[:20])
    assert cli.main(["explain", str(tmp_path / "cut.gz")]) == 3
    assert "Traceback" not in capsys.readouterr().err


def test_a_folder_that_may_not_be_looked_into_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def walk(top: str, onerror: Callable[[OSError], object]) -> Iterator[tuple[str, list[str], list[str]]]:
        yield top, ["closed"], ["a.log"]
        onerror(PermissionError(13, "Permission denied", f"{top}/closed"))

    (tmp_path / "a.log").write_text(ERROR)
    monkeypatch.setattr("clusterctl.report.known_errors.run_logs.os.walk", walk)
    assert cli.main(["explain", str(tmp_path)]) == 0
    assert capsys.readouterr().err == f"skipped: {tmp_path}/closed: Permission denied\n"


def test_a_damaged_compressed_log_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(gzip.compress(ERROR.encode() * 1000))
    data[40:42] = b"\xff\xff"
    (tmp_path / "run.gz").write_bytes(data)
    assert cli.main(["explain", str(tmp_path / "run.gz")]) == 3
    assert "run.gz: the compressed file is damaged: " in capsys.readouterr().err


def test_a_compressed_log_may_come_on_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = io.BufferedReader(io.BytesIO(gzip.compress(ERROR.encode())))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
    assert cli.main(["explain", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["id"] == "nccl-memlock"


def test_an_empty_log_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.log").touch()
    assert cli.main(["explain", str(tmp_path / "empty.log")]) == 1
    assert "The catalogue of known errors matches no line" in capsys.readouterr().out


def test_help_names_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    assert "\n  explain " in capsys.readouterr().out


@pytest.mark.parametrize("as_json", [True, False])
def test_escape_codes_of_a_log_never_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    (tmp_path / "x.log").write_bytes(
        b"\x1b]0;title\x07\x9b31m\x1b[2J\x1b(B some error \x1b[31m" + ERROR.encode()
    )
    cli.main(["explain", str(tmp_path / "x.log"), *(["--json"] if as_json else [])])
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\x9b" not in said and "\x07" not in said


def test_a_run_is_explained_by_a_part_of_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLUSTERCTL_RUNS", str(tmp_path))
    for run in ("20261101T000000Z-bench-0a01", "20261101T000001Z-bench-0a02"):
        logs = tmp_path / run / "logs"
        logs.mkdir(parents=True)
        (logs / "rank-0.log").write_text("RuntimeError: CUDA out of memory\n")
    (tmp_path / "20261101T000002Z-check-0a03").mkdir()
    (tmp_path / "20261101T000003Z-bench-0b04" / "logs").mkdir(parents=True)
    for named, run in (("latest", "0a02"), ("0a01", "0a01")):
        cli.main(["explain", named])
        assert f"bench-{run}/logs/rank-0.log" in capsys.readouterr().out
    assert cli.main(["explain", "bench-0a"]) == 2
    assert "matches 2 runs" in capsys.readouterr().err
    assert cli.main(["explain", "0a"]) == 3
    assert "cannot read 0a: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "said"),
    [("sites/my fleet.yaml", " 'sites/my fleet.yaml'"), ("inventory.yaml", ""), (None, "")],
)
def test_the_check_of_a_run_names_its_inventory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str | None, said: str
) -> None:
    run = tmp_path / "20261101T000000Z-bench-0a01"
    (run / "logs").mkdir(parents=True)
    (run / "logs" / "rank-0.log").write_text(ERROR)
    (run / "inventory.json").write_text(json.dumps({"source": source, "nodes": []}))
    assert cli.main(["explain", str(run)]) == 0
    assert f"clusterctl check{said} --only memlock" in capsys.readouterr().out


def test_a_run_that_failed_shows_its_own_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLUSTERCTL_RUNS", str(tmp_path))
    run = tmp_path / "20261101T000000Z-bench-0a01"
    (run / "logs").mkdir(parents=True)
    fault = {
        "kind": "rank-died",
        "message": "rank 1 on gpu02 died of signal 9 (kill)",
        "rank": 1,
        "node": "gpu02",
    }
    (run / "results.json").write_text(json.dumps({"proof": {"failures": [{**fault, "hint": None}]}}))
    assert cli.main(["explain", "0a01"]) == 1
    said = capsys.readouterr().out
    assert "  failed: rank-died: rank 1 on gpu02 died of signal 9 (kill)" in said
    assert "no log, because it ended before a launch" in said
    (run / "logs" / "launcher.log").write_text("fine\n")
    assert cli.main(["explain", "0a01"]) == 1
    assert "failed: rank-died: rank 1 on gpu02" in capsys.readouterr().out


def test_a_failed_launch_names_the_known_cause_of_its_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "launcher.log"
    lines = [f"ssh: Could not resolve hostname gpu{i:02d}: Name or service not known\n" for i in (5, 6)]
    log.write_text("".join(lines))
    say_cause(cause_in(tmp_path), RunDir(tmp_path))
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("cause: ssh-resolve on gpu[05-06]: The name is missing")
    assert said[1].startswith("fix: Put addresses into the inventory")
    assert said[2] == f"log: logs/launcher.log:1: {lines[0].strip()}"
    assert said[3] == f"hint: for other errors in the logs: clusterctl explain {tmp_path}"


def test_a_failed_launch_reads_the_end_of_a_long_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rank-0.log").write_text(ERROR + "fine\n" * 1_000_000 + "RuntimeError: CUDA out of memory\n")
    say_cause(cause_in(tmp_path), RunDir(tmp_path))
    said = capsys.readouterr().err
    assert "log: rank-0.log:1000002: RuntimeError: CUDA out of memory" in said
    assert "nccl-memlock" not in said


def test_the_cause_of_some_logs_is_not_that_of_others(tmp_path: Path) -> None:
    for row in ("preflight", "collective"):
        (tmp_path / "logs" / row).mkdir(parents=True)
    (tmp_path / "logs" / "preflight" / "launcher.log").write_text("ssh: Could not resolve hostname gpu05\n")
    (tmp_path / "logs" / "gpu-gemm.log").write_text(ERROR)
    assert cause_in(tmp_path, ["logs/collective"]) is None
    found = cause_in(tmp_path, ["logs/collective", "logs/gpu-gemm.log", "logs/gone.log"])
    assert found is not None
    assert (found.id, found.hosts, found.log.file) == ("nccl-memlock", ("gpu02",), "logs/gpu-gemm.log")


def test_the_log_of_a_rank_names_only_the_node_of_that_rank(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    forged = "gpu01:1:2 [0] NCCL WARN Cuda failure 999 'unknown error'\n"
    (tmp_path / "logs" / "rank-2.log").write_text(forged)
    for launches, hosts in (
        ([("gpu01", "gpu02", "gpu03")], ("gpu03",)),
        ([("gpu01", "gpu02", "gpu03"), ("gpu01", "gpu02", "gpu04")], ()),
        ([("gpu01", "gpu02")], ()),
    ):
        found = cause_in(tmp_path, node_of=of_ranks(*launches))
        assert found is not None
        assert found.hosts == hosts


def test_no_line_of_the_catalogue_in_a_log_of_a_rank_names_another_node(tmp_path: Path) -> None:
    """Every example of every entry behind every form that names a host, in the log of a rank of gpu03."""
    examples = [line for entry in topic_files.load() for text in entry.examples for line in text.splitlines()]
    assert len(examples) > 100
    forms = (
        "gpu01:1:2 [0] {}",
        "[gpu01:03211] {}",
        "Nov 21 07:01:02 gpu01 kernel: {}",
        "srun: error: gpu01: task 0: {}",
        "{}",
    )
    text = "\n".join(form.format(line) for form in forms for line in examples).replace("gpu02", "gpu01")
    for node in ("gpu03", ""):
        scan = Scan(topic_files.load())
        scan.read("logs/rank-2.log", io.BytesIO(text.encode()), node=node)
        named = {host for found in scan.findings for host in found.hosts}
        assert len(scan.findings) > 100 and named == ({"gpu03"} if node else set())


def test_who_reports_ranks_out_of_step_is_not_named(tmp_path: Path) -> None:
    said = "desync: ranks called different operations: rank 3 is in barrier(), rank 1 is in send()\n"
    (tmp_path / "rank-0.log").write_text(said)
    found = cause_in(tmp_path, node_of=of_ranks(("gpu01", "gpu02")))
    assert found is not None
    assert (found.id, found.hosts) == ("ccore-out-of-step", ())


def test_a_line_of_a_kept_kernel_log_names_its_node(tmp_path: Path) -> None:
    kill = "Out of memory: Killed process 2334 (python3) total-vm:346800kB"
    (tmp_path / "kernel-gpu02.log").write_text(f"[  152.655906] gpu02 kernel: {kill}\n")
    found = cause_in(tmp_path)
    assert found is not None
    assert (found.id, found.hosts) == ("kernel-oom-kill", ("gpu02",))
