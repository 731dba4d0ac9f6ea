"""What ``locate`` prints and draws of a simulated run: the name first, why, and every pair."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from locate_documents import CRC, LINK, document, page, run_of, text

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.locate import Located, LowWindow, Unlike
from clusterctl.documents.evidence import PairAlone
from clusterctl.documents.locate import EndsDiffer, LocateStatus, SuspectStatus
from clusterctl.results import locate as results
from clusterctl.trust.dead_pairs import judge
from clusterctl.trust.health import FleetHealth
from clusterctl.views import locate
from clusterctl.workloads.locate.fleet import RankFleet


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (document(6, 2, sends={(2, 1): 0.3}, rails=("eth0", "eth1"), differences=(LINK,),
                  health=FleetHealth({"n3": (CRC,), "n5": (CRC,)}, {})),
         [r"n3 rail 1 \(eth1\): slow: (29|30|31) % slower than pairs beside it, low in 8 of 8 rounds and in \d+ conf.*",
          r"    its other rails are fine: this rail's NIC, cable or switch port",
          r"    only when it sends \(\d+ % slower\), not when it receives: its transmitter, or the cable",
          r"    differs from its peers: PCIe link of mlx5_1 16 GT/s x8, others 32 GT/s x16",
          r"    during the run: mlx5_1 port 1: symbol_error grew by 1432 \(a bad cable\)",
          r"the other 5 nodes: .*",
          r"DOUBTFUL: the hardware reported faults during the run, on n5:", r"  n5 mlx5_1 port 1: .*"]),
        (document(6, cables={(0, 3): 0.3}),
         [r"link n1 - n4: slow: .*", r"    both nodes are fine with all other partners: the path between these two",
          r"the other 4 nodes: .*"]),
        (document(6, 2, shared={4: 0.3}),
         [*[r"n5 rail [01]: slow: .*",
            r"    (well while the node's other rails pause: what its rails|all of its rails are slow: the host) .*",
            r"    in both directions: .*"] * 2, r"the other 5 nodes: .*"]),
        (document(6, unlike=(Unlike(5, "A100", "H100", 1),)),
         [r"n6: A100 \(most: H100\): not compared alone"]),
        (document(6, low_windows=(LowWindow(2, "gemm", (0, 1, 2), 0.6), LowWindow(2, "memory", (3,), 0.8))),
         [r"window 2 of 3: n\[1-4\]: up to 40 % slower than in .* window of .* \(matrix .*, copies .*\); the best .*"]),
        (document(2), []),
    ],
)  # fmt: skip
def test_the_name_comes_first_and_below_it_what_the_tests_and_facts_show(found, lines):
    _, head, *said = text(found).splitlines()
    assert head.startswith("locate: ") and len(said) == len(lines), said
    assert all(re.fullmatch(line, one) for line, one in zip(lines, said, strict=True)), said
    drawn = page(found)
    assert all(one.strip()[:40].split("'")[0] in drawn for one in said if one.startswith("    "))


@pytest.mark.parametrize(
    ("found", "said", "word"),
    [
        (
            document(6, 2, bad={(2, 1): 0.3}),
            r"n3: its rail 1 is 30 % slower in all pairs: its other rails are fine: .*; to leave it out: --limit '!n3'",
            "bad (slow)",
        ),
        (
            document(6, 2, shared={4: 0.3}),
            r"n5: its rails 0 and 1 are \d+ % slower in all pairs: .*'!n5'",
            "bad (slow)",
        ),
        (
            document(6, cables={(0, 3): 0.3}),
            r"link n1 - n4 is 30 % slower: both nodes are fine with all other partners: the path between these two",
            "bad (slow)",
        ),
        (
            document(8, bad={(node, 0): 0.3 for node in range(4)}),
            r"inconclusive: n\[1-4\] are 30 % slower than n\[5-8\]; bench --limit 'n\[1-4\]' and bench .* as expected",
            "unsure (inconclusive)",
        ),
        (document(6), "no node, rail or link was named as slow: 6 nodes, .* in each direction", "good"),
        (document(2), "the link of the two nodes: .*: add a third node to name one", "measured"),
    ],
)  # fmt: skip
def test_the_sentence_says_what_to_look_at_or_what_would_decide_it(found, said, word):
    first = text(found).splitlines()[0]
    assert re.fullmatch(said, first), first
    drawn = page(found)
    assert first.replace("'", "&#39;") in drawn and word in drawn


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (document(6, health=FleetHealth({"n3": (CRC,), "n5": (CRC,)}, {})),
         "the hardware reported faults on n[3,5]"),
        (document(6).model_copy(update={"gpus_not_measured": ("n1", "n2")}),
         "the GPUs of n[1-2] were not measured"),
        (document(6).model_copy(update={"ends_differ": (
            EndsDiffer(nodes=("n1", "n2"), place=0, interface=None, gbps=(1.0, 9.0), at_fault=None),)}),
         "the two ends of 1 pair report different rates"),
    ],
)  # fmt: skip
def test_a_run_that_named_nothing_is_not_good_if_its_rates_are_in_doubt(found, said):
    view = locate.view(found)
    assert view.word == "unsure (doubtful)" and view.sentence.endswith(f"in each direction; {said}")


def test_the_limit_of_the_sentence_leaves_out_each_named_node():
    """``!alpha,beta7`` would select beta7."""
    found = document(6, bad={(2, 0): 0.3})
    slow = [found.suspects[0].model_copy(update={"nodes": (name,)}) for name in ("alpha", "beta7")]
    sentence = locate.view(found.model_copy(update={"suspects": tuple(slow)})).sentence
    assert sentence.endswith("; to leave them out: --limit '!alpha,!beta7'")


def test_tiles_have_names_instead_of_counts():
    drawn = page(document(6, 2, bad={(2, 1): 0.3}))
    assert re.findall(r'<dt>(.*?)</dt><dd><span class="value">(.*?)</span>', drawn)[:1] == [
        ("Slow", "n3 rail 1")
    ]
    assert "Pair rounds" not in drawn and '<span class="value">none</span>' in page(document(6))


def test_partners_of_a_slow_node_are_grey():
    drawn = page(document(6, bad={(2, 0): 0.3}))
    row = re.search(r'<tr><th scope="row">n1</th>(.*?)</tr>', drawn)[1]
    assert re.findall(r'class="(\w+)"', row) == ["none", "h0", "partner", "h0", "h0", "h0"]
    large = page(document(64, bad={(40, 0): 0.3}))
    assert re.search(r'class="partner" title="n\d+ with n41: [^"]*">-\d+ n41<', large)


def test_a_run_without_names_says_so_and_what_is_undecided():
    well = document(6)
    first = "no node, rail or link was named as slow: 6 nodes, 994 MB/s to 999 MB/s in each direction"
    assert text(well).splitlines()[0] == first
    slow = document(6, bad={(2, 0): 0.3})
    open_one = slow.suspects[0].model_copy(update={"status": SuspectStatus.OPEN})
    again = slow.model_copy(update={"status": LocateStatus.NONE, "suspects": (open_one,)})
    lines = text(again).splitlines()
    assert lines[0].startswith("no node, rail or link was named as slow: 6 nodes, ")
    assert lines[0].endswith("; undecided: n3: run locate again")
    assert lines[2].startswith("n3: undecided, may be slow: ")


def test_equal_rates_are_printed_once():
    found = document(2)
    rates = tuple(one.model_copy(update={"gbps": 0.579}) for one in found.rates)
    first = text(found.model_copy(update={"rates": rates})).splitlines()[0]
    assert first.startswith("the link of the two nodes: 579 MB/s in each direction; with two nodes")


def test_the_page_marks_the_slow_rail_in_every_cell_of_its_row():
    drawn = page(document(6, 2, bad={(2, 1): 0.3}), history=["n3: also named in 2 of 3 runs"])
    rail_1 = drawn.index("<h3>Rail 1</h3>")
    assert (
        rail_1
        < drawn.index("<summary>1 more rail, with nothing slow</summary>")
        < drawn.index("<h3>Rail 0</h3>")
    )
    row = re.search(r'<tr><th scope="row">n3</th>(.*?)</tr>', drawn[rail_1:]).group(1)
    assert re.findall(r'class="(\w+)"', row) == ["below3", "below3", "none", "below3", "below3", "below3"]
    assert 'title="n3 with n1: ' in row and "n3: also named in 2 of 3 runs" in drawn


def test_a_large_fleet_shows_the_partners_of_its_slowest_nodes():
    drawn = page(document(64, bad={(40, 0): 0.3}))
    rows = re.findall(r'<tr><th scope="row">(n\d+)</th>', drawn)
    assert rows[0] == "n41" and len(rows) == 48 and "16 more nodes are faster" in drawn


def test_a_run_that_hung_shows_the_pairs_that_fail_alone():
    apart = judge(
        [PairAlone(("n1", "n2"), "did not end within 40 s"), PairAlone(("n1", "n3")), PairAlone(("n2", "n4"))]
    )
    fault = Fault(FaultKind.DEADLINE, "n1 and n2 fail with each other", hint="check the switch")
    failed = replace(run_of(4), located=Located(RankFleet.of(["n1", "n2"])), faults=(fault,), apart=apart)
    found = results.document(failed, "r")
    assert found.apart.links == (("n1", "n2"),) and results.exit_code(failed) == 10
    before = "n1: also named in 2 of 3 runs"
    drawn = page(found, [before])
    assert "did not end within 40 s" in drawn and "n1 and n2 fail with each other" in drawn
    assert before in drawn and before in text(found, [before]).splitlines()


def test_hostile_names_are_text_on_the_page():
    drawn = page(document(6, bad={(2, 0): 0.3}, differences=(replace(LINK, value="<script>\u202e"),)))
    assert "<script>" not in drawn and "\u202e" not in drawn


def test_a_node_that_reports_other_rates_than_its_partners_is_named_and_other_pairs_are_open():
    def apart(low, high, fault, gbps=(0.025, 0.012)):
        return EndsDiffer(nodes=(low, high), place=0, interface=None, gbps=gbps, at_fault=fault)

    pairs = [
        apart("n1", "n5", "n5"),
        apart("n2", "n5", "n5"),
        *(apart("n3", f"m{i}", None) for i in range(6)),
    ]
    found = document(6).model_copy(update={"ends_differ": tuple(pairs), "status": LocateStatus.NAMED})
    lines = text(found).splitlines()
    said = "n5: reports other rates than n[1-2], which agree with each other: 12 MB/s, not 25 MB/s"
    assert said in lines and found.named_nodes == ("n5",)
    assert sum(": open: n3 reports 25 MB/s and " in line for line in lines) == 4
    assert "2 more pairs whose ends report different rates (--json lists them)" in lines
