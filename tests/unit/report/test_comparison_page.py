"""The page of a comparison: every run's configuration, with the differences in bold, and every run's heat map."""

from __future__ import annotations

import re

import bench_views
from result_documents import H200_NP2, collective, slow_rank_training


def page(*records):
    text = bench_views.compared_page(*records)
    return text, re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_versions_and_configuration_stand_side_by_side():
    text, words = page(collective(), collective(H200_NP2, run="20261121T091500Z-bench-aaaa"))
    assert '<td class="open">4</td><td class="open">2</td>' in text
    assert "library_version 2.28.3 2.28.3" in words
    assert "NCCL version 2.28.3+cuda13.0" in words
    assert 'class="heat"' not in text  # one node, and a program that measures all ranks together


def test_every_runs_nodes_are_shown():
    slow = slow_rank_training()
    later = slow_rank_training(run="20261121T091500Z-bench-aaaa")
    text, words = page(slow, later)
    assert text.count('class="heat"') == 2
    assert words.count("The slowest is rank 21 on gpu03") == 2
    assert words.count("Deviation by node: ") == 2


def test_a_collective_of_many_nodes_has_its_map():
    record = collective()
    ranks = [
        {"rank": r, "host": f"gpu0{r}", "gbps": 2.0 if r == 2 else 40.0, "gbps_with": {}} for r in range(4)
    ]
    record.document["proof"]["neighbours"] = {"size_bytes": 64 << 20, "ranks": ranks}
    text, words = page(record, collective(run="20261121T091500Z-bench-aaaa"))
    assert text.count('class="heat"') == 1
    assert "The slowest is rank 2 on gpu02 with 2.000 GB/s (-95.0 %)" in words
