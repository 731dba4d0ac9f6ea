"""The groups of tests that one worker runs in series, and the points of a sweep that a run without a soak tries."""

from __future__ import annotations

from pathlib import Path

import pytest
import soak
import worker_groups

ROOT = Path(__file__).resolve().parents[2]


def test_the_files_of_the_groups_exist() -> None:
    for name in (
        *worker_groups._FREE,
        *worker_groups._HERE,
        *worker_groups._BRIDGED,
        *worker_groups._TIERS,
    ):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/integration/test_check_nodes.py::test_a", "nodes"),
        ("tests/integration/test_bench_variants.py::test_a", "here"),
        ("tests/integration/test_locate.py::test_a", "bridged"),
        ("tests/lab/test_bench_docker.py::test_a", "lab"),
        ("tests/lab/test_lab_pure.py::test_a", "tests/lab/test_lab_pure.py"),
        ("tests/core/test_core_faults.py::test_a[1]", "core"),
        ("tests/core/test_core_sanitizers.py::test_a[asan]", "tests/core/test_core_sanitizers.py"),
        ("tests/unit/plan/test_plan_build.py::test_a[x::y]", "tests/unit/plan/test_plan_build.py"),
    ],
)
def test_tests_with_real_parts_share_a_worker_with_their_tier(nodeid: str, group: str) -> None:
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


@pytest.mark.parametrize("name", worker_groups._HERE)
def test_a_file_beside_the_group_of_nodes_has_no_nodes(name: str) -> None:
    """Nodes of a farm search the machine, and the daemons of two workers would be found by each other's searches."""
    text = (ROOT / name).read_text()
    assert not {
        word for word in ("farm", "slurm", "bridged", "system_user", 'Path("/tmp").glob') if word in text
    }


@pytest.mark.parametrize("name", worker_groups._BRIDGED)
def test_a_file_with_networks_of_its_own_has_no_other_nodes(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "import bridged_nodes" in text
    others = ("sshd_farm", "small_farm", "slurm", "system_user", "mesh_nodes", "/tmp", "pgrep")
    assert not {word for word in others if word in text}
