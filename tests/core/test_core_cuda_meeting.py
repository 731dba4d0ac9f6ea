"""The path of CUDA tensors that the ranks of a group agree on, with a library for devices that needs no GPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_libraries import compile_fake

pytest.importorskip("torch")

NAME = "libcollective_core_cuda.so"
STAGED = "staged through pinned host memory: "


@pytest.fixture(scope="module")
def libraries(library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The library under test with the fake for devices beside it, and alone."""
    found = {}
    for case in ("with", "without"):
        found[case] = tmp_path_factory.mktemp(case) / library.name
        found[case].symlink_to(library)
    compile_fake("fake_core_cuda.c", found["with"].with_name(NAME))
    return found


@pytest.mark.parametrize(
    ("variables", "beside", "path", "ways", "loads"),
    [
        ([{}, {}], "with", "kernel", ["the fake's path"] * 2, [True, True]),
        ([{"CCORE_CUDA_PATH": "auto"}] * 2, "with", "kernel", ["the fake's path"] * 2, [True, True]),
        (
            [{"CCORE_CUDA_PATH": "staged"}] * 2, "with", "staged",
            [f"{STAGED}CCORE_CUDA_PATH is staged"] * 2, [False, False],
        ),
        (
            [{}, {"CCORE_CUDA_PATH": "staged"}], "with", "staged",
            [f"{STAGED}rank 1 does not use {NAME}; with CCORE_DEBUG=INFO", f"{STAGED}CCORE_CUDA_PATH is staged"],
            [True, False],
        ),
        ([{}, {}], "without", "staged", [f"{STAGED}{NAME} cannot be used: "] * 2, [False, False]),
        (
            [{"FAKE_FAILS": "1"}] * 2, "with", "staged",
            [f"{STAGED}system: the fake fails as requested"] * 2, [True, True],
        ),
        (
            [{"CCORE_NODE_ID": "a"}, {"CCORE_NODE_ID": "b"}], "with", "staged",
            [f"{STAGED}the ranks are on 2 nodes"] * 2, [False, False],
        ),
    ],
    ids=["unset", "auto", "staged", "one-staged", "no-library", "no-driver", "two-nodes"],
)  # fmt: skip
def test_the_way_is_on_the_device_unless_something_forbids_it(
    program: Callable[..., Any],
    libraries: dict[str, Path],
    variables: list[dict[str, str]],
    beside: str,
    path: str,
    ways: list[str],
    loads: list[bool],
) -> None:
    ended = program(
        "cuda_meeting.py", size=2,
        per_rank=lambda rank: {"CCORE_LIBRARY": str(libraries[beside]), **variables[rank]},
    )  # fmt: skip
    for rank, one in enumerate(ended.finish()):
        assert one.returncode == 0, one.output
        report = json.loads(one.output.splitlines()[-1])
        assert report["path"] == path
        assert report["way"].startswith(ways[rank]), report
        # Nothing is loaded before the first CUDA tensor.
        assert report["loaded"] == [False, loads[rank]]
        assert report["total"] == 2.0


def test_calls_reach_the_library_with_all_their_fields(
    program: Callable[..., Any], libraries: dict[str, Path], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    ended = program(
        "cuda_meeting.py", size=1,
        per_rank=lambda _: {"CCORE_LIBRARY": str(libraries["with"]), "FAKE_LOG": str(log)},
    )  # fmt: skip
    for one in ended.finish():
        assert one.returncode == 0, one.output
    assert log.read_text().splitlines() == [
        "0 launch on 7; 0 from 64 to 128: 1000 of type 1, operator 3, root 0",
        "0 launch on 9; 2 from 1 to 2: 3 of type 4, operator 0, root 0; 3 from 5 to 6: 7 of type 8, operator 0, root 1",
        "0 exchange to0:2 from1:4",
    ]
