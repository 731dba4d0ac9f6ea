"""Stored runs for other tools, read back by the readers that people use for them."""

import csv
import io
import json
from dataclasses import replace
from datetime import datetime, timezone

import bench_views
import pytest
from bench_documents import with_rows
from junitparser import Failure, JUnitXml
from prometheus_client.parser import text_string_to_metric_families
from result_documents import collective, slow_rank_training, training

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.documents.measured_runs import RunsExport
from clusterctl.results.record import from_document

FAULT = Fault(FaultKind.RANK_DIED, "rank 1 died of signal 9", 1, "gpu2", "see its log")
HOSTILE = 'a"b\\c\nd <&> \x1b \ud800'


def hostile(record, text=HOSTILE):
    return replace(
        record,
        summary=record.summary.model_copy(update={"hardware": text, "library": text, "benchmark": text}),
    )


def samples(records):
    found = {}
    for one in text_string_to_metric_families(bench_views.prometheus(*records)):
        for sample in one.samples:
            place = (sample.name, tuple(sorted(sample.labels.items())))
            assert place not in found, "a series must have one sample"
            found[place] = sample.value
    return found


def by_name(found, name):
    return [(dict(labels), value) for (metric, labels), value in found.items() if metric == name]


def test_csv_has_every_figure_in_its_column():
    record = collective()
    lines = list(csv.DictReader(io.StringIO(bench_views.csv(record, slow_rank_training()))))
    assert len(lines) == 11 + 4
    for line, row in zip(lines, record.result.rows, strict=False):
        assert (int(line["size_bytes"]), int(line["wrong"])) == (row.size_bytes, row.wrong)
        for name in ("time_us", "algbw_gbps", "busbw_gbps"):
            assert float(line[name]) == getattr(row, name).median
            assert float(line[f"in_place_{name}"]) == getattr(row.in_place, name).median
        assert float(line["avg_busbw_gbps"]) == record.document["avg_busbw_gbps"]
        assert (line["np"], line["hardware"], line["samples_per_s"]) == ("4", "NVIDIA H200", "")
    assert [line["np"] for line in lines[11:]] == ["1", "8", "16", "32"]
    assert float(lines[-1]["samples_per_s"]) == 80563.0 and lines[-1]["busbw_gbps"] == ""


def test_csv_has_ratios_of_compared_variants_only():
    one = collective()
    (only,) = one.document["variants"]
    other = {**only, "name": "other"}
    both = from_document({**one.document, "variants": [only, other]})
    for record, ratio in ((one, ""), (both, "1.0")):
        lines = list(csv.DictReader(io.StringIO(bench_views.csv(record))))
        assert {line["ratio"] for line in lines} == {ratio}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", HOSTILE])
def test_csv_holds_no_formula_and_stays_one_line_a_figure(text):
    rendered = bench_views.csv(hostile(collective(), text))
    lines = list(csv.DictReader(io.StringIO(rendered)))
    assert len(lines) == 11
    assert not lines[0]["hardware"].startswith(("=", "+", "-", "@", "\t"))
    rendered.encode()


def test_a_run_without_figures_has_a_line_of_its_own():
    record = collective()
    empty = replace(record, document=with_rows(record.document, []))
    (line,) = csv.DictReader(io.StringIO(bench_views.csv(empty)))
    assert line["run"] == record.summary.run and line["size_bytes"] == ""


def test_prometheus_reads_every_figure_in_base_units():
    found = samples([collective(), slow_rank_training()])
    speeds = by_name(found, "clusterctl_bench_busbw_bytes_per_second")
    assert {labels["size_bytes"]: value for labels, value in speeds}["1073741824"] == pytest.approx(355.54e9)
    times = by_name(found, "clusterctl_bench_time_seconds")
    assert min(value for _, value in times) == pytest.approx(10.21e-6)
    rates = by_name(found, "clusterctl_bench_samples_per_second")
    assert {labels["np"]: value for labels, value in rates}["32"] == 80563.0
    assert {v for _, v in by_name(found, "clusterctl_bench_ok")} == {1.0}
    moments = {v for _, v in by_name(found, "clusterctl_bench_timestamp_seconds")}
    assert moments == {datetime(2026, 11, 20, 9, m, tzinfo=timezone.utc).timestamp() for m in (15, 30)}


def test_prometheus_has_the_newest_of_each_configuration_and_no_figure_of_a_failed_run():
    new, old = collective(run="20261121T091500Z-bench-aaaa"), collective()
    other = training([[100.0], [90.0] * 2], precision="fp32")
    found = samples([new, old, other, training([[80.0], [70.0] * 2])])
    assert len(by_name(found, "clusterctl_bench_ok")) == 3
    assert len(by_name(found, "clusterctl_bench_busbw_bytes_per_second")) == 11
    assert (
        len({labels["configuration"] for labels, _ in by_name(found, "clusterctl_bench_samples_per_second")})
        == 4
    )
    failed = samples([collective("crashed-without-summary", faults=[FAULT])])
    assert [value for _, value in by_name(failed, "clusterctl_bench_ok")] == [0.0]
    assert not by_name(failed, "clusterctl_bench_busbw_bytes_per_second")


def test_prometheus_has_one_sample_where_curves_share_a_point():
    newer = training([[110.0], [90.0] * 2], run="20261122T093000Z-bench-bbbb")
    older = training([[100.0], [80.0] * 2, [70.0] * 4])
    found = samples([newer, older])
    rates = {labels["np"]: value for labels, value in by_name(found, "clusterctl_bench_samples_per_second")}
    assert rates == {"1": 110.0, "2": 180.0, "4": 280.0}, "of two the newer"


def test_prometheus_survives_hostile_words():
    found = samples([hostile(collective())])
    (labels, _), *_ = by_name(found, "clusterctl_bench_ok")
    assert labels["benchmark"].startswith('a"b\\c\nd <&>')


def test_junit_has_a_case_for_what_went_wrong():
    text = bench_views.junit(collective(), collective("crashed-without-summary", faults=[FAULT]))
    good, bad = JUnitXml.fromstring(text.encode())
    assert (good.tests, good.failures, bad.tests, bad.failures) == (1, 0, 1, 1)
    (case,) = bad
    (result,) = case.result
    assert isinstance(result, Failure) and result.type == "rank-died"
    assert result.text == "rank 1 died of signal 9\nhint: see its log"
    assert "355.5 GB/s on NVIDIA H200" in next(iter(good)).system_out


def test_junit_gives_no_time_to_what_has_none():
    assert "time=" not in bench_views.junit(collective())


def test_junit_fails_a_run_below_its_baseline():
    record = collective()
    below = replace(record, summary=record.summary.model_copy(update={"status": "below-baseline"}))
    (suite,) = JUnitXml.fromstring(bench_views.junit(below).encode())
    (case,) = suite
    assert case.result[0].message == "the run is below-baseline"


def test_junit_survives_hostile_words():
    (suite,) = JUnitXml.fromstring(bench_views.junit(hostile(collective())).encode())
    assert suite.tests == 1


def test_json_has_the_whole_document():
    record = slow_rank_training()
    document = json.loads(RunsExport(runs=[record.exported()]).model_dump_json(by_alias=True))
    (one,) = document["runs"]
    assert document["schema"] == "clusterctl.runs-export/1"
    assert one["document"] == record.document and one["commands"] == list(record.commands)
    assert one["figure"] == 80563.0 and one["unit"] == "images/s"
