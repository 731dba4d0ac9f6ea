"""The folded table: readable for one node and for a thousand, and short whatever they say."""

from __future__ import annotations

import pytest

from clusterctl.documents.check import Deviation
from clusterctl.report.check_document import document_of
from clusterctl.report.text import of_view
from clusterctl.report.view import View
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.steps import EnableUnit
from clusterctl.transport.base import Failure, FailureKind, HostMap
from clusterctl.views import check
from clusterctl.views.check import DRIFT_LINES, WARNING_LINES

MET = Decision("memlock", Status.MET, "unlimited")
UNMET = Decision("memlock", Status.UNMET, "8192 KiB, not unlimited", {}, ("only in containers",))
FIXABLE = Decision("docker", Status.UNMET, "stopped", steps=(EnableUnit("Enable it", "docker.service"),))
UNREAD = Decision("acs", Status.UNKNOWN, "needs root")
GONE = Failure(FailureKind.REFUSED, "n3 refused the connection")


def folded(
    verdicts: HostMap[tuple[Decision, ...]],
    width: int | None = None,
    *,
    every: bool = False,
    reasons: bool = True,
) -> str:
    blocks = check.blocks_of(document_of(verdicts), every=every, reasons=reasons)
    return of_view.render(View("", tuple(blocks)), width)


def deviation(fact: str, value: str, others: str, nodes: tuple[str, ...]) -> Deviation:
    return Deviation(fact=fact, value=value, others=others, nodes=nodes, tie=False)


def not_planned(verdicts: HostMap[tuple[Decision, ...]]) -> str:
    return of_view.render(View("", (check.not_planned(verdicts),)))


def summary_line(verdicts: HostMap[tuple[Decision, ...]]) -> str:
    return of_view.render(check.view(document_of(verdicts))).splitlines()[0]


def drift_text(deviations: tuple[Deviation, ...]) -> list[str]:
    lines = of_view.render(check.view(document_of(HostMap({"n1": (MET,)}), deviations))).splitlines()
    return lines[lines.index("good: memlock") + 2 : -2]


def test_one_node_is_one_plain_table_with_the_unmet_first() -> None:
    decisions = (
        MET,
        Decision("acs", Status.UNKNOWN, "needs root"),
        Decision("docker", Status.UNMET, "absent"),
    )
    text = folded(HostMap({"n1": decisions}))
    assert text.splitlines() == [
        "n1",
        "status  fix  requirement  reason",
        "bad     you  docker       absent",
        "unsure       acs          needs root",
        "good: memlock",
    ]


def test_nodes_that_read_alike_share_a_row_and_the_lost_one_is_apart() -> None:
    fleet = HostMap({"n1": (MET,), "n2": (MET,), "n3": GONE, "n4": (UNMET,)})
    assert folded(fleet).splitlines() == [
        "n[1-2,4] (3 nodes)",
        "status  fix  requirement  nodes  reason",
        "bad     you  memlock      n4     8192 KiB, not unlimited",
        "good: memlock (2 of 3 nodes)",
        "warning  n4: memlock: only in containers",
        "",
        "unreachable: n3",
        "n3: refused: n3 refused the connection",
    ]
    assert folded(fleet, every=True).splitlines()[1:5] == [
        "status  fix  requirement  nodes       reason",
        "bad     you  memlock      n4          8192 KiB, not unlimited",
        "good         memlock      n[1-2] (2)  unlimited",
        "warning  n4: memlock: only in containers",
    ]
    assert folded(fleet, reasons=False).endswith("\n\nunreachable: n3")


def test_a_requirement_is_named_once_above_its_answers() -> None:
    other = Decision("memlock", Status.UNMET, "sshd does not use PAM")
    lines = folded(HostMap({"n1": (UNMET,), "n2": (other,)})).splitlines()
    assert lines[2:4] == [
        "bad     you  memlock      n1     8192 KiB, not unlimited",
        "bad     you               n2     sshd does not use PAM",
    ]


def test_a_healthy_fleet_needs_two_lines() -> None:
    skipped = Decision("acs", Status.NOT_APPLICABLE, "the node has no GPU")
    lines = folded(HostMap({"n1": (MET, skipped), "n2": (MET, skipped)})).splitlines()
    assert lines == ["n[1-2] (2 nodes)", "good: memlock", "not measured (not applicable): acs"]


def test_the_reason_of_an_unreachable_node_cannot_imitate_another_line() -> None:
    lost = Failure(FailureKind.ERROR, "no\nunreachable: n9", "look\nthere")
    assert folded(HostMap({"n1": lost})).splitlines() == [
        "unreachable: n1",
        "n1: error: no",
        "    unreachable: n9",
        "    hint: look",
        "    there",
    ]


def test_the_reason_of_an_unreachable_node_breaks_between_words() -> None:
    command = "`clusterctl check inventory.yaml --accept-new-host-keys`"
    lost = Failure(FailureKind.ERROR, "its host key is not in ~/.ssh/known_hosts", f"run {command} again")
    verdicts: HostMap[tuple[Decision, ...]] = HostMap({"n1": lost})
    assert folded(verdicts, 44).splitlines() == [
        "unreachable: n1",
        "n1: error: its host key is not in",
        "    ~/.ssh/known_hosts",
        "    hint: run",
        f"        {command}",
        "        again",
    ]
    assert folded(verdicts).splitlines()[2] == f"    hint: run {command} again"


def test_the_summary_counts_nodes_and_names_who_acts() -> None:
    fleet = HostMap({"n1": (MET,), "n2": (MET, UNMET), "n3": GONE, "n4": (UNMET, FIXABLE), "n5": (UNREAD,)})
    assert summary_line(fleet) == (
        "Checked 4 of 5 nodes; n3 is down; 2 nodes need a person: n[2,4] (memlock); "
        "bootstrap can fix docker on n4; acs is unknown on n5"
    )
    assert summary_line(HostMap({"n1": (MET,), "n2": (MET,)})) == (
        "Checked 2 nodes: all 2 nodes meet every requirement"
    )
    assert summary_line(HostMap({"n1": (MET, FIXABLE)})) == ("Checked 1 node: bootstrap can fix docker")
    assert summary_line(HostMap({"n1": (MET,), "n3": GONE})) == (
        "Checked 1 of 2 nodes; n3 is down; 1 node meets every requirement"
    )
    other = [Decision(name, Status.NOT_APPLICABLE, "this is a container") for name in ("acs", "peermem")]
    assert summary_line(HostMap({"n1": (MET, *other)})) == (
        "Checked 1 node: 1 node meets every requirement that applies (1 of 3)"
    )
    assert summary_line(HostMap({"n1": GONE})) == "Checked 0 of 1 node; n1 is down; nothing could be checked"


def test_a_person_comes_before_bootstrap_and_hardware_before_other_faults() -> None:
    health = Decision("gpu-health", Status.UNMET, "GPU 1: Xid 79")
    later = Decision("container-toolkit", Status.UNMET, "waits for docker", follows="docker")
    fleet = HostMap({"n1": (FIXABLE, later, UNMET, UNREAD, health)})
    lines = folded(fleet).splitlines()
    assert [line.split()[:3] for line in lines[2:7]] == [
        ["bad", "you", "gpu-health"],
        ["bad", "you", "memlock"],
        ["bad", "bootstrap", "docker"],
        ["bad", "bootstrap", "container-toolkit"],
        ["unsure", "acs", "needs"],
    ]


def test_beside_a_plan_stands_only_what_it_does_not_change() -> None:
    stuck = Decision("time-sync", Status.UNMET, "no service", no_step="the node does not run systemd")
    text = not_planned(HostMap({"n1": (MET, FIXABLE, stuck), "n2": (MET, FIXABLE), "n3": GONE}))
    assert text.splitlines() == [
        "Not in this plan:",
        "status  fix  requirement  nodes  reason",
        "bad     you  time-sync    n1     no service; no step: the node does not run systemd",
    ]
    assert not_planned(HostMap({"n1": (MET, FIXABLE)})) == ""


def test_reasons_that_differ_in_figures_and_names_are_one_row() -> None:
    verdicts = {
        f"gpu{i:04d}": (
            Decision("rdma-link", Status.UNMET, f"mlx5_{i % 8} port 1 is at {i} Gb/s, wanted 400"),
        )
        for i in range(1000)
    }
    lines = folded(HostMap(verdicts)).splitlines()
    assert len(lines) == 3
    assert lines[0] == "gpu[0000-0999] (1000 nodes)"
    assert lines[2].endswith("mlx5_0 port 1 is at 0 Gb/s, wanted 400 [others differ in names or numbers]")


def test_a_thousand_nodes_with_a_thousand_reasons_stay_on_a_page() -> None:
    words = ["".join(chr(97 + (i // 26**k) % 26) for k in range(3)) for i in range(1000)]
    verdicts = HostMap(
        {
            f"gpu{i:04d}": tuple(
                Decision(
                    f"r{r}", Status.UNMET if i % 3 else Status.MET, f"because {word}", {}, (f"see {word}",)
                )
                for r in range(17)
            )
            for i, word in enumerate(words)
        }
    )
    lines = folded(verdicts, 120).splitlines()
    assert len(lines) < 17 * 9 + WARNING_LINES + 5
    assert all(len(line) <= 120 for line in lines[1:])
    assert any("more different answers" in line for line in lines)
    assert lines[-1] == "... and 16980 more (--json has them all)"


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_terminal_wraps_reasons_below_their_column(width: int) -> None:
    long = Decision("memlock", Status.UNMET, "word " * 60, {}, ("warn " * 60,))
    lines = folded(HostMap({"n1": (long,)}), width).splitlines()
    assert len(lines) > 3
    assert all(len(line) <= width for line in lines)
    assert lines[3].startswith(" " * len("bad     you  memlock      ") + "word")
    assert len(folded(HostMap({"n1": (long,)})).splitlines()) == 4


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_long_list_of_nodes_does_not_take_the_place_of_reasons(width: int) -> None:
    odd = {f"gpu{i:03d}": (UNMET if i % 2 else MET,) for i in range(256)}
    other = {f"gpu{i:03d}": (Decision("container-toolkit", Status.UNKNOWN, "needs root"),) for i in (7, 9)}
    lines = folded(HostMap({**odd, **other}), width).splitlines()
    table = lines[lines.index(next(line for line in lines if line.startswith("status"))) :]
    assert all(len(line) <= max(width, 80) for line in table)
    assert any("8192 KiB, not unlimited" in line for line in table)
    assert sum(line.startswith(("bad", "unsure")) for line in table) == 2


def test_nobody_answered() -> None:
    assert folded(HostMap({"n1": GONE, "n2": GONE})).splitlines()[0] == "unreachable: n[1-2] (2)"


def test_drift_is_a_short_section_or_none() -> None:
    assert drift_text(()) == []
    lines = drift_text((deviation("NCCL", "2.21", "2.27", ("gpu32",)),))
    assert lines[1:] == ["nodes  fact  difference", "gpu32  NCCL  2.21, others 2.27"]
    many = tuple(deviation(f"fact {i}", "a", "b", (f"gpu{i:02d}",)) for i in range(1, 33))
    lines = drift_text(many)
    assert len(lines) == DRIFT_LINES + 3
    assert lines[-1] == "... and 12 more (--json has them all)"
