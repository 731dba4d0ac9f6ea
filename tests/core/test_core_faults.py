"""Faults of real processes: every rank's operation ends with the root cause, whatever the ranks are joined by."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from free_ports import free_ports

Program = Callable[..., Any]
# Of the program endless.py where a rank stops; elsewhere it is 30 s, and what ends sooner was not ended by it.
DEADLINE_S = 3
# What a loaded machine gets more, to run a rank that has been told. With it a rank still ends before the orphan (20 s)
# and before the deadline of the others.
SLACK_S = 11
# A rank must know a second after its deadline.
LATEST_S = DEADLINE_S + 1 + SLACK_S
# An abort returns within it; the other ranks learn of it at once, and do not wait for their deadline.
ABORT_S = 5


SIBLINGS = ("broadcast", "scatter", "gather", "reduce", "all_gather", "reduce_scatter", "all_to_all")


def one_node(_: int) -> Mapping[str, str]:
    return {}


def over_tcp(_: int) -> Mapping[str, str]:
    return {"CCORE_TRANSPORT": "tcp"}


def two_nodes(rank: int) -> Mapping[str, str]:
    return {"CCORE_NODE_ID": f"node{rank % 2}", "CCORE_SOCKET_ADDR": f"127.0.0.{2 + rank % 2}"}


def reports_of(job: Any, ranks: tuple[int, ...] = (0, 2, 3)) -> list[dict[str, Any]]:
    reports = []
    for rank in ranks:
        output, _ = job.processes[rank].communicate(timeout=60)
        assert job.processes[rank].returncode == 7, output
        reports.append(json.loads(output.splitlines()[-1]))
    return reports


@pytest.mark.parametrize("per_rank", [one_node, over_tcp, two_nodes])
def test_a_stopped_rank_is_the_root_cause_on_every_rank(
    program: Program, per_rank: Callable[[int], Mapping[str, str]]
) -> None:
    job = program("endless.py", "stop", size=4, per_rank=per_rank)
    for report in reports_of(job):
        assert report["code"] in {"TIMEOUT", "REMOTE"}
        text = report["text"]
        assert "all_reduce(count=262144, f32, sum)" in text
        assert f"did not end within its timeout of {DEADLINE_S}.000 s" in text
        silent = [part for part in text.split("; ") if "gives no answer" in part]
        assert len(silent) == 1, text
        assert silent[0].startswith("rank 1 (host"), text
        assert report["after_s"] < LATEST_S


@pytest.mark.parametrize("per_rank", [one_node, over_tcp, two_nodes])
def test_a_killed_rank_is_the_root_cause_at_once(
    program: Program, per_rank: Callable[[int], Mapping[str, str]]
) -> None:
    job = program("endless.py", "die", size=4, per_rank=per_rank)
    for report in reports_of(job):
        assert report["code"] == "REMOTE"
        assert "rank 1 (host" in report["text"]
        assert "in or after operation" in report["text"]
        assert report["after_s"] < LATEST_S
    assert job.processes[1].wait(10) == -9


@pytest.mark.parametrize("per_rank", [one_node, over_tcp])
def test_a_killed_rank_is_missed_though_a_process_that_it_forked_lives(
    program: Program, per_rank: Callable[[int], Mapping[str, str]]
) -> None:
    """As the workers of a data loader do, with copies of all that the rank had open."""
    job = program("endless.py", "orphan", size=2, per_rank=per_rank)
    (report,) = reports_of(job, (0,))
    assert report["code"] == "REMOTE"
    assert "rank 1 (host" in report["text"]
    assert report["after_s"] < LATEST_S


@pytest.mark.parametrize(
    ("fate", "per_rank"),
    [("stop", one_node), ("stop", over_tcp), ("stop", two_nodes), ("die", over_tcp), ("die", two_nodes)],
)
def test_the_root_cause_is_told_in_every_collective(
    program: Program, fate: str, per_rank: Callable[[int], Mapping[str, str]]
) -> None:
    """A job for each, all at once, since they mostly wait; of three ranks, as one may have only to send."""
    size = 3
    for name, port in zip(SIBLINGS, free_ports(len(SIBLINGS)), strict=True):

        def own(rank: int, port: int = port) -> Mapping[str, str]:
            return {**per_rank(rank), "CCORE_ROOT_PORT": str(port)}

        started = program("endless.py", fate, str(size << 16), name, size=size, per_rank=own)
    for job, name in enumerate(SIBLINGS):
        for report in reports_of(started, (job * size, job * size + 2)):
            assert report["code"] == "REMOTE" or (fate, report["code"]) == ("stop", "TIMEOUT"), report
            assert fate == "die" or name in report["text"], report
            assert "rank 1 (host" in report["text"], report
            assert report["after_s"] < LATEST_S, (name, report)


@pytest.mark.parametrize("per_rank", [one_node, over_tcp, two_nodes])
def test_abort_from_a_second_thread_returns_at_once_and_ends_all(
    program: Program, per_rank: Callable[[int], Mapping[str, str]]
) -> None:
    # Nor does it wait for a rank that is stopped, in whose operation the others hang.
    job = program("endless.py", "abort", size=4, per_rank=per_rank)
    of_0, of_1, of_3 = reports_of(job, (0, 1, 3))
    assert of_1["aborted"]["took_s"] < ABORT_S
    assert of_1["code"] == "ABORTED"
    for report in (of_0, of_3):
        assert report["code"] == "REMOTE"
        assert re.search(r"rank 1 \(host \S+ pid \d+\) failed \(aborted\)", report["text"]), report["text"]
        assert report["ended"] - of_1["aborted"]["at"] < ABORT_S + SLACK_S, report
