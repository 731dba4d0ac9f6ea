"""The expected bandwidth on a page: its line in the chart, its words, and loud ones for what is not as it should be."""

import bench_views
import pytest
from result_documents import H200_NP2, collective

from clusterctl.results.record import result_of
from clusterctl.trust import expectation
from clusterctl.trust.expectation import Inputs
from clusterctl.trust.links import NodeLinks, NvLink
from clusterctl.views import bounds


def expected(record, *, links=18, ranks=4):
    """The record with the bound of this many NVLinks of 25 GB/s in its proof."""
    inputs = Inputs("all_reduce", ranks, 1, NodeLinks(ranks, NvLink(4, links, 25.0)))
    rows = [(row.size_bytes, row.busbw_gbps.median) for row in result_of(record.document).rows]
    record.document["variants"][0]["proof"]["expected"] = expectation.judge(inputs, rows).model_dump()
    return record


def test_the_expected_bandwidth_is_a_line_and_a_sentence():
    record = expected(collective())
    assert bounds.lines(record) == [("expected 367 GB/s (ring: 18 NVLinks x 25 GB/s x 0.8155)", 366.975)]
    assert bounds.sentence(record.result.evidence.expected).startswith(
        "As expected. 355.5 GB/s are 96.9 % of the expected bandwidth"
    )
    page = bench_views.page(record)
    assert page.count('class="reference"') == 5  # two drawings on each of two scales, and the legend
    assert '<section class="note">\n<p>As expected.' in page and "96.9" in page


@pytest.mark.parametrize(
    ("links", "words", "names"),
    [
        (36, "Much less than expected. 355.5 GB/s are 48.4 % of the expected bandwidth", ["expected"]),
        (24, "Less than expected. 355.5 GB/s are 72.7 % of the expected bandwidth", ["expected"]),
        (8, "Not possible. 355.5 GB/s are 218.0 % of the expected bandwidth; 355.5", ["expected", "limit"]),
    ],
)  # fmt: skip
def test_what_is_not_as_it_should_be_is_said_loudly(links, words, names):
    record = expected(collective(), links=links)
    assert bounds.sentence(record.result.evidence.expected).startswith(words)
    assert [name.split()[0] for name, _ in bounds.lines(record)] == names
    assert f'<section class="caution">\n<p>{words}' in bench_views.page(record)


def test_what_is_not_known_is_said_and_not_drawn():
    record = collective()
    inputs = Inputs("all_reduce", 4, 1, None)
    record.document["variants"][0]["proof"]["expected"] = expectation.judge(
        inputs, [(1 << 30, 1.0)]
    ).model_dump()
    assert bounds.lines(record) == []
    assert bounds.sentence(record.result.evidence.expected) == (
        "The expected bandwidth of this hardware is not known: the nodes' links are not known."
    )
    assert bounds.sentence(None) == ""


def test_small_messages_are_not_compared_and_the_bound_is_known():
    record = expected(collective())
    document = record.document["variants"][0]["proof"]["expected"] | {
        "verdict": "unknown",
        "reason": "measure larger messages",
    }
    record.document["variants"][0]["proof"]["expected"] = document
    assert bounds.sentence(record.result.evidence.expected).startswith(
        "This run was not compared with the expected bandwidth: "
    )
    assert bounds.lines(record)


def test_a_comparison_has_the_line_that_all_runs_share():
    same = [expected(collective()), expected(collective(run="20261121T091500Z-bench-aaaa"))]
    assert bounds.common_lines(same) == bounds.lines(same[0])
    assert 'class="reference"' in bench_views.compared_page(*same)
    other = expected(collective(H200_NP2, run="20261121T091500Z-bench-bbbb"), links=6, ranks=2)
    assert bounds.common_lines([same[0], other]) == []
