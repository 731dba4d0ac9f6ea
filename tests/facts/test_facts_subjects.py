"""Asking about some subjects only: the probe runs nothing else, and the requirements that need no more say the same."""

from __future__ import annotations

import subprocess

import pytest

from clusterctl.facts import probe
from clusterctl.facts.base import ReadStatus
from clusterctl.facts.catalog import FRAGMENTS, SUBJECTS, complete, fragments, not_asked
from clusterctl.facts.gather import facts_from
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Node
from clusterctl.requirements.catalog import ALL
from clusterctl.requirements.judge import judge_node, subjects_read

NONCE = "c" * 32


def asked(subjects: frozenset[str] | None) -> tuple[NodeFacts, str]:
    """This machine's facts, as its own shell tells them, and the script that asked."""
    script = probe.build_script(NONCE, subjects=subjects)
    done = subprocess.run(["sh"], input=script.encode(), capture_output=True, timeout=120, check=True)
    answer = probe.split(done.stdout.decode(errors="replace"), NONCE, subjects)
    found = facts_from("n1", answer.sections, answer.root, gathered_at=0.0, duration_s=1.0, subjects=subjects)
    return found, script


@pytest.fixture(scope="module")
def whole() -> NodeFacts:
    return asked(None)[0]


def test_every_fragment_belongs_to_one_subject() -> None:
    assert len({fragment.name for fragment in FRAGMENTS}) == len(FRAGMENTS)
    assert fragments(None) == FRAGMENTS
    assert not_asked(None) == ()
    for name in SUBJECTS:
        chosen = frozenset({name})
        assert set(fragments(chosen)) | set(not_asked(chosen)) == set(FRAGMENTS)
        assert set(SUBJECTS[name]) <= set(fragments(chosen))
    with pytest.raises(KeyError):
        complete({"weather"})


@pytest.mark.parametrize("name", ALL)
def test_a_requirement_says_the_same_when_nothing_else_is_asked(name: str, whole: NodeFacts) -> None:
    subjects = subjects_read([name])
    assert subjects is not None
    found, script = asked(subjects)
    node = Node(name="n1", address="127.0.0.1", connection="local")
    (of_all,) = judge_node(whole, node, [name])
    (of_some,) = judge_node(found, node, [name])
    assert (of_some.status, of_some.requirement) == (of_all.status, of_all.requirement)
    assert len(of_some.warnings) == len(of_all.warnings)
    for fragment in not_asked(subjects):
        assert f"f_{fragment.name}()" not in script


def test_what_was_not_asked_reads_as_that_and_not_as_absent() -> None:
    found, _ = asked(frozenset({"memory"}))
    assert found.memory.total_bytes.status is ReadStatus.OK
    assert found.docker.engine.status is ReadStatus.FAILED
    assert "not probed" in found.docker.engine.detail
    assert {note.name for note in found.sections} == {fragment.name for fragment in SUBJECTS["memory"]}


def test_everything_is_asked_unless_requirements_are_named() -> None:
    assert subjects_read(None, ("acs",)) is None
    assert subjects_read(["acs", "memlock"], ["acs"]) == ALL["memlock"].READS
    assert subjects_read(["acs"], ["acs"]) == frozenset()
