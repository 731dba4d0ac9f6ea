"""The commands of ``clusterctl runs`` that read benchmarks, as people and scripts call them."""

import csv
import io
import json
import os
import random

import pytest
from hostile_texts import NUMBERS, OTHERS, VARIANTS, values
from result_documents import H200_NP2, collective, slow_rank_training, training

from clusterctl.cli.main import main
from clusterctl.results import folders
from clusterctl.rundir import RunDir

SWEEP = "20261120T091500Z-bench-c0de"
OTHER = "20261121T091500Z-bench-aaaa"


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A directory of runs with two sweeps and a training, as $CLUSTERCTL_RUNS."""
    root = tmp_path / "runs"
    monkeypatch.setenv("CLUSTERCTL_RUNS", str(root))
    for record in (collective(), collective(H200_NP2, run=OTHER), slow_rank_training()):
        folder_of(record, root)
    return root


def call(capsys, *arguments):
    code = main(["runs", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_filters_choose_runs_by_what_they_measured(runs, capsys):
    def chosen(*words):
        code, out, _ = call(capsys, "list", *words, "--json")
        assert code == 0
        return [one["run"][-4:] for one in json.loads(out)["runs"]]

    assert chosen() == ["aaaa", "beef", "c0de"]
    assert chosen("--benchmark", "all_reduce") == ["aaaa", "c0de"]
    assert chosen("--benchmark", "all_reduce", "--newest", "1") == ["aaaa"]
    assert chosen("--library", "nccl", "--since", "2026-11-21") == ["aaaa"]
    assert chosen("--library", "gloo") == chosen("--status", "failed") == chosen("--library", "ncc") == []
    (one,) = json.loads(call(capsys, "list", "--benchmark", "resnet50", "--json")[1])["runs"]
    assert (one["benchmark"], one["library"], one["detail"]) == (
        "resnet50", "nccl", "resnet50 (nccl) on 32 ranks, 80563 images/s"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value"), [("--status", "wrong"), ("--since", "yesterday"), ("--newest", "0")]
)
def test_a_filter_that_means_nothing_is_refused(runs, capsys, option, value):
    code, out, err = call(capsys, "list", option, value)
    assert (code, out) == (2, "")
    assert value in err or option in err


def test_a_run_is_shown_as_bench_showed_it(runs, capsys):
    code, out, _ = call(capsys, "show", "c0de")
    assert code == 0
    assert out.splitlines()[0].split() == ["run", SWEEP]
    assert "1 GiB  4529.98  237.03  355.54  4524.53  237.32  355.97      0" in out
    assert json.loads(call(capsys, "show", "c0de", "--json")[1])["result"] == collective().document


def test_pages_are_written_where_one_says(runs, capsys, tmp_path):
    page = tmp_path / "page.html"
    assert call(capsys, "show", "latest", "--html", str(page))[0] == 0
    assert "all_reduce" in page.read_text() and page.stat().st_mode & 0o777 == 0o644
    assert call(capsys, "compare", "c0de", "aaaa", "--html", str(page))[0] == 0
    assert "2 runs compared" in page.read_text()
    code, out, err = call(capsys, "show", "latest", "--html", str(tmp_path / "none" / "page.html"))
    assert (code, out) == (3, "") and "directory is missing or not writable" in err
    assert call(capsys, "show", "latest", "--html", str(tmp_path))[0] == 3
    RunDir(runs / "20261122T000000Z-undo-0001").path.mkdir()
    code, _, err = call(capsys, "show", "latest", "--html", str(page))
    assert code == 2 and "has no result yet" in err


def test_runs_are_compared_with_the_first(runs, capsys, tmp_path):
    code, out, _ = call(capsys, "compare", "c0de", "aaaa", "--json")
    document = json.loads(out)
    assert code == 0 and document["comparable"] is False
    assert document["differences"] == [{"field": "np", "values": ["4", "2"]}]
    table, junit, prometheus = (tmp_path / name for name in ("x.csv", "x.xml", "x.prom"))
    files = ("--csv", str(table), "--junit", str(junit), "--prometheus", str(prometheus))
    assert call(capsys, "compare", "c0de", "aaaa", *files)[0] == 0
    first, other = document["lines"][-1]["figures"]
    rows = [
        row for row in csv.DictReader(table.read_text().splitlines()) if row["size_bytes"] == str(1 << 30)
    ]
    assert [float(row["busbw_gbps"]) for row in rows] == [first["busbw_gbps"], other["busbw_gbps"]]
    assert rows[0]["ratio"] == "" and float(rows[1]["ratio"]) == pytest.approx(other["ratio"], abs=1e-4)
    assert f"1 GiB: {other['ratio']:.3f} times the speed, measured once" in junit.read_text()
    ratio, word = [line for line in prometheus.read_text().splitlines() if f'size_bytes="{1 << 30}"' in line]
    assert ratio.startswith("clusterctl_compare_speed_ratio{")
    assert float(ratio.split()[-1]) == pytest.approx(other["ratio"], abs=1e-4)
    assert word.startswith("clusterctl_compare_comparison{") and 'word="measured once"' in word
    code, _, err = call(capsys, "compare", "c0de", "beef")
    assert code == 2 and "no figure in common" in err


@pytest.mark.parametrize("arguments", [("show", "nope"), ("compare", "c0de", "nope")])
def test_a_run_that_is_not_there_is_named(runs, capsys, arguments):
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "run 'nope' not found in" in err and f" are: {OTHER}" in err


def test_export_goes_to_a_file_or_to_stdout(runs, capsys, tmp_path):
    code, out, _ = call(capsys, "export", "--format", "csv", "--benchmark", "resnet50")
    assert code == 0 and len(list(csv.DictReader(io.StringIO(out)))) == 4
    file = tmp_path / "bench.prom"
    assert call(capsys, "export", "--format", "prometheus", "-o", str(file))[:2] == (0, "")
    assert "clusterctl_bench_ok{" in file.read_text()
    assert len(json.loads(call(capsys, "export")[1])["runs"]) == 3
    assert call(capsys, "export", "--format", "junit")[1].startswith("<?xml")


def test_the_newest_of_an_export_are_those_with_a_result(runs, capsys):
    RunDir(runs / "20261130T000000Z-bench-0001").path.mkdir()
    (one,) = json.loads(call(capsys, "export", "--newest", "1")[1])["runs"]
    assert one["run"] == OTHER


def folder_of(record, root):
    """Write a run folder as bench leaves it."""
    run = RunDir(root / record.summary.run)
    run.path.mkdir(parents=True)
    run.write("results", record.document)
    run.write("artifacts", {"commands": [{"np": 2, "line": line} for line in record.commands]})
    return run


def test_run_folders_are_copied_once_and_whole(runs, capsys, tmp_path):
    to = tmp_path / "to"
    (runs / SWEEP / "logs").mkdir()
    (runs / SWEEP / "logs" / "rank-0.log").write_text("NCCL INFO")
    code, _, err = call(capsys, "import", str(runs), "--runs", str(to))
    assert code == 0 and "3 runs imported" in err
    copied = folders.read(to / SWEEP)
    assert copied.document == collective().document and copied.commands == collective().commands
    assert (to / SWEEP / "logs" / "rank-0.log").read_text() == "NCCL INFO"
    modes = {path.stat().st_mode & 0o777 for path in (to / SWEEP, to / SWEEP / "results.json")}
    assert modes == {0o700, 0o600}
    code, _, err = call(capsys, "import", str(runs / SWEEP), "--runs", str(to))
    assert code == 0 and "0 runs imported, 1 run already there" in err


def test_an_import_makes_directories_writable_and_refuses_endless_ones(runs, capsys, tmp_path):
    (runs / SWEEP / "logs").mkdir(mode=0o500)
    deep = runs / OTHER
    for _ in range(400):
        deep /= "a"
        deep.mkdir()
    to = tmp_path / "to"
    code, _, err = call(capsys, "import", str(runs), "--runs", str(to))
    assert code == 1 and "2 runs imported" in err
    assert f"not imported: {runs / OTHER}" in err and "at most 32 nested directories" in err
    assert (to / SWEEP / "logs").stat().st_mode & 0o777 == 0o700
    assert {one.name for one in to.iterdir()} == {SWEEP, "20261120T093000Z-bench-beef"}


def test_an_import_copies_neither_links_nor_devices_nor_a_run_in_progress(runs, capsys, tmp_path):
    (tmp_path / "secret").write_text("key")
    (runs / SWEEP / "key").symlink_to(tmp_path / "secret")
    (runs / SWEEP / "all").symlink_to(tmp_path)
    os.mkfifo(runs / SWEEP / "pipe")
    (runs / "20261120T000000Z-bench-ffff").symlink_to(tmp_path)
    under_way = RunDir.create("bench", runs)
    code, _, err = call(capsys, "import", str(runs), "--runs", str(tmp_path / "to"))
    assert code == 1 and f"{under_way.id}: the run is running" in err and "3 runs imported" in err
    assert sorted(one.name for one in (tmp_path / "to" / SWEEP).iterdir()) == [
        "artifacts.json",
        "results.json",
    ]
    assert sorted(one.name for one in (tmp_path / "to").iterdir()) == [
        SWEEP,
        "20261120T093000Z-bench-beef",
        OTHER,
    ]


SPOILT = {
    "cut off": '{"schema": "clusterctl.bench/1", "run"',
    "another document": '{"schema": "clusterctl.check/1"}',
    "incomplete": '{"schema": "clusterctl.bench/1"}',
    "a list for a word": json.dumps(
        {"schema": "clusterctl.bench/1", "run": "a", "benchmark": ["b"], "launcher": "d", "status": ""}
    ),
    "more ranks than a database can count": json.dumps(
        {"schema": "clusterctl.bench/1", "run": "a", "benchmark": "b", "launcher": "d", "status": "ok",
         "variants": [{"name": "v", "library": "c", "environment": {}, "repeats": 1,
                       "keys": {"1": {"np": str(10**30), "nodes": "1"}}}]}
    ),
    "a list": "[1]",
    "deep": "[" * 100000,
    "wrong types": '{"schema": "clusterctl.bench/1", "run": "r", "benchmark": "b", "launcher": "l",'
    ' "status": "ok", "points": 7}',
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_a_folder_that_cannot_be_read_is_named_and_the_others_are_imported(tmp_path, capsys, name):
    good = folder_of(training([[1.0]]), tmp_path / "from")
    bad = tmp_path / "from" / "20261101T000000Z-bench-0bad"
    bad.mkdir()
    (bad / "results.json").write_text(SPOILT[name])
    code, out, err = call(capsys, "import", str(tmp_path / "from"), "--runs", str(tmp_path / "to"), "--json")
    document = json.loads(out)
    assert code == 1 and document["imported"] == [good.id]
    (refused,) = document["refused"]
    assert "20261101T000000Z-bench-0bad" in refused and "not imported" in err
    assert not (tmp_path / "to" / "20261101T000000Z-bench-0bad").exists()


def test_a_result_of_another_shape_is_not_called_damaged(tmp_path, capsys):
    one = collective()
    one.document["rows"] = []
    folder_of(one, tmp_path / "from")
    _, _, err = call(capsys, "import", str(tmp_path / "from"), "--runs", str(tmp_path / "to"))
    assert ": this version cannot read results.json: rows: unknown key" in err


def _renamed(number):
    """A record of a run with a name of its own."""
    record = collective(run=f"20261120T{number // 60:02d}{number % 60:02d}00Z-bench-{number:04x}")
    return json.loads(json.dumps(record.document)), record.summary.run


def test_commands_of_another_type_end_no_import(tmp_path, capsys):
    """100 directories in one import; ``line`` of any type is a text there."""
    hostile = [5, "x", {"line": "x"}, [5, {"line": [1]}], None, *values()]
    names = []
    for number, commands in enumerate(hostile):
        document, name = _renamed(number)
        names.append(name)
        (tmp_path / "from" / name).mkdir(parents=True)
        (tmp_path / "from" / name / "results.json").write_text(json.dumps(document))
        text = json.dumps({"commands": commands if number % 2 else [{"line": commands}]})
        (tmp_path / "from" / name / "artifacts.json").write_text(text)
    _, out, err = call(capsys, "import", str(tmp_path / "from"), "--runs", str(tmp_path / "to"), "--json")
    found = json.loads(out)
    # A number of 401 digits is damage of that directory's file alone.
    assert len(found["refused"]) < 5 and len(found["imported"]) + len(found["refused"]) == len(names), err
    assert all("artifacts.json is damaged" in one for one in found["refused"])
    for verb in (["list"], ["export", "--format", "csv"], ["show", names[0]]):
        assert call(capsys, *verb, "--runs", str(tmp_path / "to"))[0] == 0


def _places(value, path=()):
    """Every place in a document."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inside:
        yield from _places(one, (*path, name))


def test_no_value_in_any_place_of_a_document_ends_an_import_or_an_export(tmp_path, capsys):
    """200 directories in one import, each with a hostile value in one place; honest ones between them are imported."""
    chance = random.Random(30)
    honest = []
    for number in range(2 * VARIANTS):
        document, name = _renamed(number)
        if number % 10 == 0:
            honest.append(name)
        else:
            *path, last = chance.choice([one for one in _places(document) if one])
            inside = document
            for step in path:
                inside = inside[step]
            inside[last] = chance.choice((*NUMBERS, *OTHERS))
        (tmp_path / "from" / name).mkdir(parents=True)
        (tmp_path / "from" / name / "results.json").write_text(json.dumps(document))
    code, out, err = call(capsys, "import", str(tmp_path / "from"), "--runs", str(tmp_path / "to"), "--json")
    found = json.loads(out)
    assert set(honest) <= set(found["imported"]) and code == 1, err[-2000:]
    assert len(found["refused"]) >= VARIANTS // 2
    assert all(len(one) < 1000 and "\x1b" not in one for one in found["refused"]), max(
        found["refused"], key=len
    )
    code, out, err = call(capsys, "list", "--all", "--runs", str(tmp_path / "to"), "--json")
    assert code == 0 and set(honest) <= {
        one["run"] for one in json.loads(out, parse_constant=pytest.fail)["runs"]
    }, err
    code, out, err = call(capsys, "export", "--runs", str(tmp_path / "to"))
    assert "inf" not in out.lower().split(",") and "nan" not in out.lower().split(","), err


def test_a_rate_beyond_all_bounds_is_not_imported(tmp_path, capsys):
    record = collective()
    record.document["variants"][0]["rows"][0]["busbw_gbps"]["median"] = -1e308
    folder_of(record, tmp_path / "from")
    code, _, err = call(capsys, "import", str(tmp_path / "from"), "--runs", str(tmp_path / "to"))
    assert code == 1 and "variants.0.rows.0.busbw_gbps.median: expected a number" in err


def test_importing_from_nowhere_is_said(tmp_path, capsys):
    assert call(capsys, "import", str(tmp_path / "none"))[0] == 2
    (tmp_path / "empty").mkdir()
    code, _, err = call(capsys, "import", str(tmp_path / "empty"), "--runs", str(tmp_path / "to"))
    assert code == 1 and "empty: neither it nor a directory in it is a run folder" in err


def test_the_catalogue_is_no_wider_than_the_terminal(capsys, monkeypatch):
    whole = call(capsys, "baseline", "catalogue")[1].splitlines()
    monkeypatch.setattr("clusterctl.cli.console.width", lambda: 80)
    lines = call(capsys, "baseline", "catalogue")[1].splitlines()
    assert max(map(len, lines)) <= 80 < max(map(len, whole))
    told = " ".join(" ".join(lines).split())
    assert all(word in told for line in whole[1:] for word in line.split())
