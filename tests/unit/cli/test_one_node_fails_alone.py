"""What goes wrong with one node's facts ends that node's check, and no other's."""

from __future__ import annotations

import facts_recorded as recorded
import pytest

from clusterctl.cli.check import run as check_run
from clusterctl.facts import comparable, gather
from clusterctl.facts.base import Section, Sections
from clusterctl.facts.model.host import RootAccess
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Inventory, Node
from clusterctl.requirements.catalog import ALL
from clusterctl.transport.answers import map_understood
from clusterctl.transport.base import Failure, FailureKind, HostMap

NODES = ("n1", "n2", "n3")


def facts(name: str) -> NodeFacts:
    sections = Sections()
    for subject in ("memory", "cpu", "system"):
        sections.update(recorded.load(sorted((recorded.CASES / subject).glob("*.txt"))[0]))
    return gather.facts_from(name, sections, RootAccess(0, "root"), gathered_at=1.0, duration_s=1.0)


def judged() -> check_run.Judged:
    inventory = Inventory(nodes=tuple(Node(name=name, address=name) for name in NODES))
    return check_run.judge_fleet(HostMap({name: facts(name) for name in NODES}), inventory, None, (), {})


@pytest.mark.parametrize(
    "error", [OverflowError("too large"), RecursionError("too deep"), KeyError("x"), ValueError("y")]
)
@pytest.mark.parametrize("stage", ["comparable", "decide"])
def test_one_node_fails_alone(stage: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_comparable(found: NodeFacts) -> comparable.Comparable:
        if found.name == "n2":
            raise error
        return real(found)

    if stage == "comparable":
        real = comparable.comparable
        monkeypatch.setattr(comparable, "comparable", of_comparable)
    else:
        requirement = next(iter(ALL.values()))
        decide = requirement.decide

        def of_decide(found: NodeFacts, *others: object) -> object:
            if found.name == "n2":
                raise error
            return decide(found, *others)  # type: ignore[arg-type]

        monkeypatch.setattr(requirement, "decide", of_decide)
    found = judged()
    assert set(found.verdicts.failures) == {"n2"}
    assert found.verdicts.failures["n2"].kind is FailureKind.PROTOCOL
    assert all(len(found.verdicts.values_by_node[name]) == len(ALL) for name in ("n1", "n3"))
    assert found.document["summary"]["unreachable"] == 1


def test_a_failure_stays_what_it_was() -> None:
    gone = Failure(FailureKind.ERROR, "gone")
    found = map_understood(
        HostMap[int]({"a": gone, "b": 1}), "a number", lambda _name, value: 1 // (value - 1)
    )
    assert found["a"] is gone
    assert isinstance(found["b"], Failure) and "b: " in found["b"].message


def test_a_memory_beyond_all_floats_is_not_understood() -> None:
    sections = Sections({"memory": Section("memory", f"/proc/meminfo:MemTotal: {'9' * 309} kB\n")})
    found = gather.facts_from("n", sections, RootAccess(0, "root"), gathered_at=1.0, duration_s=1.0)
    assert found.memory.total_bytes.value is None
    assert comparable.comparable(found)
