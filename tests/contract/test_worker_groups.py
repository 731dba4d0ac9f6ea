"""The groups of tests that one worker runs in series, and the points of a sweep that a run without a soak tries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import soak
import worker_groups

ROOT = Path(__file__).resolve().parents[2]


def test_the_files_of_the_groups_exist() -> None:
    for name in (
        *worker_groups._FREE,
        *worker_groups._APART,
        *worker_groups._SLURM,
        *worker_groups._GUESTS,
        *worker_groups._TIERS,
    ):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/integration/test_check_nodes.py::test_a", "nodes"),
        ("tests/integration/test_launchers.py::test_a", "slurm"),
        ("tests/integration/test_locate.py::test_a", "tests/integration/test_locate.py"),
        ("tests/lab/test_bench_docker.py::test_a", "docker"),
        ("tests/lab/test_bench_qemu.py::test_a", "guests"),
        ("tests/lab/test_lab_pure.py::test_a", "tests/lab/test_lab_pure.py"),
        ("tests/core/test_core_faults.py::test_a[1]", "core"),
        ("tests/core/test_core_sanitizers.py::test_a[asan]", "tests/core/test_core_sanitizers.py"),
        ("tests/unit/plan/test_plan_build.py::test_a[x::y]", "tests/unit/plan/test_plan_build.py"),
    ],
)
def test_tests_that_share_a_part_of_the_machine_share_a_worker(nodeid: str, group: str) -> None:
    assert worker_groups.group_of(nodeid) == group


def test_a_sample_has_one_point_of_each_part_and_a_soak_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "SOAK", False)
    drawn = [list(soak.spread(range(1, 82), 9)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert [(point - 1) // 9 for point in drawn[0]] == list(range(9))
    assert list(soak.spread(range(3), 9)) == [0, 1, 2]
    days = set[int]()
    for day in range(20261201, 20261301):
        monkeypatch.setattr(soak, "SEED", str(day))
        days.update(soak.spread(range(1, 82), 9))
    assert days == set(range(1, 82)), "a hundred days try every point"
    monkeypatch.setattr(soak, "SOAK", True)
    assert list(soak.spread(range(1, 82), 9)) == list(range(1, 82))


def test_groups_begin_in_an_order_and_free_tests_come_last() -> None:
    places = [
        worker_groups.place_of(f"tests/{file}::test_a")
        for file in (
            "lab/test_bench_docker.py",
            "integration/test_launchers.py",
            "integration/test_check_nodes.py",
            "integration/test_locate.py",
            "core/test_core_faults.py",
            "integration/test_bench_local.py",
            "core/test_core_native.py",
        )
    ]
    assert places == sorted(set(places))
    last = worker_groups.place_of("tests/unit/plan/test_plan_build.py::test_a")
    assert last == places[-1] and worker_groups.is_free("tests/core/test_core_native.py::test_a")


# What only one group may use: the journals and accounts of this machine, its slurm.conf, its docker engine, the guests.
SHARED = {
    "nodes": r"\bsystem_user\b|\bpgrep\b|[\"'](bootstrap|undo)[\"']",
    "slurm": r"\b(slurm|slurm_cluster|launcher_nodes)\b",
    "docker": r"\b(docker_lab|docker_engine)\b",
    "guests": r"\b(qemu_lab|bare_lab|three_guests)\b",
}

OWN_JOURNALS = re.compile(r"import (mesh_nodes|dnf_node)|\b(qemu_lab|bare_lab)\b")


@pytest.mark.parametrize("group", SHARED)
def test_one_group_alone_uses_a_part_of_the_machine(group: str) -> None:
    tiers = (ROOT / "tests/integration", ROOT / "tests/lab")
    texts = {path: path.read_text() for tier in tiers for path in sorted(tier.glob("test_*.py"))}
    users = {
        str(path.relative_to(ROOT)): worker_groups.group_of(str(path.relative_to(ROOT)))
        for path, text in texts.items()
        if re.search(SHARED[group], text) and not (group == "nodes" and OWN_JOURNALS.search(text))
    }
    assert users and {file: of for file, of in users.items() if of != group} == {}
