"""The installed wheels: clusterctl for every platform with its data files, collective_core with its compiled parts."""

from __future__ import annotations

from collections.abc import Callable
from email import message_from_string
from importlib import metadata
from pathlib import Path

import pytest

from clusterctl.apply import script

DATA = (
    "clusterctl/inventories/schema.json",
    "clusterctl/templates/lab/init.sh",
    "clusterctl/templates/lab/rxe.service",
    *(f"clusterctl/apply/runner/{name}" for name in (*script.COMMON, *script.APPLY, *script.UNDO)),
)
COMPILED = (
    "collective_core/bin/all_reduce_perf",
    "collective_core/bin/sendrecv_perf",
    "collective_core/include/collective_core/collective_core.h",
    "collective_core/lib/libcollective_core.so",
    "collective_core/lib/libcollective_core_nccl.so",
    "collective_core/lib/libnccl-net-ccore.so",
    "collective_core/lib/libnccl-tuner-ccore.so",
)


Installed = Callable[[str], metadata.Distribution]


@pytest.fixture
def installed(tier_unavailable: Callable[[str], None]) -> Installed:
    def find(name: str) -> metadata.Distribution:
        try:
            return metadata.distribution(name)
        except metadata.PackageNotFoundError:
            tier_unavailable(f"{name} is not installed as a wheel here (make install)")
            raise

    return find


def tags(wheel: metadata.Distribution) -> list[str]:
    text = wheel.read_text("WHEEL")
    assert text is not None
    return message_from_string(text).get_all("Tag", [])


def test_clusterctl_needs_no_compiler_and_collective_core_is_one_wheel_for_every_python(
    installed: Installed,
) -> None:
    assert tags(installed("clusterctl")) == ["py3-none-any"]
    compiled = tags(installed("collective_core"))
    assert compiled
    for tag in compiled:
        python, abi, platform = tag.split("-")
        assert (python, abi) == ("py3", "none")
        assert platform.startswith(("linux_", "manylinux", "musllinux"))


@pytest.mark.parametrize(("name", "needed"), [("clusterctl", DATA), ("collective_core", COMPILED)])
def test_each_wheel_has_its_own_files_and_no_others(
    installed: Installed, name: str, needed: tuple[str, ...]
) -> None:
    recorded = {str(path): path for path in installed(name).files or ()}
    assert sorted(set(needed) - set(recorded)) == []
    for file in needed:
        path = recorded[file]
        assert path.size and path.locate().stat().st_size == path.size, file
    assert {Path(file).parts[0].partition("-")[0] for file in recorded} <= {name, ".."}
