"""The database of results: what is stored comes back, and what is wrong with the file is said and never hurts a run."""

import json
import os
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from bench_documents import point, row, variant

from clusterctl.benchmarks.key import configuration_key
from clusterctl.cli.bench import store as bench_store
from clusterctl.errors import ResultError, UsageError
from clusterctl.results import migrations, record, store
from clusterctl.results.store import RunFilter, Store
from clusterctl.rundir import RunDir


def key_of(benchmark="all_reduce", np=2, nodes=1):
    return configuration_key(
        benchmark=benchmark, np=np, nodes=nodes, library="nccl", library_version="2.28.3", launcher="openmpi",
        hardware="NVIDIA H200", settings={"datatype": "float"},
    )  # fmt: skip


def document(
    run="20261101T100000Z-bench-00aa", benchmark="all_reduce", status="ok", busbw_gbps=355.5, **more
):
    ranks = [
        {"rank": r, "host": "gpu1", "pid": 7 + r, "device": f"{r} [0000:00:0{r}] NVIDIA H200"} for r in (0, 1)
    ]
    found = variant(rows=[row(1 << 30, 1.0, busbw_gbps)], keys={"2": key_of(benchmark)})
    return {
        "schema": "clusterctl.bench/1", "run": run, "benchmark": benchmark, "library": "nccl",
        "launcher": "openmpi", "status": status, "variants": [found],
        "proof": {
            "ranks": ranks, "library": ["NCCL version 2.28.3+cuda13.0"], "keys": {"2": key_of(benchmark)},
            "hardware": "NVIDIA H200", "clusterctl_version": "0.1.0",
        }, **more,
    }  # fmt: skip


def save(root, *documents, **more):
    with Store.open(root) as results:
        results.save(*(record.from_document(one, **more) for one in documents))


def test_what_is_stored_comes_back_whole(tmp_path):
    save(tmp_path, document(), commands=["mpirun -np 2 x"], folder="/r/1")
    with Store.open(tmp_path) as results:
        (summary,) = results.runs()
        found = results.get("20261101T100000Z-bench-00aa")
    assert found.document == document()
    assert found.commands == ("mpirun -np 2 x",)
    assert found.summary == summary
    assert (summary.np, summary.nodes, summary.hardware) == (2, 1, "NVIDIA H200")
    assert (summary.figure, summary.unit) == (355.5, "GB/s")
    assert summary.started_at == "2026-11-01T10:00:00Z"
    assert summary.versions == ("NCCL version 2.28.3+cuda13.0",)
    assert json.loads(summary.key) == key_of()
    assert (summary.clusterctl_version, summary.folder) == ("0.1.0", "/r/1")


def test_a_training_is_summed_up_by_its_largest_point():
    curve = variant(points=[point(4, 9000.0, nodes=2), point(1, 2500.0)])
    keys = {"4": key_of("resnet50", 4, 2), "1": key_of("resnet50", 1)}
    proof = {"settings": {"torch": "2.13.0"}, "library": ["nccl 2.28.3"], "keys": keys}
    summary = record.from_document(document(variants=[curve], proof=proof)).summary
    assert (summary.np, summary.nodes, summary.figure, summary.unit) == (4, 2, 9000.0, "images/s")
    assert summary.versions == ("nccl 2.28.3", "torch 2.13.0")


def test_a_run_in_which_nothing_came_up_is_stored_too(tmp_path):
    save(tmp_path, document(status="failed", variants=[], proof={}, library=None, launcher=None))
    with Store.open(tmp_path) as results:
        (summary,) = results.runs(RunFilter(status="failed"))
    assert (summary.np, summary.figure, summary.hardware, summary.library) == (None, None, None, None)


def test_only_the_owner_can_read_it_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        save(tmp_path, document())
    finally:
        os.umask(before)
    assert (tmp_path / store.FILE).stat().st_mode & 0o777 == 0o600


def test_runs_are_found_by_their_columns(tmp_path):
    save(
        tmp_path, document("20261101T100000Z-bench-0001"), document("20261103T100000Z-bench-0003", "resnet50")
    )
    save(tmp_path, document("20261102T100000Z-bench-0002", status="failed"))
    with Store.open(tmp_path) as results:

        def found(**wanted):
            return [one.run[-1] for one in results.runs(RunFilter(**wanted))]

        assert found() == ["3", "2", "1"]
        assert found(newest=2) == ["3", "2"]
        assert found(benchmark="all_reduce") == ["2", "1"]
        assert found(status="failed") == ["2"]
        assert found(key=record.key_text(key_of())) == ["2", "1"]
        assert found(since="2026-11-02T00:00:00Z") == ["3", "2"]
        assert found(library="gloo") == []


def test_a_run_is_named_by_enough_of_its_id(tmp_path):
    with Store.open(tmp_path) as results, pytest.raises(UsageError, match="has no results yet"):
        results.get("latest")
    save(tmp_path, document("20261101T100000Z-bench-00aa"), document("20261102T100000Z-bench-00bb"))
    with Store.open(tmp_path) as results:
        assert results.get("latest").summary.run.endswith("00bb")
        assert results.get("00aa").summary.run.endswith("00aa")
        assert results.get("T100000Z-bench-00b").summary.run.endswith("00bb")
        assert results.get("20261102").summary.run.endswith("00bb")
        with pytest.raises(UsageError, match="matches 2 runs"):
            results.get("202611")
        with pytest.raises(UsageError, match="run 'zz' not found in"):
            results.get("zz")
        for nothing in ("", "%", "\udcff"):
            with pytest.raises(UsageError, match="not found in"):
                results.get(nothing)


def test_looking_makes_nothing(tmp_path):
    with Store.open(tmp_path / "runs", make=False) as results:
        assert results.runs() == ()
    assert list(tmp_path.iterdir()) == []


def test_the_same_run_again_replaces_itself(tmp_path):
    save(tmp_path, document(busbw_gbps=1.0))
    save(tmp_path, document(busbw_gbps=2.0))
    with Store.open(tmp_path) as results:
        assert [one.figure for one in results.runs()] == [2.0]


def test_several_runs_are_stored_together_or_not_at_all(tmp_path):
    good, bad = (
        record.from_document(document()),
        record.from_document(document("20261101T100000Z-bench-0bad")),
    )
    spoilt = record.Record(bad.summary, {"not": {1, 2}})
    with Store.open(tmp_path) as results:
        with pytest.raises(TypeError):
            results.save(good, spoilt)
        assert results.runs() == ()


def test_bytes_that_are_no_text_do_not_stop_it(tmp_path):
    ranks = [{"rank": 0, "host": "n\udcff", "pid": 1, "device": "GPU\udcfe"}]
    save(tmp_path, document(proof={"ranks": ranks, "library": ["v\udc80"]}))
    with Store.open(tmp_path) as results:
        assert results.get("latest").document["proof"]["ranks"] == ranks


SUPPORT = Path(__file__).parents[2] / "support"
WRITER = """
    import sys
    from pathlib import Path
    sys.path.insert(0, {tests!r})
    sys.path.insert(0, {support!r})
    from test_store import document, save
    for index in range({count}):
        save(Path({root!r}), document(f"20261101T1000{{index:02}}Z-bench-" + sys.argv[1]))
"""


def test_processes_that_store_at_once_lose_nothing(tmp_path):
    code = textwrap.dedent(WRITER).format(
        tests=str(Path(__file__).parent), support=str(SUPPORT), root=str(tmp_path), count=10
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, f"{number:04x}"], stderr=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    for writer in writers:
        _, said = writer.communicate(timeout=120)
        assert writer.returncode == 0, said
    with Store.open(tmp_path) as results:
        assert len(results.runs()) == 40
    assert [path.name for path in tmp_path.iterdir()] == [store.FILE]


def newer(path):
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA application_id = {migrations.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 999")
    connection.close()


def foreign(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()


def torn(path):
    save(path.parent, *(document(f"20261101T1000{n:02}Z-bench-00aa") for n in range(60)))
    data = bytearray(path.read_bytes())
    data[4096:] = b"\x5a" * (len(data) - 4096)
    path.write_bytes(data)


SPOILT = {
    "no database": (lambda path: path.write_bytes(b"not a database at all" * 100), "is damaged"),
    "pages overwritten": (torn, "is damaged"),
    "newer": (newer, r"newer clusterctl \(schema 999; this version supports up to \d+\)"),
    "another program's": (foreign, "a database of another program"),
    "a folder": (lambda path: path.mkdir(), "unable to open database file|cannot be opened"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_file_that_cannot_serve_is_named_with_what_to_do(tmp_path, name):
    spoil, said = SPOILT[name]
    spoil(tmp_path / store.FILE)
    with pytest.raises(ResultError, match=said) as caught, Store.open(tmp_path, make=False) as results:
        results.runs()
    assert store.FILE in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("name", SPOILT)
def test_a_file_that_cannot_serve_costs_no_run_its_result(tmp_path, name, capsys):
    SPOILT[name][0](tmp_path / store.FILE)
    run = RunDir.create("bench", tmp_path)
    before = (tmp_path / store.FILE).read_bytes() if (tmp_path / store.FILE).is_file() else b""
    bench_store.store(run, document(run.id), ["mpirun"])
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("warning: the result was not stored: ")
    assert "\nhint: " in err
    if name != "pages overwritten":
        assert before == ((tmp_path / store.FILE).read_bytes() if before else b"")


def test_a_lock_that_is_held_is_waited_for_and_then_named(tmp_path, monkeypatch):
    save(tmp_path, document())
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.2)
    holder = sqlite3.connect(tmp_path / store.FILE, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ResultError, match=r"in use by another process for 0\.2 s"):
        save(tmp_path, document())
    holder.execute("ROLLBACK")
    holder.close()
    save(tmp_path, document())


def test_a_full_disk_is_named(tmp_path):
    with Store.open(tmp_path) as results:
        pages = results._connection.execute("PRAGMA page_count").fetchone()[0]
        results._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(ResultError, match="database or disk is full") as caught:
            results.save(record.from_document(document(benchmark="x" * 100_000)))
    assert caught.value.hint
    save(tmp_path, document())


def test_an_upgrade_that_fails_leaves_the_old_schema(tmp_path, monkeypatch):
    save(tmp_path, document())
    steps = (*migrations.MIGRATIONS, ("CREATE TABLE more (x TEXT)", "CREATE NONSENSE"))
    monkeypatch.setattr(migrations, "MIGRATIONS", steps)
    with pytest.raises(ResultError):
        Store.open(tmp_path)
    monkeypatch.undo()
    with Store.open(tmp_path) as results:
        assert len(results.runs()) == 1


def test_an_upgrade_keeps_what_is_there(tmp_path, monkeypatch):
    save(tmp_path, document())
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, ("CREATE TABLE more (x TEXT)",)))
    with Store.open(tmp_path) as results:
        assert len(results.runs()) == 1
    monkeypatch.undo()
    with pytest.raises(ResultError, match="newer clusterctl"):
        Store.open(tmp_path)
