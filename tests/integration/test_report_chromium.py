"""The pages of reports in a real Chromium: laid out, readable, nothing beyond the edge, nothing fetched."""

from __future__ import annotations

import re
from dataclasses import replace

import bench_documents
import bench_views
import chromium as browsers
import locate_documents
import pytest
from result_documents import H200_NP2, collective, slow_rank_training
from sample_fleet import sample_fleet
from topology_documents import four_nodes

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.cli.check import output
from clusterctl.documents.evidence import GpuDirectNode
from clusterctl.report.html import of_view as html
from clusterctl.report.view import NextStep
from clusterctl.trust import gpudirect

LONG = "a-node-with-a-name-as-long-as-cloud-providers-make-them-0123456789.internal.example.com"
DESKTOP, PHONE = 1280, 360


def failed():
    words = f"rank 1 on {LONG} died of signal 9; its last words: {'x' * 300} CUDA error: out of memory"
    fault = Fault(FaultKind.RANK_DIED, words, 1, LONG, "see rank-1.log in the run folder")
    return collective("crashed-without-summary", faults=[fault])


def compared():
    records = [collective(), collective(H200_NP2, run="20261121T091500Z-bench-aaaa")]
    return bench_views.compared_page(*records)


def with_variants():
    """A run whose sweep was measured in two variants, one of them with a long name."""
    record = collective()
    variants = []
    for name, factor in (("nccl", 1.0), ("nccl+NCCL_ALGO=Ring+NCCL_PROTO=Simple", 1.25)):
        rows = [
            bench_documents.row(
                row.size_bytes, repeats(row.time_us.median * factor), repeats(row.busbw_gbps.median / factor),
                ratio=1 / factor, noise=0.05, word="slower",
            )
            for row in record.result.rows
        ]  # fmt: skip
        variants.append(bench_documents.variant(name, rows=rows, repeats=3))
    return bench_views.page(replace(record, document={**record.document, "variants": variants}))


def repeats(median):
    return (median * 0.9, median, median * 1.2)


def judged():
    """A training with everything that speaks against it: a lost fast path, a baseline, stragglers."""
    record = slow_rank_training()
    ways = {"NET/IB/0/GDRDMA": 8, "NET/IB/1/GDRDMA": 8}
    proof = gpudirect.of_nodes(
        (
            GpuDirectNode("gpu01", "proven", ways, ways, ("dma-buf",)),
            GpuDirectNode(
                LONG, "sockets", {"NET/Socket/0": 4}, {}, (), "no userspace here", "install rdma-core"
            ),
        )
    )
    below = {"np": 32, "size_bytes": None, "unit": "images/s", "value": 80563.0}
    below |= {"baseline": 86000.0, "loss": 0.0632, "allowed": 0.03}
    baseline = {
        "name": "nightly",
        "verdict": "below-baseline",
        "reason": "few repeats",
        "hint": None,
        "judged": 4,
        "figures": 4,
        "too_noisy": [],
        "below": [below],
    }
    record.document["variants"][0]["proof"]["gpudirect"] = proof.model_dump(mode="json")
    record.document["proof"]["baseline"] = baseline
    summary = record.summary.model_copy(update={"status": "below-baseline"})
    return bench_views.page(replace(record, summary=summary))


def among_neighbours():
    """A collective of four nodes, one of which has a slow rail."""
    record = collective()
    ranks = [
        {"rank": r, "host": LONG if r < 8 else f"gpu0{r // 8}", "gbps": 11.0 if r == 19 else 46.0 + r % 5 / 10,
         "gbps_with": {str((r + 8) % 32): 46.0, str((r - 8) % 32): 11.0}}
        for r in range(32)
    ]  # fmt: skip
    record.document["proof"]["neighbours"] = {"size_bytes": 64 << 20, "ranks": ranks}
    return bench_views.page(record)


def fleet(count):
    return html.render(output.view(sample_fleet(count), [NextStep("clusterctl x")], for_page=True))


def with_topology():
    """Return a run on four nodes. One node has a slow card, and the rings and trees are open."""
    record = collective()
    record.document["proof"]["topology"] = four_nodes().model_dump(mode="json")
    return bench_views.page(record).replace("<details>", "<details open>")


PAGES = {
    "sweep": lambda: bench_views.page(collective()),
    "training": lambda: bench_views.page(slow_rank_training()),
    "failed": lambda: bench_views.page(failed()),
    "comparison": compared,
    "variants": with_variants,
    "judged": judged,
    "neighbours": among_neighbours,
    "topology": with_topology,
    "fleet": lambda: fleet(64),
    "locate": lambda: locate_documents.page(
        locate_documents.document(20, 2, sends={(2, 1): 0.3}, differences=(locate_documents.LINK,))
    ),
}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory, tier_unavailable):
    if browsers.program() is None:
        tier_unavailable("no chromium: tests/prerequisites.sh installs it")
    with browsers.Chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, make in PAGES.items():
        (folder / f"{name}.html").write_text(make())
    return folder


@pytest.mark.parametrize("width", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_width_and_fetches_nothing(chromium, pages, name, width):
    page = pages / f"{name}.html"
    chromium.open(page, width)
    assert chromium.size()[0] <= width
    assert chromium.requests() == [page.as_uri()]
    words = " ".join(words for words, _ in chromium.texts())
    assert len(words) > 500
    for _, (x, _y, across, high) in chromium.texts():
        assert x >= 0 and across > 0 and high >= 9
    if name in ("fleet", "locate"):
        return
    shown = [kind for kind in ("wide", "narrow") if chromium.colour(f".chart.{kind}", "display") != "none"]
    assert shown == (["wide"] if width == DESKTOP else ["narrow"])


@pytest.mark.parametrize("width", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_no_two_lines_of_text_lie_upon_each_other(chromium, pages, name, width):
    chromium.open(pages / f"{name}.html", width)
    boxes = sorted(chromium.texts(), key=lambda one: one[1][1])
    for index, (words, (x, y, across, high)) in enumerate(boxes):
        for other, (ox, oy, oacross, _) in boxes[index + 1 :]:
            if oy >= y + high - 3:
                break
            # A fraction of the line height of slack: boxes of lines touch where letters do not.
            assert ox >= x + across - 1 or x >= ox + oacross - 1, (words, other)


@pytest.mark.parametrize("name", ["sweep", "training", "comparison"])
def test_the_tables_are_there_without_scripts(chromium, pages, name):
    chromium.open(pages / f"{name}.html", DESKTOP)
    text = re.sub(r"<[^>]+>", " ", chromium.html())
    expected = {"sweep": "1073741824 4529.98 237.03 355.54", "training": "32 4 80563.0 2517.6 10.4 98.30%"}
    expected["comparison"] = "1073741824 1.390 ? measured once 4529.98 355.54 3258.54 329.52"
    assert expected[name] in re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_there_is_ink_on_the_page_in_the_light_and_in_the_dark(chromium, pages, scheme):
    chromium.open(pages / "training.html", DESKTOP, scheme=scheme)
    rows = browsers.pixels(chromium.screenshot(scale=0.2))
    ground = rows[0][0]
    assert (sum(ground) > 700) == (scheme == "light")
    ink = [
        pixel
        for row in rows
        for pixel in row
        if max(abs(a - b) for a, b in zip(pixel, ground, strict=True)) > 40
    ]
    share = len(ink) / (len(rows) * len(rows[0]))
    assert 0.02 < share < 0.5
    # The slow rank's cell stands out in the colour of its class.
    red, _, blue = map(int, re.findall(r"\d+", chromium.colour("td.below3", "background-color"))[:3])
    assert red - blue > 100


def test_paper_is_white_and_has_the_wide_charts_and_whole_tables(chromium, pages):
    chromium.open(pages / "sweep.html", DESKTOP, scheme="dark", media="print")
    assert chromium.colour("body", "background-color") == "rgb(255, 255, 255)"
    assert chromium.colour(".chart.wide", "display") != "none"
    assert chromium.pdf().startswith(b"%PDF-")
