"""The folded table: readable for one node and for a thousand, and short whatever they say."""

from __future__ import annotations

from clusterctl.facts.drift import Deviation
from clusterctl.report.text.check import DRIFT_LINES, WARNING_LINES, drift_text, folded
from clusterctl.requirements.base import Decision, Status
from clusterctl.transport.base import Failure, FailureKind, HostMap

MET = Decision("memlock", Status.MET, "unlimited")
UNMET = Decision("memlock", Status.UNMET, "8192 KiB, not unlimited", {}, ("only in containers",))
GONE = Failure(FailureKind.REFUSED, "n3 refused the connection")


def test_one_node_is_one_plain_table() -> None:
    text = folded(HostMap({"n1": (MET, Decision("acs", Status.UNKNOWN, "needs root"))}))
    assert text.splitlines() == [
        "n1",
        "requirement  status   reason",
        "memlock      met      unlimited",
        "acs          unknown  needs root",
    ]


def test_nodes_that_read_alike_share_a_row_and_the_lost_one_is_apart() -> None:
    text = folded(HostMap({"n1": (MET,), "n2": (MET,), "n3": GONE, "n4": (UNMET,)}))
    assert text.splitlines() == [
        "n[1-2,4] (3 nodes)",
        "requirement  status  nodes       reason",
        "memlock      unmet   n4          8192 KiB, not unlimited",
        "             met     n[1-2] (2)  unlimited",
        "warning: memlock: only in containers [n4]",
        "",
        "unreachable: n3",
    ]


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
    assert all(len(line) <= 160 for line in lines)
    assert any("more different answers" in line for line in lines)
    assert any("more different warnings" in line for line in lines)


def test_a_terminal_wraps_reasons_below_their_column() -> None:
    long = Decision("memlock", Status.UNMET, "word " * 60)
    lines = folded(HostMap({"n1": (long,)}), 80).splitlines()
    assert len(lines) > 3
    assert all(len(line) <= 80 for line in lines)
    assert lines[3].startswith(" " * len("memlock      unmet   ") + "word")
    assert len(folded(HostMap({"n1": (long,)})).splitlines()) == 3


def test_nobody_answered() -> None:
    assert folded(HostMap({"n1": GONE, "n2": GONE})) == "unreachable: n[1-2]"


def test_drift_is_a_short_section_or_none() -> None:
    assert drift_text((), ["n1"]) == ""
    names = [f"gpu{i:02d}" for i in range(1, 33)]
    one = drift_text((Deviation("NCCL", "2.21", "2.27", ("gpu32",)),), names)
    assert one.splitlines()[1] == "  gpu[01-31] ok; gpu32: NCCL 2.21, others 2.27"
    many = [Deviation(f"fact {i}", "a", "b", (f"gpu{i:02d}",)) for i in range(1, 33)]
    lines = drift_text(many, names).splitlines()
    assert len(lines) == DRIFT_LINES + 2
    assert lines[-1] == "  ... and 12 more differences (--json has them all)"
