"""Trainings through collective_core's Horovod API on two shaped nodes: what ran is proven, and its loss is shown."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys

import bridged_nodes
import pytest
from prometheus_client.parser import text_string_to_metric_families

RATE_MBIT = 400
SMALL = ("--model", "bert-tiny", "--batch-size", "1", "-n", "1", "--windows", "2", "--timeout", "150")


@pytest.fixture(scope="module")
def fleet(tier_unavailable):
    if reason := bridged_nodes.missing():
        tier_unavailable(reason)
    if shutil.which("mpirun") is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")
    with bridged_nodes.bridged_nodes((RATE_MBIT, RATE_MBIT)) as farm:
        yield farm


@pytest.fixture
def bench(run_clusterctl, fleet, tmp_path):
    def run(*arguments):
        more = {}
        if "CCORE_LIBRARY" in os.environ:  # the library under test, where it is not the installed one
            more["env"] = json.dumps({"CCORE_LIBRARY": os.environ["CCORE_LIBRARY"]})
        inventory = fleet.inventory(tmp_path, socket_ifname="eth0", slots=2, python=sys.executable, **more)
        return run_clusterctl("bench", "-i", str(inventory), *SMALL, *arguments, env=fleet.env)

    return run


def test_plain_2d_and_topk_are_three_proven_rows_with_their_losses(bench, tmp_path):
    table, metrics = tmp_path / "table.csv", tmp_path / "table.prom"
    done = bench(
        "--api", "horovod", "--compare", "plain,2d,topk", "--scaling", "4", "--repeats", "1",
        "--csv", str(table), "--prometheus", str(metrics), "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    plain, two_d, top_k = document["variants"]
    used = [
        {(one["operation"], one["algorithm"]) for one in variant["proof"]["usage"]["algorithms"]}
        for variant in (plain, two_d, top_k)
    ]
    assert ("all_reduce", "2d") not in used[0] and ("all_reduce", "2d") in used[1]
    assert not any(operation == "topk_all_reduce" for operation, _ in used[0] | used[1])
    assert any(operation == "topk_all_reduce" for operation, _ in used[2])
    for variant, name in (
        (plain, "LIGHT_2D_ALLREDUCE"),
        (two_d, "LIGHT_2D_ALLREDUCE"),
        (top_k, "LIGHT_TOPK_ALLREDUCE"),
    ):
        assert variant["proof"]["usage"]["proven"] == {name: "the ranks' reports"}
        (point,) = variant["points"]
        assert (point["np"], point["nodes"]) == (4, 2)
        assert point["ratio"] > 0 and point["loss"] > 0
    # All start from the same parameters and data; only top-k takes other steps.
    losses = [variant["points"][0]["loss"] for variant in (plain, two_d, top_k)]
    assert len({round(variant["points"][0]["loss_first"], 3) for variant in (plain, two_d, top_k)}) == 1
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)
    assert losses[2] != losses[0]
    assert [key["keys"]["4"]["hook"] for key in (plain, two_d, top_k)] == ["-", "-", "topk"]
    with table.open(newline="") as lines:
        assert [line["variant"] for line in csv.DictReader(lines)] == ["plain", "2d", "topk"]
    found = {
        sample.labels["variant"]
        for family in text_string_to_metric_families(metrics.read_text())
        for sample in family.samples
        if sample.name == "clusterctl_bench_loss"
    }
    assert found == {"plain", "2d", "topk"}
