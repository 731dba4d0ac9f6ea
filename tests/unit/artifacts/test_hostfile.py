"""Hostfiles, and the typing errors that Open MPI passes over in silence."""

from __future__ import annotations

import pytest

from clusterctl.artifacts import hostfile
from clusterctl.artifacts.hostfile import Dialect
from clusterctl.errors import ArtifactError

TWO = (("gpu1", 8), ("gpu2", 8))


def test_the_tutorials_hostfile_to_the_letter() -> None:
    """Its author put X.X.X.X on both lines instead of the addresses."""
    text = hostfile.render(
        (("manager", 1), ("worker1", 1)),
        addresses={"manager": "X.X.X.X", "worker1": "X.X.X.X"},
        comment="MPI CLUSTERS",
    )
    assert text == "# MPI CLUSTERS\nX.X.X.X manager slots=1\nX.X.X.X worker1 slots=1\n"


@pytest.mark.parametrize("dialect", Dialect)
def test_what_is_written_has_no_findings(dialect: Dialect) -> None:
    for addresses in (None, {"gpu1": "10.0.0.1", "gpu2": "10.0.0.2"}, {"gpu1": "fe80::1", "gpu2": "gpu2"}):
        if dialect is Dialect.MPICH and addresses and "fe80::1" in addresses.values():
            continue
        text = hostfile.render(TWO, dialect=dialect, addresses=addresses, comment="two nodes")
        assert hostfile.lint(text, dialect) == ()


@pytest.mark.parametrize("line", ["10.0.0.1 slot=8", "10.0.0.1 gpu1 gpu2 slots=8", "gpu1 gpu2 slots=8"])
def test_only_the_name_of_an_address_is_taken_as_a_second_word(line: str) -> None:
    assert hostfile.lint(f"{line}\n")


@pytest.mark.parametrize(
    ("hosts", "settings", "reason"),
    [
        ((), {}, "at least one host"),
        ((("a", 0),), {}, "a has 0 slots"),
        ((("a", 1),), {"dialect": Dialect.MPICH, "addresses": {"a": "fe80::1"}}, "text after ':'"),
    ],
)
def test_is_refused(hosts: tuple, settings: dict, reason: str) -> None:
    with pytest.raises(ArtifactError, match=reason):
        hostfile.render(hosts, **settings)


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        ("a slots=8", []),
        ("a slots = 8", []),
        ("a slots=8 max_slots=16", []),
        ("a slots=8 max-slots=16  # fine", []),
        ("a\tslots=8", []),
        ("a slot=8", ["'slot' is for rankfiles; did you mean slots?", "no slots=N"]),
        ("a max-slots=8", ["no slots=N: the host's cores are counted instead, and max slots do not change"]),
        ("a slts=8", ["unknown key 'slts'; did you mean slots?", "no slots=N"]),
        (
            "a slots:8",
            ["'slots:8' is ignored: only the first word of a line is a host", "no"],
        ),
        ("a", ["no slots=N: the host's cores are counted instead"]),
        ("a:2222 slots=8", ["a hostfile cannot have ports or counts after ':'"]),
        ("10.0.0.1 8", ["'8' is ignored", "no slots=N"]),
        ("10.0.0.1 slots 8", ["'slots' is ignored", "'8' is ignored"]),
        ("a slots=many", ["slots=many: expected a whole number"]),
        ("fe80::1 slots=1", []),
    ],
)
def test_lint_of_open_mpis_hostfile(line: str, messages: list[str]) -> None:
    findings = hostfile.lint(f"# hosts\n\n{line}\n")
    assert all(finding.line == 3 for finding in findings)
    assert len(findings) == len(messages), findings
    for finding, message in zip(findings, messages, strict=True):
        assert message in finding.message


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        ("a:8", []),
        ("a", ["no ':N'"]),
        ("a slots=8", ["'slots=' is Open MPI's", "no ':N'"]),
        ("a:ssh", ["expected 'host:N'"]),
    ],
)
def test_lint_of_mpichs_hostfile(line: str, messages: list[str]) -> None:
    findings = hostfile.lint(line + "\n", Dialect.MPICH)
    assert len(findings) == len(messages), findings
    for finding, message in zip(findings, messages, strict=True):
        assert message in finding.message


def test_a_host_on_two_lines_and_an_empty_file_are_found() -> None:
    assert hostfile.lint("a slots=1\nb slots=1\na slots=1\n") == (
        hostfile.HostfileProblem(3, "a is already on line 1: their slots add up"),
    )
    assert hostfile.lint("# nobody\n") == (hostfile.HostfileProblem(0, "the file has no host"),)
