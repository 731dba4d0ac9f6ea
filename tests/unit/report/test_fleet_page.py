"""The page of a check: every node, every verdict, nothing that runs or is fetched, and no way in for hostile names."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from sample_fleet import sample_fleet

from clusterctl.documents.check import Check
from clusterctl.report.check_document import document_of
from clusterctl.report.html import of_view
from clusterctl.report.view import NextStep
from clusterctl.requirements.base import Decision, Owner, Status
from clusterctl.transport.base import Failure, FailureKind, HostMap
from clusterctl.views import check

NEXT = [NextStep("clusterctl bootstrap fleet.yaml", "asks")]


def rendered(found: Check, following: Sequence[NextStep] = NEXT) -> str:
    return of_view.render(check.view(found, following=following, for_page=True))


def words(text: str) -> str:
    without_tags = re.sub(r"<(style|title)>.*?</\1>|<wbr>", "", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", without_tags))


def test_a_fleet_with_faults_has_all_of_them_on_its_page() -> None:
    document = sample_fleet(8).checked
    text = words(rendered(document))
    for part in (
        "Fleet check \u00b7 8 nodes",
        "3 nodes need a person: gpu[03-04] (gpu-driver), gpu06 (rdma-link); bootstrap can fix 8 requirements on all 7 ",
        "ready to launch: no (bootstrap fixes memlock, ssh-mesh, mpi, python; 1 node unreachable",
        "Need a person 3 nodes gpu[03-04,06] (3): gpu-driver, rdma-link",
        "Down 1 node gpu08",
        "refused gpu08",
        "root@10.0.0.8:22: connection refused",
        "hint: is sshd running, and on this port?",
        "gpu03 has driver 550.90.07, 6 of 7 nodes have 570.124.06",
        "Evidence of gpu03",
        "clusterctl bootstrap fleet.yaml # asks",
        "GPUs 7 x NVIDIA H100 80GB HBM3, others 8 x NVIDIA H100 80GB HBM3",
    ):
        assert part in text, part
    assert "Next: " not in text
    headings = [text.index(word) for word in ("Left to a person", "Fixed by bootstrap", "Unreachable nodes")]
    assert headings == sorted(headings)


@pytest.mark.parametrize("count", [1, 8, 256])
def test_the_matrix_has_a_cell_for_every_verdict(count: int) -> None:
    document = sample_fleet(count).checked
    text = rendered(document)
    cells = re.findall(r'<td class="([a-z-]+)" title="([a-z-]+): ', text)
    tones = {"unmet": "bad", "unknown": "open", "met": "good", "not-applicable": "faint"}
    verdicts = [
        ("fixable" if verdict.owner is Owner.BOOTSTRAP else tones[verdict.status.value], verdict.requirement)
        for node in document.nodes
        for verdict in node.verdicts
    ]
    if count == 1:
        assert cells == verdicts
    else:
        assert cells[-len(verdicts) :] == verdicts  # below the folded matrix
        folded = len(cells) - len(verdicts)
        assert 0 < folded < len(verdicts)
    assert len(text) < 600_000


def test_a_healthy_fleet_says_so_and_has_no_empty_section() -> None:
    document = sample_fleet(4, healthy=True).checked
    open_ends = document.summary.unmet
    text = rendered(document)
    assert ('class="verdict fixable"' in text) and open_ends  # network buffers stay as the kernel has them
    fine = document_of(HostMap({"n1": (Decision("memlock", Status.MET, "memlock is unlimited"),)}))
    text = words(rendered(fine, ()))
    assert "\u2713 good" in text
    for heading in ("Left to a person", "Fixed by", "Unreachable", "difference", "Warnings", "Next"):
        assert heading not in text


def test_all_nodes_are_unreachable() -> None:
    lost = HostMap({name: Failure(FailureKind.AUTH, f"{name}: refused") for name in ("n1", "n2")})
    text = words(rendered(document_of(lost)))
    assert "auth n[1-2] (2)" in text and "Nodes by requirements" not in text


def test_names_and_reasons_cannot_inject_anything() -> None:
    hostile = "<script>alert(1)</script>\"'\u202e"
    decision = Decision("memlock", Status.UNMET, hostile, {hostile: [hostile]}, (hostile,))
    lost = Failure(FailureKind.ERROR, hostile, hostile)
    document = document_of(HostMap({f"n{hostile}": (decision,), "n2": lost, "n3": (decision,)}))
    text = rendered(document)
    assert "<script" not in text and "\u202e" not in text
    assert not re.search(r'title="[^"]*"\'', text)
    assert "default-src 'none'" in text and "http" not in re.sub(r"http-equiv", "", text)
