"""The table at the end of Tencent Cloud's guide to TACO Train, from results: as text, CSV, HTML and for Prometheus."""

import csv
import io

import bench_views
import pytest
from prometheus_client.parser import text_string_to_metric_families

from clusterctl.benchmarks.base import RankProof
from clusterctl.benchmarks.scaling import Point
from clusterctl.benchmarks.training import RankRate, Training, TrainingRun
from clusterctl.launch.measured import Interleaved, Measured, Repeated, TrainingPoint
from clusterctl.launch.request import Request
from clusterctl.launch.variants import parse_variants
from clusterctl.results.model import from_interleaved, from_measured
from clusterctl.results.record import from_document

# Images/s of 1, 8 and 16 A100: Horovod, and LightCC with its mechanisms.
HOROVOD, LIGHTCC = (819.0, 6469.0, 12299.0), (819.0, 6469.0, 12532.0)
PLACES = ((1, 1), (8, 1), (16, 2))
RUN = "20261120T091500Z-bench-c0de"


def measured(rates, loss, **more):
    points = []
    for (np, nodes), rate in zip(PLACES, rates, strict=True):
        ranks = tuple(RankRate(rank, rate / np, 0.0, 7.0, loss + 0.5 * (-1) ** rank) for rank in range(np))
        run = TrainingRun((), ranks, {"sample": "image", "api": "horovod"}, (), (), losses=(6.0, loss))
        points.append(TrainingPoint(Point(np, nodes, rate), run))
    proof = tuple(
        RankProof(rank, f"gpu{rank // 8}", rank, f"cuda:{rank % 8} NVIDIA A100") for rank in range(16)
    )
    request = Request(Training(api="horovod"), {}, None, (1, 8, 16), "ccore", None, None, 600.0)
    settings = {"program": "torch", "api": "horovod", **more}
    return Measured(request, "ccore", "openmpi", None, tuple(points), proof, (), (), settings=settings)


@pytest.fixture
def result():
    plain, topk = parse_variants("plain,topk")
    runs = (
        Repeated(plain, (measured(HOROVOD, 5.0, environment=dict(plain.environment)),)),
        Repeated(topk, (measured(LIGHTCC, 5.5, environment=dict(topk.environment)),)),
    )
    return from_interleaved(Interleaved(runs[0].runs[0].request, runs, 1, ()), RUN)


def test_the_terminal_shows_both_formulas_and_the_price_of_top_k(result):
    shown = bench_views.text(result).replace("measured once", "once").splitlines()
    assert shown[3:10] == [
        "ranks  nodes  variant  images/s  efficiency  between nodes  first loss  last loss  ratio  noise",
        "    1      1  plain       819.0     100.00%              -      7.0000     5.5000",
        "    1      1  topk        819.0     100.00%              -      7.0000     6.0000  1.000      ?  once",
        "    8      1  plain      6469.0      98.73%              -      7.0000     5.0000",
        "    8      1  topk       6469.0      98.73%              -      7.0000     5.5000  1.000      ?  once",
        "   16      2  plain     12299.0      93.85%         95.06%      7.0000     5.0000",
        "   16      2  topk      12532.0      95.63%         96.86%      7.0000     5.5000  1.019      ?  once",
    ]


def test_csv_has_a_line_for_each_variant_and_number_of_ranks(result):
    lines = list(csv.DictReader(io.StringIO(bench_views.csv(from_document(result.document())))))
    found = [
        (one["variant"], one["np"], one["samples_per_s"], one["loss"], one["ratio"][:5]) for one in lines
    ]
    assert found == [
        ("plain", "1", "819.0", "5.5", "1.0"), ("plain", "8", "6469.0", "5.0", "1.0"),
        ("plain", "16", "12299.0", "5.0", "1.0"), ("topk", "1", "819.0", "6.0", "1.0"),
        ("topk", "8", "6469.0", "5.5", "1.0"), ("topk", "16", "12532.0", "5.5", "1.018"),
    ]  # fmt: skip
    assert float(lines[-1]["efficiency"]) == pytest.approx(0.95635, abs=1e-5)
    assert float(lines[-1]["efficiency_between_nodes"]) == pytest.approx(0.96862, abs=1e-5)


def test_prometheus_has_every_figure_of_every_variant(result):
    text = bench_views.prometheus(from_document(result.document()))
    found = {
        (
            sample.name.removeprefix("clusterctl_bench_"),
            sample.labels["variant"],
            sample.labels["np"],
        ): sample.value
        for one in text_string_to_metric_families(text)
        for sample in one.samples
    }
    assert found["samples_per_second", "topk", "16"] == 12532.0
    assert found["efficiency_ratio", "plain", "16"] == pytest.approx(0.93857, abs=1e-5)
    assert found["efficiency_between_nodes_ratio", "plain", "16"] == pytest.approx(0.95061, abs=1e-5)
    assert (found["loss", "plain", "16"], found["loss", "topk", "16"]) == (5.0, 5.5)
    configurations = {
        (sample.labels["variant"], sample.labels["configuration"])
        for one in text_string_to_metric_families(text)
        for sample in one.samples
        if sample.labels["np"] == "16" and sample.labels["variant"]
    }
    assert len({configuration for _, configuration in configurations}) == 2


def test_the_page_shows_them_too(result):
    page = bench_views.page(from_document(result.document()))
    for text in ("93.85%", "96.86%", "5.5000", "between nodes", "first loss"):
        assert text in page


def test_a_run_without_variants_has_its_loss_in_every_form():
    result = from_measured(measured(HOROVOD, 5.0), RUN)
    document = result.document()
    (only,) = document["variants"]
    assert (only["points"][2]["loss_first"], only["points"][2]["loss"]) == (7.0, 5.0)
    assert document["proof"]["losses"]["16"] == [6.0, 5.0]
    assert "93.85%         95.06%      7.0000     5.0000" in bench_views.text(result)
    record = from_document(document)
    assert "<td>7.0000</td><td>5.0000</td>" in bench_views.page(record)
    *_, last = csv.DictReader(io.StringIO(bench_views.csv(record)))
    assert (last["loss"], last["variant"]) == ("5.0", "")
    assert float(last["efficiency_between_nodes"]) == pytest.approx(0.950611)
    assert "clusterctl_bench_loss{" in bench_views.prometheus(record)
