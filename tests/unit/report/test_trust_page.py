"""What speaks against a run's figures is on its page: a lost fast path, a baseline that does not hold, slow ranks."""

from dataclasses import replace

import bench_views
from bench_documents import spread, with_rows
from result_documents import collective, slow_rank_training, training

from clusterctl.documents.evidence import GpuDirectNode
from clusterctl.documents.proof import BaselineVerdict, Proof
from clusterctl.results import baseline
from clusterctl.results.record import result_of
from clusterctl.trust import gpudirect
from clusterctl.views import bench_page

FAST, SLOW = {"NET/IB/0/GDRDMA": 8}, {"NET/Socket/0": 4}


def with_proof(record, **more):
    proof = record.document["variants"][0]["proof"] if "gpudirect" in more else record.document["proof"]
    proof.update({name: part.model_dump(mode="json") for name, part in more.items()})
    return record


def test_a_node_that_lost_the_fast_path_comes_first_with_why():
    nodes = (
        GpuDirectNode("gpu01", "proven", FAST, FAST, ("dma-buf",)),
        GpuDirectNode("gpu02", "sockets", SLOW, SLOW, (), "no <libibverbs> here", "install rdma-core"),
    )
    page = bench_views.page(with_proof(collective(), gpudirect=gpudirect.of_nodes(nodes)))
    assert page.index('<th scope="row">gpu02</th>') < page.index('<th scope="row">gpu01</th>')
    assert '<td class="bad">sockets</td><td>NET/Socket/0 ×4</td>' in page
    assert "no &lt;libibverbs&gt; here. install rdma-core" in page
    assert "<td>proven</td><td>NET/IB/0/GDRDMA ×8</td>" in page


def nightly():
    """A baseline of three runs that are all alike."""
    known = baseline.Baseline("nightly")
    for number in range(3):
        known = baseline.record(known, collective(run=f"20261101T00000{number}Z-bench-000{number}").result)
    return known


def test_a_baseline_that_does_not_hold_says_in_what():
    known = nightly()
    now = collective()
    slow = [
        {**row, "busbw_gbps": spread(row["busbw_gbps"]["median"] / 2)}
        for row in now.document["variants"][0]["rows"]
    ]
    summary = now.summary.model_copy(update={"status": "below-baseline"})
    low = {**with_rows(now.document, slow), "status": "below-baseline"}
    now = replace(now, document=low, summary=summary)
    found = baseline.compare(known, result_of(now.document)).part()
    assert found.verdict == "below-baseline" and found.judged == len(found.below) > 3
    page = bench_views.page(with_proof(now, baseline=found))
    assert (
        f"is below the baseline nightly: {found.judged} figures judged, {len(found.below)} below it" in page
        and "50.0 %" in page
    )
    assert "busbw at 1 GiB, 4 ranks" in page
    assert "✕ bad (below baseline)" in page
    junit = bench_views.junit(now)
    assert "the run is below-baseline" in junit and "1 GiB, 4 ranks: 177.77 GB/s" in junit


def test_a_baseline_that_holds_is_one_sentence():
    found = baseline.compare(nightly(), collective().result).part()
    page = bench_views.page(with_proof(collective(), baseline=found))
    assert (
        f"The run meets the baseline nightly: {found.judged} figures judged, 0 below it" in page
        and "Figures below the baseline" not in page
    )


def test_ranks_that_straggle_are_named_above_the_heat_map():
    record = slow_rank_training()
    assert [one["rank"] for one in record.document["variants"][0]["proof"]["stragglers"]["32"]] == [21]
    page = bench_views.page(record)
    assert "Slower than random variation: rank 21 on gpu03 (15.8 % below the median)." in page
    assert "Slower than random variation" not in bench_views.page(training([[100.0] * 4]))


def test_names_keep_their_letters_in_the_baselines_sentence():
    found = BaselineVerdict(
        name="nightly", verdict="no-match", reason="hardware is NVIDIA H200, the nearest has NVIDIA A100",
        hint=None, judged=0, figures=0, too_noisy=(), below=(),
    )  # fmt: skip
    said = bench_page.baseline_sentence(Proof(baseline=found))
    assert said.endswith(". Hardware is NVIDIA H200, the nearest has NVIDIA A100.")
