"""Baselines: what is recorded, and when a run is below it."""

import random
import statistics

import bench_documents
import pytest

from clusterctl.benchmarks.key import configuration_key
from clusterctl.documents.bench import BenchResult
from clusterctl.documents.proof import Proof
from clusterctl.errors import ResultError, UsageError
from clusterctl.report.text import baseline as baseline_table
from clusterctl.report.text import trust as trust_lines
from clusterctl.results import baseline_files, published
from clusterctl.results.baseline import Baseline, Series, compare, figures, record
from clusterctl.views import bench_page

SIZES = [1024, 65536, 1 << 20, 1 << 26, 1 << 30]
HEALTHY = [0.2, 8.0, 85.0, 315.0, 355.0]


def key(np=4, **changed):
    settings = {"datatype": "float", "redop": "sum", **changed.pop("settings", {})}
    return configuration_key(
        benchmark="all_reduce", np=np, nodes=1, library="nccl", library_version=changed.pop("nccl", "2.28.3"),
        launcher="openmpi", hardware=changed.pop("hardware", "NVIDIA H200"), settings=settings,
    )  # fmt: skip


def bench(run, *variants):
    return BenchResult.model_validate(bench_documents.document(run, *variants))


def sweep(run, values, **changed):
    rows = [bench_documents.row(size, 1.0, value) for size, value in zip(SIZES, values, strict=True)]
    return bench(run, bench_documents.variant(rows=rows, keys={"4": key(**changed)}))


def training(run, **per_np):
    points = [bench_documents.point(int(np[2:]), value) for np, value in per_np.items()]
    keys = {np[2:]: {**key(np=int(np[2:])), "benchmark": "resnet50"} for np in per_np}
    return bench(run, bench_documents.variant(points=points, keys=keys))


def recorded(*documents):
    found = Baseline("b")
    for document in documents:
        found = record(found, document)
    return found


def noisy(count, cv, seed=1):
    random.seed(seed)
    return [sweep(f"r{i}", [value * random.gauss(1, cv) for value in HEALTHY]) for i in range(count)]


def test_three_equal_repeats_allow_the_floor_and_name_the_rows_below():
    known = recorded(*(sweep(f"r{i}", HEALTHY) for i in range(3)))
    assert compare(known, sweep("n", [value * 0.96 for value in HEALTHY])).verdict == "ok"
    found = compare(known, sweep("n", [*HEALTHY[:3], 315.0, 330.0]))
    assert found.verdict == "below-baseline"
    assert [(below.figure.size_bytes, round(below.loss, 3)) for below in found.below] == [(1 << 30, 0.07)]
    assert found.judged == 5
    assert found.notes == ()
    assert found.part().below[0].allowed == 0.05


def test_what_may_be_rounding_is_no_loss():
    """1 KiB in 34.1 and 34.2 us on 4 ranks: 0.0450 and 0.0449 GB/s, printed as 0.05 and 0.04."""
    known = recorded(*(sweep(f"r{i}", [0.05, *HEALTHY[1:]]) for i in range(3)))
    assert compare(known, sweep("n", [0.04, *HEALTHY[1:]])).verdict == "ok"
    found = compare(known, sweep("n", [0.03, *HEALTHY[1:]]))
    assert [below.figure.size_bytes for below in found.below] == [1024]


def test_noise_of_the_repeats_widens_what_is_allowed():
    known = recorded(*noisy(5, 0.02))
    one = next(series for series in known.entries[0].series if series.size_bytes == 1 << 30)
    assert one.allowed == pytest.approx(
        7.17318 * 1.2**0.5 * statistics.stdev(one.values) / statistics.fmean(one.values)
    )
    low = one.median * (1 - one.allowed)
    for factor, verdict in ((1.01, "ok"), (0.99, "below-baseline")):
        assert compare(known, sweep("n", [*HEALTHY[:4], low * factor])).verdict == verdict


def test_healthy_runs_seldom_fail():
    known = recorded(*noisy(5, 0.03))
    failed = sum(
        compare(known, one).verdict == "below-baseline"
        for seed in range(2, 22)
        for one in noisy(5, 0.03, seed)
    )
    assert failed <= 5, "of 100 healthy runs"


def test_one_repeat_judges_large_messages_alone_and_says_so():
    known = recorded(sweep("r0", HEALTHY))
    found = compare(known, sweep("n", [0.1, 4.0, *(value * 0.92 for value in HEALTHY[2:])]))
    assert (found.verdict, found.judged) == ("ok", 3)
    assert found.notes == (
        "1 of 3 repeats recorded: the allowed drop is 10 %, and no size below 1 MiB is judged",
    )
    assert compare(known, sweep("n", [value * 0.89 for value in HEALTHY])).verdict == "below-baseline"


def test_a_baseline_that_could_never_fail_judges_nothing_and_says_how_many_repeats_it_needs():
    """Three repeats of 16 MiB that vary by 5.8 % would allow a drop of 149 %."""
    known = recorded(
        *(
            sweep(f"r{i}", [8.0 + i, 8.0 + i, 12.13 * by, 12.0, 12.0])
            for i, by in enumerate((0.942, 1.0, 1.058))
        )
    )
    found = compare(known, sweep("n", [0.1, 0.1, 0.1, 12.0, 12.0]))
    assert (found.verdict, found.judged, found.figures) == ("ok", 2, 5)
    assert [(one.size_bytes, one.needed) for _, one in found.noisy] == [(1024, 11), (65536, 11), (1 << 20, 5)]
    only = sweep("n", [0.1] * 3 + [0.0] * 2)
    none = compare(known, only)
    assert (none.verdict, none.judged) == ("not-judged", 0)
    assert none.hint == (
        "record about 11 repeats: clusterctl bench ... --repeats 11, then clusterctl runs baseline record b"
    )
    lines = trust_lines.lines(Proof(baseline=found.part()))
    assert lines == [
        "baseline b: ok (2 of 5 figures judged)",
        "  too noisy to judge: 1 KiB, 64 KiB (the 3 repeats vary by 11.1 %; record about 11 repeats)",
        "  too noisy to judge: 1 MiB (the 3 repeats vary by 5.8 %; record about 5 repeats)",
    ]
    assert [line for line in baseline_table.recorded(known) if "warning" in line] == [
        f"warning: {line.strip()}" for line in lines[1:]
    ]
    values = zip((*SIZES, 1 << 40), ([0.1] * 3 + [0.0] * 2 + [12.0]), strict=True)
    rows = [bench_documents.row(size, 1.0, value) for size, value in values]
    one_more = bench("n", bench_documents.variant(rows=rows, keys={"4": key()}))
    lines = trust_lines.lines(Proof(baseline=compare(known, one_more).part()))
    assert lines[:2] == ["baseline b: not-judged (0 of 4 figures judged)", "  not in the baseline: 1024 GiB"]
    assert [line.partition(":")[0].strip() for line in lines[2:]] == ["too noisy to judge"] * 2 + ["hint"]
    assert baseline_table.render(known).splitlines()[3].endswith("too noisy, needs about 11 repeats")
    wild = Series(1024, "GB/s", (1.0, 2.0, 3.0))
    assert wild.noisy and wild.needed is None
    assert baseline_table.noisy_lines([(1024, 0.5, 3, wild.needed)]) == [
        "too noisy to judge: 1 KiB (the 3 repeats vary by 50.0 %; even 30 repeats are too few)"
    ]
    page = bench_page.baseline_sentence(Proof(baseline=none.part()))
    assert page.startswith(
        "The baseline b cannot judge this run: 0 of 3 figures judged. Too noisy to judge: 1 KiB"
    )


def repeats(run, count, **changed):
    """A run of ``bench --repeats``; each figure of the repeats is a little larger than before."""
    rows = [
        bench_documents.row(size, 1.0, tuple(value * (1 + i / 1000) for i in range(count)))
        for size, value in zip(SIZES, HEALTHY, strict=True)
    ]
    return bench(run, bench_documents.variant(rows=rows, repeats=count, keys={"4": key(**changed)}))


def test_repeats_of_one_run_count_as_much_as_those_of_several():
    known = recorded(repeats("r0", 3))
    assert known.entries[0].runs == ("r0",) and known.entries[0].repeats == 3
    assert known.entries[0].series[0].values == (0.2, 0.2 * 1.001, 0.2 * 1.002)
    found = compare(known, sweep("n", HEALTHY))
    assert (found.verdict, found.judged, found.notes) == ("ok", len(SIZES), ())
    assert compare(known, repeats("n", 2)).verdict == "ok"
    both = record(known, sweep("r1", HEALTHY))
    assert both.entries[0].repeats == 4
    assert baseline_table.recorded(both) == ["all_reduce on 4 ranks: 4 repeats from 2 runs"]


def test_every_variant_of_a_run_is_recorded_under_its_own_key():
    one = repeats("r0", 3)
    ring = one.variants[0].model_copy(update={"name": "ring", "keys": {"4": key(hardware="other")}})
    both = one.model_copy(update={"variants": (*one.variants, ring)})
    assert [entry.key["hardware"] for entry in recorded(both).entries] == ["NVIDIA H200", "other"]


def test_a_run_with_small_messages_only_learns_why_it_is_not_judged():
    known = recorded(sweep("r0", HEALTHY))
    found = compare(known, sweep("n", [0.1, 4.0, 0.0, 0.0, 0.0]))
    assert found.verdict == "not-judged"
    assert found.notes == (
        "1 of 3 repeats recorded: no size below 1 MiB is judged, and the run has no larger one",
    )
    assert found.hint == (
        "record more repeats: clusterctl bench ... --repeats 3, then clusterctl runs baseline record b"
    )


def test_the_same_run_counts_once():
    known = recorded(sweep("r0", HEALTHY), sweep("r0", HEALTHY), sweep("r1", HEALTHY))
    assert known.entries[0].runs == ("r0", "r1")
    assert all(len(series.values) == 2 for series in known.entries[0].series)


def test_other_configurations_are_not_compared_and_the_difference_is_named():
    known = recorded(*(sweep(f"r{i}", HEALTHY) for i in range(3)))
    found = compare(known, sweep("n", HEALTHY, hardware="NVIDIA H100"))
    assert found.verdict == "no-match"
    assert "hardware is NVIDIA H100, the nearest has NVIDIA H200" in found.notes[0]
    assert (
        compare(Baseline("b"), sweep("n", HEALTHY)).notes
        == ("no recorded entry matches all_reduce on 4 ranks: the baseline is empty",)
        or compare(Baseline("b"), sweep("n", HEALTHY)).verdict == "no-match"
    )


def test_a_newer_library_is_compared_and_said():
    known = recorded(*(sweep(f"r{i}", HEALTHY) for i in range(3)))
    found = compare(known, sweep("n", [value / 2 for value in HEALTHY], nccl="2.29.1"))
    assert found.verdict == "below-baseline"
    assert found.notes == ("library_version is 2.29.1, the baseline's 2.28.3",)


def test_other_versions_are_nearer_than_another_configuration():
    """A newer torch brings a newer NCCL: two fields differ, and one where the hardware is another."""
    here = {"nccl": "2.29.1", "settings": {"torch": "2.9"}}
    known = recorded(
        *(sweep(f"old{i}", HEALTHY, settings={"torch": "2.8"}) for i in range(3)),
        *(sweep(f"other{i}", HEALTHY, **here, hardware="NVIDIA H100") for i in range(3)),
    )
    found = compare(known, sweep("n", [value * 0.5 for value in HEALTHY], **here))
    assert found.verdict == "below-baseline" and found.judged == len(SIZES)
    assert found.notes == (
        "library_version is 2.29.1, the baseline's 2.28.3", "torch is 2.9, the baseline's 2.8"
    )  # fmt: skip


def test_every_point_of_a_scaling_curve_has_its_own_figure():
    known = recorded(*(training(f"r{i}", np1=1000.0, np4=3900.0) for i in range(3)))
    assert len(known.entries) == 2
    found = compare(known, training("n", np1=1001.0, np4=3000.0))
    assert [(below.np, below.figure.unit) for below in found.below] == [("4", "images/s")]
    assert compare(known, training("n", np1=999.0)).verdict == "ok"


def test_a_document_without_keys_has_no_figures():
    assert figures(bench("r")) == []
    bare = bench("r", bench_documents.variant(rows=[bench_documents.row(8, 1.0, 1.0)]))
    assert figures(bare) == []


def test_files_hold_what_was_recorded(tmp_path):
    known = recorded(sweep("r0", HEALTHY), training("t0", np1=10.5))
    path = baseline_files.save(known, tmp_path)
    assert path == tmp_path / "baselines" / "b.baseline.json"
    assert baseline_files.load("b", tmp_path) == known
    assert baseline_files.names(tmp_path) == ("b",)
    baseline_files.remove("b", tmp_path)
    assert baseline_files.names(tmp_path) == ()
    with pytest.raises(UsageError, match=r"baseline 'b' not found \(recorded: none yet\)"):
        baseline_files.remove("b", tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"schema": "clusterctl.baseline/2", "name": "b", "entries": []}', "\0"]
)
def test_a_damaged_file_is_named(tmp_path, text):
    path = tmp_path / "baselines" / "b.baseline.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ResultError, match=r"b\.baseline\.json is not a valid baseline") as raised:
        baseline_files.load("b", tmp_path)
    assert "clusterctl runs baseline remove b" in (raised.value.hint or "")
    baseline_files.remove("b", tmp_path)
    assert baseline_files.names(tmp_path) == ()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "0.0", "-1"])
def test_a_figure_that_nothing_could_be_below_is_damage(tmp_path, value):
    path = baseline_files.save(recorded(sweep("r0", HEALTHY)), tmp_path)
    path.write_text(path.read_text().replace(" 0.2", f" {value}", 1))
    with pytest.raises(ResultError, match=r"is not a valid baseline: entries\.0\.series\.0\.values\.0"):
        baseline_files.load("b", tmp_path)


@pytest.mark.parametrize("name", ["", ".hidden", "a b", "x" * 65, "-f"])
def test_names_that_are_none(name, tmp_path):
    with pytest.raises(UsageError, match="not a valid name for a baseline"):
        baseline_files.path_of(name, tmp_path)


def test_the_catalogue_has_sources_and_finds_its_like():
    rows = published.rows()
    assert all(row.source and row.provenance for row in rows)
    assert {row.provenance for row in rows} == {"measured-by-us", "vendor", "third-party"}
    found = published.like(key())
    assert {row.busbw_gbps for row in found} == {355.5, 363.3}
    assert published.like(key(hardware="NVIDIA H200 + NVIDIA H100")) == ()
    assert published.like(key(hardware="NVIDIA A10")) == ()
