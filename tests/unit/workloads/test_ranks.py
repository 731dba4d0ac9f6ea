"""What a rank reports of the way of its CUDA tensors."""

import pytest

pytest.importorskip("torch")
from clusterctl.workloads.ranks import path_in_words


@pytest.mark.parametrize(
    ("between", "words"),
    [
        ({}, "staged: two nodes"),  # an older collective_core
        ({"between_nodes": "one node"}, "staged: two nodes"),
        (
            {"between_nodes": "on the GPUs, inside nodes by kernel"},
            "staged: two nodes; between nodes on the GPUs, inside nodes by kernel",
        ),
    ],
)
def test_the_path_names_the_stages_of_several_nodes(between, words):
    assert path_in_words({"cuda_path": "staged", "cuda": "two nodes", **between}) == words
