"""``clusterctl runs``: the run folders of all commands, on real ones that commands made and on lookalikes."""

from __future__ import annotations

import json
from pathlib import Path

import bench_documents as documents
import pytest
from result_documents import collective

from clusterctl.cli import main as cli
from clusterctl.report.check_document import document_of
from clusterctl.requirements.base import Decision, Status
from clusterctl.results import baseline as rules
from clusterctl.results import baseline_files, words
from clusterctl.results.record import result_of
from clusterctl.rundir import RunDir, keep_error
from clusterctl.runs import outcome
from clusterctl.transport.base import Failure, FailureKind, HostMap
from clusterctl.views import runs as views

INVENTORY = {"nodes": [{"name": f"gpu{i:02}"} for i in range(1, 5)]}


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLUSTERCTL_RUNS", "runs")
    return tmp_path / "runs"


def bench_document(run: str) -> dict[str, object]:
    return dict(collective(run=run).document)


def made(root: Path, run: str, label: str | None = None, **stages: object) -> RunDir:
    """Return a run folder with the documents of some stages."""
    folder = RunDir(root / run)
    folder.path.mkdir(parents=True)
    folder.write("inventory", INVENTORY)
    for stage, document in stages.items():
        folder.write(stage, document)
    if label is not None:
        folder.set_label(label)
    return folder


def check(**summary: int) -> dict[str, object]:
    counts = {"met": 4, "unmet": 0, "unknown": 0, "not_applicable": 0, "unreachable": 0, **summary}
    return {"schema": "clusterctl.check/1", "nodes": [], "summary": counts, "drift": []}


def steps(**summary: int) -> dict[str, object]:
    return {"nodes": [], "summary": {"changed": 0, "failed": 0, "planned": 0, "unreachable": 0, **summary}}


def outcomes(capsys, *words: str) -> dict[str, tuple[str, str]]:
    capsys.readouterr()
    assert cli.main(["runs", "list", "--json", *words]) == 0
    return {
        one["run"]: (one["outcome"], one["detail"]) for one in json.loads(capsys.readouterr().out)["runs"]
    }


def test_a_check_that_reached_no_node_is_not_listed_as_unmet(root, capsys):
    made(root, "20261101T000000Z-check-0001", report=check(met=0, unreachable=5))
    assert cli.main(["runs", "list"]) == 0
    assert "  down: 5 unreachable  gpu[01-04] (4)" in capsys.readouterr().out


def test_every_outcome_is_read_from_the_documents_of_its_command(root, capsys):
    applied = {"state": "finished"}
    made(root, "20261101T000000Z-check-0001", report=check())
    made(root, "20261101T000001Z-check-0002", report=check(unmet=3, unreachable=1))
    made(root, "20261101T000002Z-check-0003")
    made(root, "20261101T000003Z-bootstrap-0004", report=steps(planned=8))
    made(root, "20261101T000004Z-bootstrap-0005", apply=applied, report=steps(changed=12))
    made(
        root, "20261101T000005Z-bootstrap-0006", apply=applied, report=steps(changed=1, failed=2, not_done=3)
    )
    made(root, "20261101T000006Z-bootstrap-0007", apply={"state": "cut"})
    made(root, "20261101T000007Z-undo-0008", report=steps(changed=12))
    made(root, "20261101T000007Z-undo-0018", report=steps(changed=9, unreachable=1))
    made(root, "20261101T000007Z-undo-0028", report=steps(changed=9, failed=1, unreachable=1))
    made(root, "20261101T000008Z-preflight-0009", preflight={"status": "failed"})
    up = made(root, "20261101T000009Z-up-000a", launch={"run": "x", "nodes": []})
    (up.path / "containers.yaml").write_text("")
    made(root, "20261101T000010Z-up-000b", launch={"run": "x", "nodes": []})
    made(root, "20261101T000011Z-bench-000c", results=bench_document("20261101T000011Z-bench-000c"))
    made(root, "20261101T000012Z-check-000d").file("report").write_text("{")
    made(root, "20261101T000013Z-check-000e", report={"summary": []})
    running = RunDir.create("check", root)
    found = outcomes(capsys)
    assert list(found) == sorted(found, reverse=True)
    assert {run[-4:]: outcome for run, outcome in found.items() if run != running.id} == {
        "0001": ("ok", ""),
        "0002": ("unmet", "3 unmet, 1 unreachable"),
        "0003": ("interrupted", ""),
        "0004": ("planned", "8 planned"),
        "0005": ("changed", "12 changed"),
        "0006": ("failed", "1 changed, 2 nodes failed, 3 not done"),
        "0007": ("unfinished", ""),
        "0008": ("changed", "12 changed"),
        "0018": ("unfinished", "9 changed, 1 node unreachable"),
        "0028": ("failed", "9 changed, 1 node failed, 1 node unreachable"),
        "0009": ("failed", ""),
        "000a": ("up", ""),
        "000b": ("removed", ""),
        "000c": ("ok", found["20261101T000011Z-bench-000c"][1]),
        "000d": ("unreadable", found["20261101T000012Z-check-000d"][1]),
        "000e": ("unreadable", found["20261101T000013Z-check-000e"][1]),
    }
    assert found[running.id] == ("running", "")
    assert "GB/s" in found["20261101T000011Z-bench-000c"][1]
    # The path of the run folder would only push the nodes out of the line.
    assert found["20261101T000012Z-check-000d"][1].startswith("report.json")
    assert list(outcomes(capsys, "--verb", "undo")) == [f"20261101T000007Z-undo-00{n}8" for n in (2, 1, 0)]
    assert len(outcomes(capsys, "--newest", "2")) == 2
    assert list(outcomes(capsys, "--since", "2026-11-02")) == [running.id]


def test_a_list_names_nodes_folded_and_states_what_it_leaves_out(root, capsys):
    for second in range(25):
        made(root, f"20261101T0000{second:02}Z-check-{second:04}", "before driver", report=check(unmet=1))
    assert cli.main(["runs", "list"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["run", "verb", "age", "outcome", "nodes", "label"]
    assert "1 unmet  gpu[01-04] (4)  before driver" in out.splitlines()[1]
    assert len(out.splitlines()) == 21 and "20 of 25 runs; --all lists all of them" in err
    assert cli.main(["runs", "list", "--verb", "chekc"]) == 2
    assert "unknown command 'chekc'" in capsys.readouterr().err


def test_show_folds_what_happened_on_the_nodes(root, capsys):
    names = [node["name"] for node in INVENTORY["nodes"]][:3]
    nodes = {name: (Decision("memlock", Status.UNMET, "64 KiB"),) for name in names}
    lost = Failure(FailureKind.REFUSED, "connection refused")
    report = document_of(HostMap({**nodes, "gpu04": lost})).document()
    made(root, "20261101T000000Z-check-0001", "why", report=report)
    assert cli.main(["runs", "show", "0001"]) == 0
    out = capsys.readouterr().out
    assert (
        "Checked 3 of 4 nodes; gpu04 is down; 3 nodes need a person: gpu[01-03] (memlock)" in out
        and "label    why" in out
    )
    assert "\nbad     you  memlock      64 KiB\n" in out and "gpu04: refused: connection refused" in out
    assert cli.main(["runs", "show", "latest", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"]["summary"]["unmet"] == 3


def test_the_list_has_the_word_of_the_page(root, capsys):
    lost = Failure(FailureKind.REFUSED, "connection refused")
    met = (Decision("memlock", Status.MET, "unlimited"),)
    cut = documents.document(
        "20261101T000001Z-bench-0002",
        documents.variant(),
        status="failed",
        failures=[{"kind": "interrupted", "message": "interrupted"}],
    )
    made(root, "20261101T000000Z-check-0001", report=document_of(HostMap({"n1": met, "n2": lost})).document())
    made(root, "20261101T000001Z-bench-0002", results=cut)
    for folder, expected in zip(sorted(root.iterdir()), ("down", "not measured"), strict=True):
        run = RunDir(folder)
        page = views.page(folder.name.split("-")[1], folder, outcome.result(run))
        assert page.word.partition(" (")[0] == words.of_run(outcome.listed(run))[0].value == expected
    by_status = {
        status: len(outcomes(capsys, "--status", status)) for status in ("down", "interrupted", "removed")
    }
    assert by_status == {"down": 1, "interrupted": 1, "removed": 0}


def stored_bench(root: Path, run: str) -> RunDir:
    return made(root, run, results=bench_document(run))


def test_rm_removes_the_folder_and_tells_what_is_lost(root, capsys):
    folder = stored_bench(root, "20261101T000000Z-bench-0001")
    baseline_files.save(rules.record(rules.Baseline("big"), result_of(bench_document(folder.id))), root)
    made(root, "20261101T000001Z-bootstrap-0002", apply={"state": "cut"})
    assert cli.main(["runs", "rm", "0001"]) == 2
    assert "add --yes" in capsys.readouterr().err and folder.path.exists()
    assert cli.main(["runs", "rm", "0001", "0002", "bench", "--yes", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["removed"] == [folder.id, "20261101T000001Z-bootstrap-0002"]
    assert "baseline 'big' was recorded from it" in err and "can no longer be resumed" in err
    assert outcomes(capsys) == {}
    assert [path.name for path in root.iterdir() if path.is_dir()] == ["baselines"]


def test_a_run_in_use_is_not_removed(root, capsys):
    running = RunDir.create("bench", root)
    up = made(root, "20261101T000000Z-up-0001")
    (up.path / "containers.yaml").write_text("")
    for run, reason in ((running, "is in progress"), (up, "are up")):
        assert cli.main(["runs", "rm", run.id, "--yes"]) == 2
        assert reason in capsys.readouterr().err
        assert run.path.exists()
    assert cli.main(["runs", "prune", "--keep", "0", "--yes"]) == 0
    assert running.path.exists() and up.path.exists()


def test_rm_takes_no_path_outside_the_runs(root, capsys, tmp_path):
    root.mkdir()
    (tmp_path / "precious").mkdir()
    (root / "20261101T000000Z-check-0001").symlink_to(tmp_path / "precious")
    for name in ("precious", "..", str(tmp_path / "precious"), "20261101T000000Z-check-0001", ""):
        assert cli.main(["runs", "rm", name, "--yes"]) == 2, name
    assert (tmp_path / "precious").exists()


def test_prune_keeps_what_is_needed_and_says_so(root, capsys):
    made(root, "20260101T000000Z-check-0001", report=check())
    made(root, "20260101T000001Z-check-0002", "before driver", report=check())
    made(root, "20260101T000002Z-bootstrap-0003", apply={"state": "started"})
    made(root, "20260101T000003Z-check-0004", report=check())
    stored_bench(root, "20260101T000004Z-bench-0005")
    (made(root, "20251231T000000Z-check-0000", report=check()).path / "label.json").write_text(
        '{"label": "bef'
    )
    assert cli.main(["runs", "prune", "--yes"]) == 2
    assert "give --keep N" in capsys.readouterr().err
    assert cli.main(["runs", "prune", "--keep", "1", "--older-than", "30d", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert "check-0001" in out and "check-0004" in out and "bench-0005" not in out
    assert err.count("kept: ") == 3 and "it has the label 'before driver'" in err
    assert "kept: 20251231T000000Z-check-0000: its label.json cannot be read" in err
    assert cli.main(["runs", "prune", "--keep", "1", "--yes"]) == 0
    assert "removed 2 runs" in capsys.readouterr().err
    assert [run[-4:] for run in outcomes(capsys)] == ["0005", "0003", "0002", "0000"]


def test_a_label_is_in_the_list_and_can_be_removed(root, capsys):
    folder = stored_bench(root, "20261101T000000Z-bench-0001")
    assert cli.main(["runs", "label", "latest", "after the cable swap"]) == 0
    assert cli.main(["runs", "list"]) == 0
    assert "after the cable swap" in capsys.readouterr().out
    assert cli.main(["runs", "label", "latest", ""]) == 0
    assert cli.main(["runs", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["label"] is None
    assert not folder.holds("label.json")
    for text in ("x" * 101, "two\nlines", "\x1b[31m"):
        assert cli.main(["runs", "label", "latest", text]) == 2


def test_check_leaves_a_labelled_run_and_says_so(root, tmp_path, capsys):
    (tmp_path / "one.yaml").write_text("version: 1\nnodes: [{name: here, connection: local}]\n")
    assert cli.main(["check", "one.yaml", "--only", "acs", "--label", "before", "--json"]) in (0, 1)
    out, err = capsys.readouterr()
    run = json.loads(out)["run"]
    assert err.splitlines()[-1] == f"run folder: runs/{run}"
    assert cli.main(["runs", "list"]) == 0
    listed = capsys.readouterr().out
    assert run in listed and listed.splitlines()[1].endswith("here   before")


def test_a_list_of_nothing_says_why(root, capsys):
    assert cli.main(["runs", "list"]) == 0
    assert capsys.readouterr().err.splitlines() == ["runs has no run yet"]
    assert cli.main(["runs", "list", "--library", "gloo"]) == 0
    assert capsys.readouterr().err.splitlines() == ["runs has no matching run"]
    assert not root.exists()


def test_a_run_that_an_error_ended_is_listed_as_failed_with_the_message(root, capsys):
    made(root, "20261101T000000Z-bench-0001", error={"error": {"message": "rank 1\nhas no GPU"}})
    made(root, "20261101T000001Z-bootstrap-0002", apply={"state": "cut"}, error={"error": {"message": "x"}})
    found = outcomes(capsys)
    assert found["20261101T000000Z-bench-0001"] == ("failed", "rank 1 has no GPU")
    assert found["20261101T000001Z-bootstrap-0002"] == ("unfinished", "x")


def test_an_error_is_kept_in_the_folder_of_the_run_that_it_ended_alone(root):
    over, under_way = RunDir.create("bench", root), RunDir.create("locate", root)
    path = over.path
    del over
    keep_error({"error": {"message": "no ranks"}})
    assert under_way.holds("error.json") and not (path / "error.json").exists()
    path = under_way.path
    del under_way
    assert not RunDir(path).hold().holds("error.json")


def test_a_bootstrap_that_left_requirements_unmet_is_not_ok(root, capsys):
    verdicts = [{"requirement": "a", "status": "unmet"}, {"requirement": "b", "status": "met"}]
    nodes = [{"name": "gpu01", "status": "ok", "verdicts": verdicts}]
    made(root, "20261101T000000Z-bootstrap-0001", report={**steps(), "nodes": nodes})
    made(root, "20261101T000001Z-bootstrap-0002", apply={"state": "finished"}, report=steps(not_done=1))
    assert list(outcomes(capsys).values()) == [("unfinished", "1 not done"), ("unmet", "1 unmet")]


def test_show_tells_which_undo_took_a_run_back_and_what_to_type_next(root, capsys):
    def step(status, description):
        return {"status": status, "requirement": "memlock", "description": description}

    def node(name, *steps, **more):
        return {"name": name, "error": None, "steps": list(steps), **more}

    summary = {"changed": 2, "failed": 0, "not_done": 0, "planned": 0, "unreachable": 0}
    run = "20261101T000000Z-bootstrap-0001"
    nodes = [node("gpu01", step("changed", "Write /etc/a")), node("gpu02", step("unchanged", "Write /etc/a"))]
    made(
        root, run, inventory={**INVENTORY, "source": "fleet one.yaml"}, apply={"state": "finished"},
        report={"nodes": nodes, "summary": summary},
    )  # fmt: skip
    assert cli.main(["runs", "show", "0001"]) == 0
    printed = capsys.readouterr()
    assert "undone by" not in printed.out
    assert "changed    gpu01  memlock: Write /etc/a\nunchanged  gpu02  memlock" in printed.out
    assert f"Next: clusterctl undo 'fleet one.yaml' --run {run}  # takes its changes back" in printed.err
    for later, of, status in (
        ("0002", run, "changed"),
        ("0003", run, "failed"),
        ("0004", "other", "changed"),
    ):
        undone = [node("gpu01", step(status, "Write /etc/a"), run=of), node("gpu02", run=of)]
        made(root, f"20261102T000000Z-undo-{later}", report={"nodes": undone, "summary": summary})
    (root / "20261103T000000Z-undo-0005").mkdir()
    (root / "20261103T000000Z-undo-0005/report.json").write_text("{")
    assert cli.main(["runs", "show", "0001"]) == 0
    printed = capsys.readouterr()
    assert "undone by  20261102T000000Z-undo-0002 on gpu01\n" in printed.out and "Next" not in printed.err
    assert cli.main(["runs", "show", "0001", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["undone_by"] == {"20261102T000000Z-undo-0002": ["gpu01"]}
