"""Variants in the result: medians over repeats, their spread, ratios to the first, and the table of them."""

import csv
import io
import json
from dataclasses import replace

import bench_views
import pytest

from clusterctl.benchmarks.base import Fault, FaultKind, RankProof
from clusterctl.benchmarks.key import GRAPH_IF_FASTER
from clusterctl.benchmarks.perf_output import Half, Row, Sweep
from clusterctl.benchmarks.scaling import Point
from clusterctl.benchmarks.training import Training, TrainingRun
from clusterctl.documents.evidence import Calls, GpuDirectNode, RankPath
from clusterctl.documents.proof import VariantProof
from clusterctl.launch.fast_path import Trust
from clusterctl.launch.measured import Interleaved, Measured, Repeated, TrainingPoint
from clusterctl.launch.request import Request
from clusterctl.launch.variants import Variant
from clusterctl.report.text import trust as trust_lines
from clusterctl.results import record
from clusterctl.results.model import from_interleaved, from_measured
from clusterctl.results.variants import spread
from clusterctl.rundir import RunDir
from clusterctl.trust import gpudirect
from clusterctl.trust.links import NodeLinks, NvLink
from clusterctl.trust.usage import RankUsage
from clusterctl.views import runs as run_views

PROOF = (RankProof(0, "gpu1", 7, "cuda:0 H200"), RankProof(1, "gpu1", 8, "cuda:1 H200"))
ABSENT = Half(None, None, None, None)


def request(training=None):
    return Request(training, {}, None, None, None, None, None, 600.0)


def sweep(library, *times_us, wrong=0):
    rows = tuple(
        Row(
            size,
            size // 4,
            "float",
            "sum",
            -1,
            ABSENT,
            Half(time, size / time / 1e3, size / time / 1e3, wrong),
        )
        for size, time in zip((1024, 1 << 20), times_us, strict=True)
    )
    found = Sweep(rows, PROOF, 0, (f"Library {library} 1.0",), (), ())
    return Measured(request(), library, "local", found, (), PROOF, (), (), settings={"program": "torch"})


def training(library, *samples_per_s, sample="image"):
    run = TrainingRun(PROOF, (), {"sample": sample, "batch_size": 64}, (), ())
    points = tuple(
        TrainingPoint(Point(np, 1, rate), run) for np, rate in zip((1, 2), samples_per_s, strict=True)
    )
    return Measured(request(Training()), library, "local", None, points, PROOF, (), ())


def interleaved(*variants, faults=(), repeats=3):
    first = variants[0][1][0].request
    return Interleaved(
        first, tuple(Repeated(variant, tuple(runs)) for variant, runs in variants), repeats, faults
    )


TWO = interleaved(
    (Variant("gloo", "gloo"), [sweep("gloo", 10.0, 900.0), sweep("gloo", 30.0, 800.0), sweep("gloo", 20.0, 1000.0)]),
    (Variant("ccore", "ccore"), [sweep("ccore", 5.0, 300.0), sweep("ccore", 5.0, 100.0), sweep("ccore", 8.0, 200.0)]),
)  # fmt: skip

TWO_TRAININGS = interleaved(
    (Variant("gloo", "gloo"), [training("gloo", 100.0, 180.0)]),
    (Variant("ccore", "ccore"), [training("ccore", 110.0, 200.0)]),
    repeats=1,
)


def test_the_spread_of_repeats():
    found = spread([10.0, 30.0, 20.0])
    assert (found.median, found.least, found.greatest, found.cv) == (20.0, 10.0, 30.0, 0.5)
    assert spread([4.0]).cv is None


def test_a_collectives_variants():
    document = from_interleaved(TWO, "run-1").document()
    assert document["status"] == "ok"
    one, other = document["variants"]
    assert (one["name"], one["library"], one["repeats"], one["environment"]) == ("gloo", "gloo", 3, {})
    assert [row["time_us"]["median"] for row in one["rows"]] == [20.0, 900.0]
    assert [row["ratio"] for row in one["rows"]] == [1.0, 1.0]
    assert [row["time_us"]["median"] for row in other["rows"]] == [5.0, 200.0]
    # By time: 20 us against 5, and 900 against 200.
    assert [row["ratio"] for row in other["rows"]] == [4.0, 4.5]
    assert other["rows"][0]["time_us"]["greatest"] == 8.0
    assert json.loads(json.dumps(document)) == document


def in_graphs(measured, *calls_us, slower=1.0):
    """Return the sweep with times of calls beside those of CUDA graphs, which its rows report."""
    rows = tuple(
        replace(row, calls_us=calls, graph_us=row.in_place.time_us * slower)
        for row, calls in zip(measured.sweep.rows, calls_us, strict=False)
    )
    return replace(measured, sweep=replace(measured.sweep, rows=(*rows, *measured.sweep.rows[len(rows) :])))


def test_variants_are_compared_by_graphs_where_all_of_them_have_one():
    """At 1 KiB: 6.0 us against 2.0 in graphs and 40 against 50 from Python; at 1 MiB only one has a graph."""
    nccl, ccore = in_graphs(sweep("nccl", 6.0, 90.0), 40.0, 95.0), in_graphs(sweep("ccore", 2.0, 80.0), 50.0)
    both = interleaved((Variant("nccl", "nccl"), [nccl]), (Variant("ccore", "ccore"), [ccore]), repeats=1)
    result = from_interleaved(both, "r")
    one, other = (variant.rows for variant in result.variants)
    assert [row.time_us.median for row in (*one, *other)] == [6.0, 95.0, 2.0, 80.0]
    assert [row.calls_us and row.calls_us.median for row in (*one, *other)] == [40.0, None, 50.0, None]
    assert [row.ratio for row in other] == pytest.approx([3.0, 95.0 / 80.0])
    assert one[1].busbw_gbps.median == pytest.approx((1 << 20) / 95.0 / 1e3)
    shown = bench_views.text(result)
    assert (
        "nccl calls us" in shown and "Times up to 1 KiB are those of CUDA graphs; calls from Python" in shown
    )
    lines = list(csv.DictReader(io.StringIO(bench_views.csv(record.from_document(result.document())))))
    assert [line["calls_us"] for line in lines] == ["40.0", "", "50.0", ""]


def test_a_variant_that_cannot_be_captured_lets_all_be_compared_by_calls():
    nccl, ccore = in_graphs(sweep("nccl", 6.0, 60.0), 40.0, 65.0), sweep("ccore", 50.0, 80.0)
    both = interleaved((Variant("nccl", "nccl"), [nccl]), (Variant("ccore", "ccore"), [ccore]), repeats=1)
    asked = {"program": "torch", "cuda_graph": GRAPH_IF_FASTER}
    both = replace(
        both,
        variants=tuple(
            replace(one, runs=tuple(replace(run, settings=asked) for run in one.runs))
            for one in both.variants
        ),
    )
    result = from_interleaved(both, "r")
    assert [row.time_us.median for row in result.rows] == [40.0, 65.0]
    assert [row.ratio for row in result.variants[1].rows] == pytest.approx([0.8, 65.0 / 80.0])
    assert "calls us" not in bench_views.text(result)
    assert "a CUDA graph cannot capture those of every variant here" in bench_views.text(result)


def test_one_variant_keeps_the_time_that_its_program_reports():
    """Here the program counted calls of 2 MiB and more, though a graph was a little faster."""
    rows = from_measured(in_graphs(sweep("nccl", 6.0, 60.0), 40.0, 60.0, slower=0.95), "r").rows
    assert [(row.time_us.median, row.calls_us.median) for row in rows] == [(6.0, 40.0), (60.0, 60.0)]


def test_nccl_alone_in_place_of_nccl_behind_collective_core_gets_no_ratio():
    def result(taken):
        behind = sweep("nccl+ccore", 5.0, 300.0)
        path = RankPath(
            0, "kernel" if taken else None, None, {"ncclAllReduce": 9} if taken else {}, {"ncclAllReduce": 1}
        )
        runs = (Variant("nccl", "nccl"), [sweep("nccl", 10.0, 600.0)])
        return from_interleaved(
            interleaved(runs, (Variant("nccl+ccore", "nccl+ccore"), [replace(behind, paths=(path,))])),
            "run-1",
        )

    assert [row.ratio for row in result(taken=True).variants[1].rows] == [2.0, 2.0]
    nothing = result(taken=False)
    assert [row.ratio for row in nothing.variants[1].rows] == [None, None]
    assert "nccl+ccore: path of rank 0: collective_core took no call" in bench_views.text(nothing)


UNDECIDED = (
    "Undecided: the ranges of the repeats do not touch, but so few can differ by chance; --repeats {} decides, if they "
    "vary as much."
)


def test_the_table_shows_median_bounds_and_ratio():
    assert bench_views.text(from_interleaved(TWO, "run-1")).splitlines() == [
        "ccore against gloo: undecided after 3 repeats (4.00 to 4.50 times the speed): --repeats 6 might decide",
        "all_reduce, launcher local, 2 variants interleaved",
        "median (minimum-maximum) of 3 repeats; ratio: speed relative to gloo",
        " size               gloo us  busbw GB/s             ccore us  busbw GB/s  ratio   noise",
        "1 KiB      20.0 (10.0-30.0)        0.05        5.0 (5.0-8.0)        0.20  4.000  >100 %  undecided",
        "1 MiB  900.0 (800.0-1000.0)        1.17  200.0 (100.0-300.0)        5.24  4.500  >100 %  undecided",
        UNDECIDED.format(6),
    ]


def test_interleaved_variants_are_faster_or_slower_beyond_their_noise():
    gloo = (Variant("gloo", "gloo"), [sweep("gloo", 20.0 + off, 900.0 + off) for off in (-0.1, 0.0, 0.1)])
    ccore = (Variant("ccore", "ccore"), [sweep("ccore", 5.0 + off, 1000.0 + off) for off in (-0.1, 0.0, 0.1)])
    document = from_interleaved(interleaved(gloo, ccore), "r").document()
    first, second = (variant["rows"] for variant in document["variants"])
    assert [(row["noise"], row["word"]) for row in first] == [(None, None)] * 2
    assert [row["word"] for row in second] == ["faster", "slower"]
    assert second[1]["noise"] == 0.01 < second[0]["noise"] < 0.5
    once = [(variant, runs[:1]) for variant, runs in (gloo, ccore)]
    single = from_interleaved(interleaved(*once, repeats=1), "r")
    assert {row.word.value for row in single.variants[1].rows} == {"measured once"}
    assert "one repeat; ratio: speed relative to gloo" in bench_views.text(single)


def test_repeats_of_one_configuration_are_no_comparison():
    found = interleaved((Variant("default"), [sweep("gloo", 20.0, 900.0) for _ in range(3)]))
    result = from_interleaved(found, "r")
    assert bench_views.text(result).splitlines()[1:4] == [
        "all_reduce, library gloo, launcher local",
        "ranks on: gpu1 (2)",
        "median (minimum-maximum) of 3 repeats",
    ]
    assert bench_views.text(result).splitlines()[4] == " size              time us  busbw GB/s  wrong"
    assert result.variants[0].rows[0].time_us.values == (20.0, 20.0, 20.0)


def test_repeats_show_both_halves_of_a_program_that_measures_both():
    def both(out_us, in_us):
        once = sweep("ccore", out_us, 10 * out_us)
        rows = (replace(row, out_of_place=Half(in_us, 1.0, 2.0, 0)) for row in once.sweep.rows[:1])
        return replace(once, sweep=replace(once.sweep, rows=tuple(rows)))

    found = interleaved((Variant("default"), [both(20.0, 8.0), both(30.0, 9.0), both(10.0, 7.0)]))
    result = from_interleaved(found, "r")
    assert bench_views.text(result).splitlines()[4:] == [
        "             out-of-place, GB/s       in-place, GB/s",
        " size        time us  busbw           time us  busbw  wrong",
        "1 KiB  8.0 (7.0-9.0)   2.00  20.0 (10.0-30.0)   0.05      0",
        "Avg bus bandwidth: 1.0256 GB/s",
    ]


def test_a_run_is_shown_with_all_its_variants(tmp_path):
    result = from_interleaved(TWO, "20261120T091500Z-bench-c0de")
    RunDir(tmp_path).write("results", result.document())
    shown = run_views.summary("bench", tmp_path, result.document())
    assert [line.text for line in shown] == bench_views.text(result).splitlines()


def test_csv_has_the_medians_of_every_variant():
    both = [
        from_interleaved(TWO, "20261120T091500Z-bench-c0de"),
        from_interleaved(TWO_TRAININGS, "20261120T091500Z-bench-beef"),
    ]
    text = bench_views.csv(*(record.from_document(one.document()) for one in both))
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [
        (line["library"], json.loads(line["key"])["library"], line["size_bytes"], line["time_us"])
        for line in lines[:4]
    ] == [
        ("gloo", "gloo", "1024", "20.0"), ("gloo", "gloo", "1048576", "900.0"),
        ("ccore", "ccore", "1024", "5.0"), ("ccore", "ccore", "1048576", "200.0"),
    ]  # fmt: skip
    assert [
        (line["library"], line["np"], line["samples_per_s"], line["samples_per_s_per_rank"])
        for line in lines[4:]
    ] == [
        ("gloo", "1", "100.0", "100.0"), ("gloo", "2", "180.0", "90.0"),
        ("ccore", "1", "110.0", "110.0"), ("ccore", "2", "200.0", "100.0"),
    ]  # fmt: skip


def test_wrong_elements_of_any_repeat_are_counted():
    found = interleaved(
        (Variant("default"), [sweep("gloo", 1.0, 1.0), sweep("gloo", 1.0, 1.0, wrong=3)]), repeats=2
    )
    document = from_interleaved(found, "r").document()
    assert document["variants"][0]["rows"][0]["wrong"] == 3


@pytest.mark.parametrize("sample", ["image", "sequence"])
def test_a_trainings_variants(sample):
    def runs(*rates):
        return [training("nccl", one, two, sample=sample) for one, two in rates]

    off, on = (Variant(f"gdr={level}", None, (("NCCL_NET_GDR_LEVEL", level),)) for level in "02")
    found = interleaved(
        (off, runs((100.0, 150.0), (110.0, 160.0), (90.0, 140.0))),
        (on, runs((100.0, 180.0), (100.0, 190.0), (100.0, 200.0))),
    )
    result = from_interleaved(found, "run-2")
    document = result.document()
    points = document["variants"][1]["points"]
    assert [point["samples_per_s"]["median"] for point in points] == [100.0, 190.0]
    assert [point["efficiency"] for point in points] == [1.0, 0.95]
    assert points[1]["ratio"] == pytest.approx(190 / 150)
    assert document["variants"][0]["environment"] == {"NCCL_NET_GDR_LEVEL": "0"}
    unit = f"{sample}s/s".rjust(len("150.0 (140.0-160.0)"))
    assert bench_views.text(result).splitlines()[3:] == [
        f"ranks  nodes  variant  {unit}  efficiency  ratio  noise",
        "    1      1  gdr=0     100.0 (90.0-110.0)     100.00%",
        "    1      1  gdr=2    100.0 (100.0-100.0)     100.00%  1.000  ±93 %  within noise",
        "    2      1  gdr=0    150.0 (140.0-160.0)      75.00%",
        "    2      1  gdr=2    190.0 (180.0-200.0)      95.00%  1.267  ±39 %  undecided",
        UNDECIDED.format(5),
    ]


def test_a_variant_that_fails_ends_the_run_and_is_named():
    fault = Fault(FaultKind.RANK_DIED, "variant ccore, repeat 1 of 3: rank 1 died", 1, "gpu1")
    broken = replace(sweep("ccore", 1.0, 1.0), sweep=None, faults=(fault,))
    found = interleaved(
        (Variant("gloo", "gloo"), [sweep("gloo", 10.0, 900.0)]),
        (Variant("ccore", "ccore"), [broken]),
        faults=(fault,),
    )
    result = from_interleaved(found, "r")
    document = result.document()
    assert document["status"] == "failed"
    assert document["proof"]["failures"][0]["message"].startswith("variant ccore, repeat 1 of 3")
    assert document["variants"][1]["rows"] == []
    assert "ccore us" in bench_views.text(result)


@pytest.mark.parametrize("first", [True, False])
def test_a_variant_with_an_unproven_setting_has_no_figures(first):
    fault = Fault(FaultKind.SETTING_UNPROVEN, "no figures: nothing in this run read LIGHT_X")
    refused = (
        Variant("nccl+LIGHT_X=1", "nccl", (("LIGHT_X", "1"),)),
        [replace(sweep("nccl", 1.0, 1.0), faults=(fault,))],
    )
    plain = (Variant("nccl", "nccl"), [sweep("nccl", 10.0, 900.0)])
    result = from_interleaved(interleaved(*([refused] if first else [plain, refused]), faults=(fault,)), "r")
    last = result.variants[-1]
    assert (last.rows, last.points, last.proof.refused) == ((), (), fault.message)
    assert result.status.value == "failed"
    assert (result.rows == ()) is first
    assert fault.message in bench_views.text(result)


def test_settings_that_change_no_algorithm_are_named_beside_the_ratio():
    def usage(algorithm):
        return (
            RankUsage(
                0, "ccore", {"CCORE_2D": "0"}, {}, ("shm",), (Calls("all_reduce", 1024, algorithm, 20),)
            ),
        )

    def render(algorithm):
        plain = replace(sweep("ccore", 10.0, 900.0), usage=usage("oneshot"))
        other = replace(
            sweep("ccore", 9.0, 800.0), usage=usage(algorithm), proven={"CCORE_2D": "the ranks' reports"}
        )
        variants = (
            (Variant("ccore", "ccore"), [plain]),
            (Variant("ccore+CCORE_2D=0", "ccore", (("CCORE_2D", "0"),)), [other]),
        )
        result = from_interleaved(interleaved(*variants, repeats=1), "r")
        assert trust_lines.algorithms(result.variants[1].proof) == [
            f"algorithms: all_reduce {algorithm} 1 KiB"
        ]
        return bench_views.text(result)

    note = "ccore+CCORE_2D=0: note: the algorithms are those of ccore at every size"
    assert note in render("oneshot")
    assert note not in render("ring")
    assert "ccore+CCORE_2D=0: settings in effect: CCORE_2D (the ranks' reports)" in render("ring")
    assert "algorithms:" not in render("ring")


def test_too_few_ranks_for_a_setting_give_no_ratio():
    plain = (Variant("default"), [training("ccore", 100.0, 180.0)])
    other = (Variant("CCORE_2D=0"), [replace(training("ccore", 110.0, 200.0), without_proof=frozenset({1}))])
    points = from_interleaved(interleaved(plain, other, repeats=1), "r").variants[1].points
    assert [point.ratio is None for point in points] == [True, False]


def test_a_plain_run_is_one_variant_with_one_repeat():
    once = interleaved((Variant("default"), [sweep("gloo", 1.0, 2.0)]), repeats=1)
    plain = from_measured(once.variants[0].runs[0], "r")
    assert plain == from_interleaved(once, "r")
    (only,) = plain.variants
    assert (only.name, only.repeats, only.rows[1].time_us.values) == ("default", 1, (2.0,))


def test_every_variant_proves_its_own_way(monkeypatch):
    def way(status, label):
        nodes = tuple(GpuDirectNode(name, status, {label: 2}, {label: 2}) for name in ("a", "b"))
        return VariantProof(gpudirect=gpudirect.of_nodes(nodes))

    fast, slow = way("proven", "NET/IB/GDRDMA"), way("sockets", "NET/Socket")
    # Of three repeats one fell back: that one is shown.
    said = iter([slow, slow, fast, slow, fast, slow])
    monkeypatch.setattr("clusterctl.results.variants.proofs.of_repeat", lambda _: next(said))
    gdr = (
        (Variant("gdr=0", None, (("NCCL_NET_GDR_LEVEL", "0"),)), [sweep("nccl", 20.0, 900.0)] * 3),
        (Variant("gdr=2", None, (("NCCL_NET_GDR_LEVEL", "2"),)), [sweep("nccl", 9.0, 300.0)] * 3),
    )
    result = from_interleaved(interleaved(*gdr), "run-1")
    assert [variant.proof for variant in result.variants] == [slow, slow]
    said = iter([slow, slow, slow, fast, fast, fast])
    result = from_interleaved(interleaved(*gdr), "run-1")
    assert bench_views.text(result).splitlines()[-2:] == [
        "gdr=0: GPUDirect RDMA: SOCKETS (NET/Socket), on all 2 nodes",
        "gdr=2: GPUDirect RDMA: proven (NET/IB/GDRDMA), on all 2 nodes",
    ]


def test_the_share_of_the_expected_bandwidth_is_that_of_the_medians():
    def run(time_us):
        size = 1 << 30
        measured = sweep("nccl", 50.0, 900.0)
        half = Half(time_us, size / time_us / 1e3, size / time_us / 1e3, 0)
        row = replace(measured.sweep.rows[1], size_bytes=size, in_place=half)
        trust = Trust(2, 1, NodeLinks(2, NvLink(4, 18, 25.0)))
        return replace(measured, sweep=replace(measured.sweep, rows=(row,)), trust=trust)

    # One of three launches took twice the time.
    found = interleaved((Variant("default"), [run(8000.0), run(4000.0), run(4000.0)]))
    result = from_interleaved(found, "run-1")
    expected = result.variants[0].proof.expected
    assert expected.busbw_gbps == pytest.approx((1 << 30) / 4e6, abs=0.01)
    assert result.evidence.expected == expected
