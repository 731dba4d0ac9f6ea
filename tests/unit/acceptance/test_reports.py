"""The screen, the page, JUnit and Prometheus show what failed, with its threshold and source."""

from __future__ import annotations

import random
from xml.etree import ElementTree

import pytest
from hostile_texts import NUMBERS, VARIANTS, texts
from sample_acceptance import sample_acceptance
from soak import spread

from clusterctl.acceptance.catalog import ROWS
from clusterctl.acceptance.document import document, exit_code, strictly
from clusterctl.acceptance.judge import judge
from clusterctl.acceptance.limits import limits
from clusterctl.acceptance.model import Parsed, RowFinding, RowMeasurement, RowOutcome, RowStatus, Tier
from clusterctl.documents.accept import AcceptRequest, AcceptRowTitle, AcceptStatus
from clusterctl.report import junit, prometheus
from clusterctl.report.figures import Dot, Strip
from clusterctl.report.html import of_view as html
from clusterctl.report.html import strip
from clusterctl.report.text import of_view
from clusterctl.report.view import CaseEnd
from clusterctl.text.visible import visible
from clusterctl.views import accept

FOUND = sample_acceptance()
REQUEST = AcceptRequest(
    tier=Tier.PERFORMANCE, rows=("disk",), site_thresholds=None, repeat_for_s=0, repeat_until=None
)


def on_screen(found):
    return of_view.render(accept.view(found))


def test_the_screen_names_every_fault_before_the_counts():
    text = on_screen(FOUND)
    assert text.index("gpu08: timeout") < text.index("bad      gpu05: kernel-log: GPU 6: Xid 79")
    assert "bad      gpu03: gpu-gemm: GPU 2: bf16_tflops" in text
    assert "unsure   gpu02: disk: read_mb_per_s" in text
    assert "not measured  gpu04: disk: fio not found: install the package fio" in text
    assert "accepted: 4 of 8 nodes: gpu[01-02,06-07]" in text
    assert "--skip disk" in text
    assert exit_code(FOUND) == 1


def test_strict_names_the_warnings_that_make_the_exit_code_1():
    nodes = tuple(one for one in FOUND.nodes if one.name == "gpu02")
    found = FOUND.model_copy(update={"nodes": nodes, "accepted": ("gpu02",), "status": AcceptStatus.ACCEPTED})
    strict = strictly(found)
    assert (exit_code(found), exit_code(strict)) == (0, 1)
    assert "exit code 1 by --strict: disk on gpu02" in on_screen(strict)
    assert "--strict" not in on_screen(found) and "strict" not in found.document()
    (failed,) = strict.document()["strict"]
    assert (failed["name"], failed["nodes"]) == ("disk", ["gpu02"]) and "read_mb_per_s" in failed["reason"]
    cases = [case for one in (found, strict) for suite in accept.view(one).suites() for case in suite.cases]
    assert [case.end for case in cases if case.name == "disk"] == [CaseEnd.PASSED, CaseEnd.FAILURE]


def test_a_node_that_no_row_measured_is_not_accepted():
    outcomes = [RowOutcome("gpu01", "disk", not_applicable="no local disk")]
    rows = [row for row in ROWS if row.name == "disk"]
    found = document(FOUND.run, REQUEST, rows, ["gpu01"], judge(outcomes, limits()), {}, 1.0)
    assert (found.accepted, exit_code(found)) == ((), 1)
    assert "0 of 1 node accepted; gpu01: nothing measured: no row applies" in on_screen(found)


def test_the_sentence_says_what_was_found_where_no_value_is_far_from_the_others(tmp_path):
    site = tmp_path / "thresholds.yaml"
    site.write_text("rules:\n  - when: disk.read_mb_per_s < 500\n    verdict: fail\n")
    outcomes = [
        RowOutcome(name, row, failed=failed, not_run=not_run, parsed=Parsed(values))
        for name, row, failed, not_run, values in (
            ("n1", "gpu-heat", "exit status 1", "", ()),
            ("n2", "disk", "", "", (RowMeasurement("read_mb_per_s", 40.0, "MB/s", True),)),
            ("n3", "disk", "", "fio not found: install the package fio", ()),
            ("n3", "cpu-memory", "", "fio not found: install the package fio", ()),
            ("n4", "kernel-log", "", "the kernel log was not read: " + "no permission " * 20, ()),
        )
    ]
    names = [f"n{number}" for number in range(1, 5)]
    rows = [row for row in ROWS if row.name in {one.row for one in outcomes}]
    found = document(FOUND.run, REQUEST, rows, names, judge(outcomes, limits(site)), {}, 1.0)
    assert accept.view(found).sentence.split("; ") == [
        "0 of 4 nodes accepted",
        "n1: exit status 1 (gpu-heat)",
        "n2: read_mb_per_s 40 MB/s, not >= 500 (disk)",
        "n3: cpu-memory, disk not measured: fio not found: install the package fio",
        "n4: kernel-log not measured: the kernel log was not read: " + "no permission " * 4 + "...",
    ]


def test_warnings_name_what_was_found_and_the_command_that_measures_it_again():
    texts = ("slow", "full", "old", "hot", "noisy", "late", "short")
    names = [f"n{number}" for number in range(1, 8)]
    outcomes = [
        RowOutcome(name, row, parsed=Parsed(findings=(RowFinding(RowStatus.WARN, text),)))
        for name, row, text in [
            ("n1", "kernel-log", "an odd line"),
            *((name, "disk", text) for name, text in zip(names, texts, strict=True)),
        ]
    ]
    rows = [row for row in ROWS if row.name in ("disk", "kernel-log")]
    found = document(FOUND.run, REQUEST, rows, names, judge(outcomes, limits()), {}, 1.0)
    assert exit_code(found) == 0
    assert accept.view(found).sentence.split("; ")[1:] == [
        "warning on n1: an odd line (kernel-log), slow (disk)",
        "warning on n2: full (disk)",
        "warning on n3: old (disk)",
        "warning on n4: hot (disk)",
        "other warnings on n[5-7] (3)",
    ]
    again = "clusterctl accept INVENTORY --only kernel-log,disk"
    assert f"on n[1-7] again, beside nodes to compare with: {again}" in on_screen(found)


def test_the_sentence_names_nodes_with_the_same_finding_once():
    log = [
        RowOutcome(f"n{number}", "kernel-log", parsed=Parsed(findings=(RowFinding(RowStatus.FAIL, text),)))
        for number, text in enumerate(("GPU 6: Xid 79", "GPU 6: Xid 79", "GPU 1: Xid 79", "eth0: down"), 1)
    ]
    rows = [row for row in ROWS if row.name == "kernel-log"]
    names = [one.node for one in log]
    found = document(FOUND.run, REQUEST, rows, names, judge(log, limits()), {}, 1.0)
    assert accept.view(found).sentence.split("; ")[1:] == [
        "n[1-3]: GPU 6: Xid 79 (kernel-log) [others differ in names or numbers]",
        "n4: eth0: down (kernel-log)",
    ]


def test_the_table_shows_the_value_that_a_threshold_judges():
    def with_others(node):
        (gemm,) = (one for one in node.rows if one.row == "gpu-gemm")
        other = gemm.values[0].model_copy(update={"field": "fp32_tflops", "value": 51.55, "limit": None})
        other = other.model_copy(update={"source": None, "status": RowStatus.MEASURED})
        rows = (gemm.model_copy(update={"values": (other, *gemm.values)}),)
        return node.model_copy(update={"rows": rows})

    nodes = tuple(with_others(one) for one in FOUND.nodes if one.name in ("gpu01", "gpu02"))
    text = on_screen(FOUND.model_copy(update={"nodes": nodes}))
    assert "bf16_tflops" in text and "and 1 more" in text
    assert "fp32_tflops" not in text


FORGED = "bad      gpu[01-05] (5): gpu-health: GPU 3: Xid 79"
REASONS = list(texts(FORGED))


@pytest.mark.parametrize("reason", REASONS, ids=range(len(REASONS)))
def test_a_reason_with_line_breaks_imitates_no_other_line(reason):
    """As a terminal shows it: what begins a line there is a line feed, or was made visible."""

    def forging(row):
        values = tuple(one.model_copy(update={"device": reason}) for one in row.values)
        return row.model_copy(update={"reason": reason, "values": values})

    nodes = tuple(
        one.model_copy(update={"rows": tuple(map(forging, one.rows))}) if one.name == "gpu03" else one
        for one in FOUND.nodes
    )
    text = visible(on_screen(FOUND.model_copy(update={"nodes": nodes})))
    assert not any(line.startswith(("bad      gpu[01-05]", "gpu[01-05]")) for line in text.splitlines())
    assert FORGED in text and "bad      gpu03: " in text


def test_a_row_that_another_one_replaces_need_not_be_left_out():
    """A node without DCGM is accepted without it, so that --skip names what keeps the node from being accepted."""
    extra = AcceptRowTitle(row="dcgm-diag", title="DCGM", tier=Tier.VALIDATION, also_measured_by="gpu-gemm")

    def with_extra(node):
        rows = (
            row.model_copy(update={"row": "dcgm-diag", "status": RowStatus.NOT_RUN, "values": ()})
            for row in node.rows
            if row.row == "gpu-gemm"
        )
        return node.model_copy(update={"rows": (*node.rows, *rows)})

    nodes = tuple(with_extra(node) for node in FOUND.nodes)
    found = FOUND.model_copy(update={"rows": (*FOUND.rows, extra), "nodes": nodes})
    assert "--skip disk\n" in on_screen(found) + "\n"
    unmeasured = FOUND.model_copy(
        update={"rows": (*FOUND.rows, extra.model_copy(update={"also_measured_by": "hpl"})), "nodes": nodes}
    )
    assert "--skip dcgm-diag,disk\n" in on_screen(unmeasured) + "\n"


def test_every_threshold_on_the_screen_has_its_source():
    lines = on_screen(FOUND).splitlines()
    faults = [i for i, line in enumerate(lines) if " not >= " in line]
    assert faults and all("threshold: " in lines[i + 1] for i in faults)


def test_junit_counts_failures_errors_and_warnings():
    root = ElementTree.fromstring(junit.render("clusterctl accept", accept.view(FOUND).suites()))
    assert (root.get("failures"), root.get("errors")) == ("2", "2")
    disk = root.find("testsuite[@name='gpu02']/testcase[@name='disk']/system-out")
    assert disk is not None and disk.text is not None and disk.text.startswith("warning: read_mb_per_s")


def test_junit_has_the_seconds_of_each_row_and_their_sums():
    node = next(one for one in FOUND.nodes if one.name == "gpu01")
    timed = node.model_copy(
        update={"rows": tuple(row.model_copy(update={"seconds": 1.5}) for row in node.rows)}
    )
    found = FOUND.model_copy(update={"nodes": (timed,)})
    root = ElementTree.fromstring(junit.render("clusterctl accept", accept.view(found).suites()))
    assert {case.get("time") for case in root.iter("testcase")} == {"1.500"}
    assert root.get("time") == root[0].get("time") == f"{1.5 * len(node.rows):.3f}"


def test_prometheus_has_a_sample_for_each_value():
    lines = prometheus.render(accept.view(FOUND).metrics()).splitlines()
    assert 'clusterctl_accept_node{node="gpu03"} 0' in lines
    assert 'clusterctl_accept_row{node="gpu03",row="gpu-gemm",status="fail"} 1' in lines
    assert sum(line.startswith("clusterctl_accept_value{") for line in lines) == 7 * 8 + 6


def test_the_page_draws_the_outlier():
    page = html.render(accept.view(FOUND))
    assert "gpu03 GPU 2" in page and "mark-label" in page and "<script" not in page


def test_a_strip_of_equal_values_has_one_number_and_a_limit_of_zero_is_drawn_inside():
    def drawn(*dots):
        return strip.draw(Strip("", "", dots, 0.0, ""))

    equal = drawn(Dot("a", 0.0, bad=False), Dot("b", 0.0, bad=False))
    assert equal.count(">0</text>") == 1
    far = drawn(Dot("a", 3.0, bad=True))
    assert ">0</text>" in far and ">3</text>" in far and "M24.0," in far


FLOATS = [float(one) for one in NUMBERS if abs(one) < 10**300 or isinstance(one, float)]
LIMITS = (
    ">= inf",
    "<= 1e-400",
    ">= nan",
    "<= -inf",
    ">= ",
    "",
    None,
    "any",
    "x",
    ">= 1" + "0" * 400,
    ">= 700",
)


@pytest.mark.soak
@pytest.mark.parametrize("seed", spread(range(VARIANTS), 20))
def test_every_report_is_made_of_values_and_limits_without_bounds(seed):
    """Of a run of an earlier version, whose values had none: of all rows of one node, or of some."""
    chance = random.Random(seed)
    share = chance.choice((1, 0.5, 0.02))

    def huge(row):
        values = (
            one.model_copy(update={"value": chance.choice(FLOATS), "limit": chance.choice(LIMITS)})
            if chance.random() < share
            else one
            for one in row.values
        )
        return row.model_copy(update={"values": tuple(values)})

    nodes = tuple(node.model_copy(update={"rows": tuple(map(huge, node.rows))}) for node in FOUND.nodes)
    found = FOUND.model_copy(update={"nodes": nodes})
    page = html.render(accept.view(found))
    assert "<svg" in page and all(node.name in page for node in nodes)
    assert "bad      gpu05: kernel-log: GPU 6: Xid 79" in on_screen(found)
    root = ElementTree.fromstring(junit.render("clusterctl accept", accept.view(found).suites()))
    assert len(root.findall("testsuite")) == len(nodes)
    lines = prometheus.render(accept.view(found).metrics()).splitlines()
    assert 'clusterctl_accept_node{node="gpu03"} 0' in lines
