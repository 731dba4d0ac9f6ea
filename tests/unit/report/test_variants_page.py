"""Interleaved variants on the page of their run, and repeats as noise in a comparison."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import bench_documents
import bench_views
import pytest
from bench_documents import point, row
from result_documents import collective

from clusterctl.cli.runs.listing import Filters
from clusterctl.documents.kinds import ComparisonWord
from clusterctl.report.line import Tone
from clusterctl.results.comparison import compare
from clusterctl.results.record import from_document
from clusterctl.rundir import RunDir
from clusterctl.runs import outcome
from clusterctl.views import bench_table, charts
from clusterctl.views.bench import MPS_COMMANDS
from clusterctl.workloads.shared_gpu import TIME_SLICES


def rows(*times_us):
    sizes = (1 << 20, 1 << 25)
    return [
        row(s, t, tuple(s / v / 1e3 for v in t), ratio=r, noise=0.06, word="faster")
        for s, t, r in zip(sizes, times_us, (1.0, 2.0), strict=True)
    ]


def curve(*rates):
    return [
        point(np, r, sample="sequence", efficiency=0.98, ratio=1.5)
        for np, r in zip((1, 4), rates, strict=True)
    ]


def variant(name, repeats=3, **figures):
    return bench_documents.variant(name, repeats=repeats, **{"library": name, **figures})


def record(*found):
    one = collective()
    return replace(one, document={**one.document, "variants": list(found)})


def table_of(one):
    return bench_table.table(one.result).on_page()


def texts(table):
    return [tuple(cell.text for cell in row) for row in table.rows]


TWO = (
    variant("nccl", rows=rows((100.0, 110.0, 104.0), (900.0, 905.0, 910.0))),
    variant("<b>ccore</b>", rows=rows((90.0, 91.0, 92.0), (450.0, 455.0, 460.0))),
)


def test_both_variants_are_drawn_with_their_bounds_and_stand_side_by_side():
    page = bench_views.page(record(*TWO))
    drawing = page.split('<svg class="chart wide"')[1].split("</svg>")[0]
    assert drawing.count('class="spread s1"') == drawing.count('class="spread s2"') == 2
    assert "&lt;b&gt;ccore&lt;/b&gt; time" in page and "<b>" not in page
    assert "Variants side by side" in page and "Every message size" not in page
    assert "Medians of 3 repeats" in page
    table = table_of(record(*TWO))
    assert [(head.page or head.text, head.unit) for head in table.heads[:6]] == [
        ("size", ""), ("bytes", ""), ("<b>ccore</b>", "/ nccl"), ("noise", ""), ("", ""), ("nccl time", "\u00b5s")
    ]  # fmt: skip
    assert texts(table)[1] == (
        *("32 MiB", "33554432", "2.000", "\u00b16.0 %", "faster"),
        *("905.00", "0.6", "37.08", "455.00", "1.1", "73.75"),
    )
    assert table.rows[1][4].tone is Tone.GOOD
    # A narrow page leaves out the second column of such a table.
    assert '<table class="figures wrapped sized">' in page


def test_a_training_counts_what_it_counts_and_lacks_what_it_lacks():
    one = record(
        variant("nccl", points=curve((100.0, 101.0, 102.0), (390.0, 391.0, 392.0))),
        variant("gloo", points=curve((90.0,), (300.0,))[:1]),
    )
    table = table_of(one)
    assert [head.page or head.text for head in table.heads] == [
        "ranks", "variant", "speed", "noise", "", "nodes", "throughput", "varies", "efficiency"
    ]  # fmt: skip
    assert table.heads[6].unit == "sequences/s"
    assert texts(table) == [
        ("1", "nccl", "", "", "", "1", "101.0", "1.0", "98.00%"),
        ("1", "gloo", "1.500", "?", "", "1", "90.0", "-", "98.00%"),
        ("4", "nccl", "", "", "", "1", "391.0", "0.3", "98.00%"),
        ("4", "gloo", "-", "", "", "1", "-", "-", "-"),
    ]
    (scaling,) = charts.of_run(one.result, [])
    assert [len(series.marks) for series in scaling.series] == [2, 1]
    assert scaling.series[0].marks[1].bounds == (390.0, 392.0) and scaling.series[1].marks[0].bounds is None
    assert scaling.y.title == "sequences/s"


def test_a_spread_that_was_not_recorded_is_not_shown_as_zero():
    one = record(variant("nccl", repeats=1, points=curve(100.0, 390.0)))
    known = from_document({**one.document, "proof": {**one.document["proof"], "spread": {"4": 0.2}}})
    assert [row[3:5] for row in texts(table_of(known))] == [("100.0", "-"), ("97.5", "0.2")]
    assert [row[3].terminal for row in table_of(known).rows] == ["", "97.5 +-0.2"]


@pytest.mark.parametrize(
    ("times_us", "word"),
    [((820.0, 823.0, 826.0), ComparisonWord.FASTER), ((895.0, 904.0, 913.0), ComparisonWord.SAME)],
)
def test_repeats_are_the_noise_of_a_comparison(times_us, word):
    one = record(TWO[0])
    other = record(variant("nccl", rows=rows((100.0, 110.0, 104.0), times_us)))
    other = replace(other, summary=other.summary.model_copy(update={"run": "20261121T091500Z-bench-aaaa"}))
    figure = compare([one, other]).lines[1].figures[1]
    assert figure.noise < 0.08 and figure.word is word


def test_a_variant_that_never_ran_leaves_the_others_on_the_page():
    page = bench_views.page(record(TWO[0], variant("gloo")))
    assert "gloo time" in page and "37.08" in page


def test_a_run_that_a_fault_ended_shows_how_often_it_measured():
    page = bench_views.page(record({**TWO[0], "repeats": 1}, {**TWO[1], "repeats": 1}))
    assert "Medians of 1 repeat." in page
    assert bench_table.repeats([2, 3]) == "3 and 2 repeats"


def test_what_each_variant_proves_stands_below_the_table():
    def way(status, label):
        node = {
            "name": "a",
            "status": status,
            "send": {label: 2},
            "receive": {label: 2},
            "cause": "<i>why</i>",
        }
        overall = "fallen-back" if status == "sockets" else status
        return {"gpudirect": {"status": overall, "nodes": [node, {**node, "name": "b"}]}}

    page = bench_views.page(
        record(
            {**TWO[0], "name": "gdr=0", "proof": way("sockets", "NET/Socket")},
            {**TWO[1], "name": "gdr=2", "proof": way("proven", "NET/IB/GDRDMA")},
        )
    )
    below = page.rpartition("What each variant proves")[2].split("</section>")[0]
    assert "gdr=0: GPUDirect RDMA: SOCKETS (NET/Socket): &lt;i&gt;why" in below
    assert "gdr=2: GPUDirect RDMA: proven (NET/IB/GDRDMA)" in below


def words(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_the_page_of_variants_is_titled_as_a_comparison_with_a_figure_of_each():
    page = bench_views.page(record(*TWO))
    shown = words(page)
    assert "all_reduce \u00b7 nccl against &lt;b&gt;ccore&lt;/b&gt; \u00b7 4 ranks on 1 node" in shown
    assert "2 variants interleaved: nccl, &lt;b&gt;ccore&lt;/b&gt;; 3 repeats, launcher openmpi" in shown
    assert "nccl 37.08 GB/s highest bus bandwidth, at 32 MiB" in shown
    assert "&lt;b&gt;ccore&lt;/b&gt; 73.75 GB/s highest bus bandwidth, at 32 MiB" in shown
    assert "Wrong elements 0 of all variants" in shown and "Smallest message" not in shown
    assert shown.count("bars: smallest to largest repeat") == 2
    assert '<td class="word good">faster</td>' in page
    points = curve((100.0, 101.0, 102.0), (390.0, 391.0, 392.0))
    points[1]["word"] = "slower"
    training = words(bench_views.page(record(variant("gloo", points=points), variant("mpi", points=points))))
    assert "mpi 391.0 sequences/s throughput of 4 ranks, slower" in training


def test_repeats_of_one_configuration_have_the_page_of_a_plain_run():
    shown = words(bench_views.page(record(variant("default", library="nccl", rows=TWO[0]["rows"]))))
    assert (
        "all_reduce \u00b7 4 ranks on 1 node" in shown
        and "library nccl, launcher openmpi, 3 repeats" in shown
    )
    assert "Every message size Medians of 3 repeats" in shown and "default" not in shown
    assert (
        "Highest bus bandwidth 37.08 GB/s" in shown and "Wrong elements 0 all 2 sizes were checked" in shown
    )


def test_every_library_of_the_variants_is_listed_and_found(tmp_path):
    document = record(*TWO).document
    stored = from_document({**document, "variants": [*TWO, variant("plain", library=None)]})
    assert stored.summary.library == "nccl, <b>ccore</b>"
    folder = RunDir.create("bench", tmp_path)
    folder.write("results", stored.document)
    path = folder.path
    del folder
    one = outcome.listed(RunDir(path))
    assert [Filters(library=name).fits(one) for name in ("nccl", "<b>ccore</b>", "ncc", "gloo")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_ranks_that_took_turns_on_a_gpu_are_reported_first_with_the_commands_that_start_mps():
    shared = {"sharing": f"2, {TIME_SLICES} (NCCL_MULTI_RANK_GPU_ENABLE=1)"}
    one = record({**TWO[0], "proof": shared}, {**TWO[1], "proof": shared})
    lines = bench_views.text(one.result).splitlines()
    assert lines[0].startswith(
        "unsure (time slices): the ranks took turns on a GPU, so these figures are not"
    )
    assert tuple(lines[2:4]) == MPS_COMMANDS
    page = words(bench_views.page(one))
    assert page.index("the ranks took turns on a GPU") < page.index("nccl time")
    with_mps = {"sharing": "2, at the same time, with MPS"}
    assert "time slices" not in bench_views.text(record({**TWO[0], "proof": with_mps}, TWO[1]).result)


def test_undecided_ratios_are_followed_by_what_decides_them():
    some = row(1 << 20, (80.0, 85.0, 90.0), (1.0, 1.0, 1.0), ratio=1.2, noise=0.3, word="undecided")
    one = record(TWO[0], variant("ccore", rows=[{**some, "repeats_needed": 9}]))
    for shown in (bench_views.text(one.result), words(bench_views.page(one))):
        assert (
            " undecided " in " ".join(shown.split()) and "--repeats 9 decides, if they vary as much" in shown
        )


def test_junit_has_a_case_with_the_figure_of_each_variant():
    (suite,) = ElementTree.fromstring(bench_views.junit(record(*TWO)))
    cases = {case.get("name"): case.findtext("system-out") for case in suite}
    assert list(cases) == ["all_reduce, nccl, 4 ranks", "all_reduce, <b>ccore</b>, 4 ranks"]
    assert [text.partition(" GB/s")[0] for text in cases.values()] == ["best: 37.1", "best: 73.7"]
