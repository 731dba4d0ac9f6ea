"""The pictures of the nodes' topologies on the page of a run, and the lines below its table."""

import re

import bench_views
from result_documents import collective
from topology_documents import four_nodes, one_node

from clusterctl.documents.proof import Proof, Topology
from clusterctl.report.text import trust


def page_of(topology):
    record = collective()
    record.document["proof"]["topology"] = topology.model_dump(mode="json")
    return bench_views.page(record)


def words(page):
    return re.findall(r"<text[^>]*>([^<]+)</text>", page)


def test_equal_nodes_have_one_picture_and_a_difference_is_named_and_marked():
    found = four_nodes()
    page = page_of(found)
    assert page.count("<figcaption>3 nodes: gpu[01-02,04]</figcaption>") == 1
    assert page.count("<figcaption>gpu03</figcaption>") == 1
    line = "gpu03 differs from gpu[01-02,04]: mlx5_5: 200 Gb/s (others: 400 Gb/s)"
    assert f"<li>{line}</li>" in page
    assert f"topology: {line}" in trust.lines(Proof(topology=found))
    # Wide and narrow, for each of both groups.
    assert page.count("<title>mlx5_5, 0000:ab:00.0, Gen5 x16, 200 Gb/s</title>") == 2
    assert page.count('class="part nic odd"') == 2
    assert words(page).count("NVSwitch") == 2 and words(page).count("18 NVLinks") == 16
    assert words(page).count("Gen5 x16, 18 NVLinks") == 16


def test_rings_and_trees_are_rows_of_gpus():
    page = page_of(four_nodes())
    assert (
        "<h3>Ring: 16 channels, 20 GB/s each inside the node (NVL), 20 GB/s each between nodes (PIX)</h3>"
        in page
    )
    assert '<p class="note">2 of 16 channels, in and out by mlx5_1</p>' in page
    assert 'aria-label="GPU 1, GPU 0, GPU 7, GPU 6, GPU 5, GPU 4, GPU 3, GPU 2"' in page
    assert "<h3>NVLS: 8 channels, 40 GB/s each inside the node (NVL), " in page


def test_nvlinks_between_pairs_are_drawn_as_lines():
    page = page_of(one_node("a100-pairs-topo"))
    assert "<title>GPU 0 to GPU 1: 12 NVLinks</title>" in page
    assert words(page).count("Gen4 x16, 12 NVLinks") == 2
    assert "Unequal nodes" not in page


def test_names_from_nodes_are_escaped_and_shortened():
    found = one_node("h200-vm-topo")
    (group,) = found.groups
    domain = group.domains[0]
    hostile = domain.below[2].model_copy(update={"name": "<script>alert(1)</script>" * 3})
    domain = domain.model_copy(update={"below": (*domain.below[:2], hostile)})
    page = page_of(Topology(groups=(group.model_copy(update={"domains": (domain,)}),), differences=()))
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/sc\u2026" in page
