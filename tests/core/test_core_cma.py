"""Copies by the kernel between ranks: used where every rank may, else by none, and a peer that dies in one is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

Program = Callable[..., Any]


def reports_of(job: Any) -> list[dict[str, Any]]:
    ended = job.finish()
    assert [one.returncode for one in ended] == [0] * len(ended), ended
    reports = [json.loads(one.output.splitlines()[-1]) for one in ended]
    for report in reports:
        assert report["same"] == [True] * 6
        assert report["algorithms"][3:] == ["twoshot"] * 3
    return reports


# Of 4 MiB, of 12 bytes more, and of 2.7 MiB, which four ranks reduce faster through slots.
@pytest.mark.parametrize(
    ("size", "taken"), [(2, ["cma"] * 3), (3, ["cma"] * 3), (4, ["cma", "cma", "twoshot"])]
)
def test_the_bits_are_those_of_the_slots(program: Program, size: int, taken: list[str]) -> None:
    pytest.importorskip("numpy")
    # Without measured times, which depend on the machine.
    built_in = {"CCORE_MEASURE": "0"}
    for report in reports_of(program("cma.py", size=size, per_rank=lambda _: built_in)):
        assert report["setting"] == "CCORE_CMA=1 (default, in use)"
        assert report["algorithms"][:3] == taken


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        ("process_vm_readv:EPERM", "process_vm_readv: Operation not permitted"),
        ("process_vm_writev:EPERM", "process_vm_writev: Operation not permitted"),
        ("process_vm_readv:ENOSYS", "process_vm_readv: Function not implemented"),
        ("pidfd_open:ENOSYS", "pidfd_open: Function not implemented"),
    ],
)
def test_what_one_rank_may_not_no_rank_does(program: Program, refused: str, why: str) -> None:
    job = program("cma.py", refused, size=3, per_rank=lambda _: {"CCORE_DEBUG": "VERSION"})
    logs = []
    for process in job.processes:
        output, _ = process.communicate(timeout=60)
        logs.append(output)
        assert process.returncode == 0, output
        report = json.loads(output.splitlines()[-1])
        assert report["setting"].startswith("CCORE_CMA=0 (not used: rank 1: ")
        assert why in report["setting"]
        assert set(report["algorithms"]) == {"twoshot"}
        assert report["same"] == [True] * 6
    assert all("cma not used: rank 1: " in log and why in log for log in logs), logs


def test_one_rank_that_does_not_want_it_is_enough(program: Program) -> None:
    def second_does_not(rank: int) -> Mapping[str, str]:
        return {"CCORE_CMA": "0"} if rank == 1 else {}

    for report in reports_of(program("cma.py", size=2, per_rank=second_does_not)):
        assert report["setting"] == "CCORE_CMA=0 (not used: rank 1 has CCORE_CMA=0)"
        assert set(report["algorithms"]) == {"twoshot"}


@pytest.mark.parametrize(
    ("fate", "code"), [("die", {"REMOTE"}), ("stop", {"TIMEOUT", "REMOTE"}), ("abort", {"REMOTE", "ABORTED"})]
)
def test_a_rank_that_ends_in_the_middle_is_named(program: Program, fate: str, code: set[str]) -> None:
    # 64 MiB: it is in the middle of one whenever that is.
    size = 3 if fate == "abort" else 2
    job = program(
        "endless.py", fate, str(1 << 24), size=size, per_rank=lambda _: {"CCORE_ALGO": "all_reduce:cma"}
    )
    output, _ = job.processes[0].communicate(timeout=100)
    report = json.loads(output.splitlines()[-1])
    assert report["code"] in code
    assert "rank 1 (host" in report["text"]
    assert report["after_s"] < 20


@pytest.mark.parametrize(
    ("collective", "way"),
    [
        ("broadcast", "oneshot"), ("all_gather", "oneshot"), ("reduce", "twoshot"), ("scatter", "cma"),
        ("gather", "cma"), ("all_gather", "cma"), ("all_to_all", "cma"), ("reduce_scatter", "cma"),
    ],
)  # fmt: skip
def test_a_rank_that_dies_in_a_sibling_is_named(program: Program, collective: str, way: str) -> None:
    forced = {"CCORE_ALGO": f"{collective}:{way}"}
    job = program("endless.py", "die", str(1 << 22), collective, size=2, per_rank=lambda _: forced)
    output, _ = job.processes[0].communicate(timeout=100)
    report = json.loads(output.splitlines()[-1])
    assert report["code"] == "REMOTE"
    assert "rank 1 (host" in report["text"]
    assert report["after_s"] < 20


@pytest.mark.parametrize(
    ("collective", "way"),
    [("broadcast", "oneshot"), ("broadcast", "cma"), ("scatter", "cma"), ("gather", "cma")],
)
def test_a_rank_that_has_done_its_part_may_end(program: Program, collective: str, way: str) -> None:
    forced = {"CCORE_ALGO": f"{collective}:{way}"}
    ended = program("early_leaver.py", collective, size=3, per_rank=lambda _: forced).finish()
    assert [(one.returncode, one.output.strip()) for one in ended] == [(0, "right")] * 3
