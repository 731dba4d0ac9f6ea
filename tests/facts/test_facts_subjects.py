"""Asking about some subjects only: the probe runs nothing else, and the requirements that need no more say the same."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from clusterctl.facts import probe
from clusterctl.facts.base import ReadStatus
from clusterctl.facts.catalog import (
    FRAGMENTS,
    ON_REQUEST,
    SUBJECTS,
    complete,
    fragments,
    not_asked,
    settings_read,
)
from clusterctl.facts.gather import facts_from
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.subjects import launch, mpi, tool_versions
from clusterctl.facts.subjects import python as python_subject
from clusterctl.inventory.model import Node
from clusterctl.requirements.catalog import ALL
from clusterctl.requirements.fleet.shared_dir import wish
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
    on_request = tuple(fragment for name in SUBJECTS if name in ON_REQUEST for fragment in SUBJECTS[name])
    assert set(not_asked(None)) == set(on_request)
    assert set(fragments(None)) == set(FRAGMENTS) - set(on_request)
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


def test_what_only_one_command_reads_is_not_asked_by_a_check(whole: NodeFacts) -> None:
    assert all(ON_REQUEST.isdisjoint(requirement.READS) for requirement in ALL.values())
    assert whole.session is None and whole.launch is None
    found, _ = asked(frozenset({"session"}))
    assert found.session is not None and found.launch is None


def test_values_of_a_request_reach_the_fragments_and_the_environment_does_not(tmp_path: Path) -> None:
    (tmp_path / "it's $(mine)").write_text("")
    subjects = frozenset({"launch", "python"})
    values = {"IDENTITY": f"{tmp_path}/it's $(mine)", "PYTHON": "/no/python"}
    script = probe.build_script(NONCE, subjects=subjects, values=values)
    environment = {**os.environ, "KNOWN_HOSTS": "/etc/passwd", "MPIRUN": "/bin/sh", "PYTHON": "/bin/sh"}
    done = subprocess.run(["sh"], input=script.encode(), capture_output=True, env=environment, check=True)
    answer = probe.split(done.stdout.decode(), NONCE, subjects)
    found = launch.parse(answer.sections)
    assert (found.identity, found.known_hosts) == (values["IDENTITY"], None)
    python = python_subject.parse(answer.sections).value
    assert python is not None and python.ranks is None
    assert found.mpirun is None or found.mpirun.path != "/bin/sh"
    with pytest.raises(KeyError):
        probe.build_script(NONCE, values=values)


def test_tools_that_a_command_names_are_found_with_their_versions(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    program = tmp_path / "some-tool"
    program.write_text('#!/bin/sh\nprintf \'%s\\t%s\\nmore\\n\' "$1" "$#"\n')
    program.chmod(0o755)
    subjects = frozenset({"tool_versions"})
    values = {"TOOLS": "some-tool *\nno-such-program --version\nsome-tool\nsh --$(id)"}
    script = probe.build_script(NONCE, subjects=subjects, values=values)
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(shell, input=script.encode(), capture_output=True, env=environment, check=True)
    sections = probe.split(done.stdout.decode(), NONCE, subjects).sections
    assert next(line.split("\t") for line in sections["tool_versions"].text.splitlines()) == [
        "some-tool",
        str(program),
        "*1",
    ]
    found = tool_versions.parse(sections)
    assert list(found) == ["some-tool", "sh"] and found["some-tool"].version == "0"


def test_every_variable_in_capitals_is_one_that_the_probe_sets() -> None:
    own = {"K", "M", "N", "U", "W", "PATH", "HOME", "SHELL", "LOGNAME", "SSH_CONNECTION", "SUDO_UID", "T"}
    for fragment in FRAGMENTS:
        shell, *_ = fragment.script.partition("<<'PYTHON_END'")
        used = set(re.findall(r"\$\{?([A-Z_]+)\b", fragment.needs + shell))
        assert used - own <= set(fragment.variables), fragment.name
        assert set(fragment.variables) <= used | {"IDENTITY"}, fragment.name


def test_mpi_is_searched_in_absolute_directories():
    searched = (*mpi._PREFIXES, *mpi._HYDRA, *mpi._NCCL_HEADERS)
    assert [path for path in searched if not path.startswith("/") or path == "/"] == []


@pytest.mark.parametrize("path", ["/shared", "/shared/", "//shared", "/./shared"])
def test_the_shared_directory_is_searched_as_the_requirements_write_it(path):
    node = Node.model_validate(
        {"name": "a", "address": "a", "requirements": {"shared_dir": {"path": path, "server": "a"}}}
    )
    assert settings_read(node, None)["SHARED"] == wish.path(node) == "/shared"
