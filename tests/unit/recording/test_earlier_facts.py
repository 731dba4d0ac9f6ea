"""Facts of former runs: the newest that there are, of the same node, and never at the price of a crash."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from recorded_answers import answer

from clusterctl.cli.check import run as check_run
from clusterctl.facts import earlier as earlier_module
from clusterctl.facts.document import to_document
from clusterctl.facts.earlier import EarlierFacts
from clusterctl.facts.gather import RawAnswer, understand
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory import load
from clusterctl.inventory.limit import limited
from clusterctl.inventory.model import Inventory
from clusterctl.requirements import judge
from clusterctl.requirements.fleet.view import Fleet
from clusterctl.transport.base import HostMap


def fleet(address: str = "10.0.0.[1-3]") -> Inventory:
    return load.from_text(f'version: 1\nnodes:\n  - name: n[1-3]\n    address: "{address}"\n')


def facts(name: str, at: float) -> NodeFacts:
    raw = RawAnswer("0" * 32, False, 0, answer("system/kvm-guest.txt", "0" * 32).encode(), b"", at, at + 1)
    return understand(name, [raw])


def wrote(runs: Path, run: str, nodes: dict[str, Any], inventory: Inventory | None = None) -> None:
    folder = runs / run
    folder.mkdir(parents=True)
    (folder / "facts.json").write_text(json.dumps({"schema": "clusterctl.fleet-facts/1", "nodes": nodes}))
    (folder / "inventory.json").write_text((inventory or fleet()).model_dump_json())


@contextmanager
def as_nobody() -> Iterator[None]:
    """Let this process look at files as a user who owns none of them."""
    us = os.geteuid()
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(us)


def test_a_run_of_somebody_elses_counts_as_not_there() -> None:
    # Outside of pytest's own directories, which no other user may enter.
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        wrote(runs, "20260101T000000Z-check-0001", {"n1": to_document(facts("n1", 100.0))})
        wrote(runs, "20260102T000000Z-check-0001", {"n1": to_document(facts("n1", 200.0))})
        runs.chmod(0o755)
        (runs / "20260102T000000Z-check-0001").chmod(0o700)
        assert EarlierFacts(runs, fleet().nodes, present="now")["n1"].gathered_at == 200.0
        with as_nobody():
            assert EarlierFacts(runs, fleet().nodes, present="now")["n1"].gathered_at == 100.0


def test_the_newest_run_that_saw_a_node_counts(tmp_path: Path) -> None:
    old, new = facts("n1", 100.0), facts("n1", 200.0)
    lost = {"error": {"kind": "refused", "message": "no"}}
    wrote(
        tmp_path,
        "20260101T000000Z-check-0001",
        {"n1": to_document(old), "n2": to_document(facts("n2", 100.0))},
    )
    wrote(tmp_path, "20260102T000000Z-bootstrap-0001", {"n1": to_document(new), "n2": lost})
    wrote(tmp_path, "20260103T000000Z-check-0001", {"n1": to_document(facts("n1", 300.0))})
    (tmp_path / "20260104T000000Z-check-0001").mkdir()
    found = EarlierFacts(tmp_path, fleet().nodes, present="20260103T000000Z-check-0001")
    assert found["n1"].gathered_at == 200.0
    assert found["n2"].gathered_at == 100.0
    assert found.get("n3") is None
    assert found.get("stranger") is None
    assert sorted(found) == ["n1", "n2"]
    assert set(found.used) == {"n1", "n2"}


def test_a_name_at_another_address_is_another_node(tmp_path: Path) -> None:
    wrote(
        tmp_path, "20260101T000000Z-check-0001", {"n1": to_document(facts("n1", 1.0))}, fleet("10.9.9.[1-3]")
    )
    assert EarlierFacts(tmp_path, fleet().nodes, present="").get("n1") is None


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"nodes": 3}', '{"nodes": {"n1": {"schema": "other"}}}', "[" * 9999]
)
def test_damaged_runs_count_as_not_there(tmp_path: Path, damage: str) -> None:
    wrote(tmp_path, "20260101T000000Z-check-0001", {"n1": to_document(facts("n1", 1.0))})
    wrote(tmp_path, "20260102T000000Z-check-0001", {})
    (tmp_path / "20260102T000000Z-check-0001/facts.json").write_text(damage)
    assert EarlierFacts(tmp_path, fleet().nodes, present="")["n1"].gathered_at == 1.0


def test_no_more_than_the_newest_runs_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrote(tmp_path, "20260101T000000Z-check-0001", {"n1": to_document(facts("n1", 1.0))})
    for number in range(20):
        wrote(tmp_path, f"20260201T0000{number:02}Z-check-0001", {})
    read: list[Path] = []
    really = earlier_module._read
    monkeypatch.setattr(earlier_module, "_read", lambda path: (read.append(path), really(path))[1])
    found = EarlierFacts(tmp_path, fleet().nodes, present="")
    assert read == []
    assert found.get("n1") is None
    assert len(read) == 2 * earlier_module.RUNS_LOOKED_AT


def test_a_run_that_asked_about_less_counts_as_not_there(tmp_path: Path) -> None:
    wrote(tmp_path, "20260101T000000Z-check-0001", {"n1": to_document(facts("n1", 1.0))})
    wrote(tmp_path, "20260102T000000Z-check-0001", {"n1": to_document(facts("n1", 2.0))})
    narrow = tmp_path / "20260102T000000Z-check-0001/facts.json"
    narrow.write_text(json.dumps({**json.loads(narrow.read_text()), "subjects": ["pci", "rdma"]}))

    def seen(subjects: frozenset[str] | None) -> float:
        return EarlierFacts(tmp_path, fleet().nodes, present="", subjects=subjects)["n1"].gathered_at

    assert seen(None) == 1.0
    assert seen(frozenset({"rdma", "network"})) == 1.0
    assert seen(frozenset({"rdma"})) == 2.0


def test_no_runs_folder_is_no_earlier_facts(tmp_path: Path) -> None:
    assert len(EarlierFacts(tmp_path / "nothing", fleet().nodes, present="")) == 0


def test_every_node_of_the_file_and_earlier_facts_reach_the_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Fleet] = []

    def judged(*_: object, fleet: Fleet) -> tuple[()]:
        seen.append(fleet)
        return ()

    monkeypatch.setattr(judge, "judge_node", judged)
    inventory = limited(fleet(), "n2")
    older = {"n1": facts("n1", 1.0)}
    check_run.judge_fleet(HostMap({"n2": facts("n2", 2.0)}), inventory, None, (), older)
    (together,) = seen
    assert [node.name for node in together.nodes] == ["n2", "n1", "n3"]
    assert list(together.facts) == ["n2"]
    assert together.earlier is older
