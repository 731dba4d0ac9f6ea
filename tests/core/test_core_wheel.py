"""The installed wheel: for every Python 3 on this platform, with the core's parts and all data files inside."""

from __future__ import annotations

from collections.abc import Callable
from email import message_from_string
from importlib import metadata

import pytest

from clusterctl.apply import script

NEEDED = (
    "clusterctl/inventories/schema.json",
    "clusterctl/templates/lab/init.sh",
    "clusterctl/templates/lab/rxe.service",
    "collective_core/bin/all_reduce_perf",
    "collective_core/bin/sendrecv_perf",
    "collective_core/include/collective_core/collective_core.h",
    "collective_core/lib/libcollective_core.so",
    "collective_core/lib/libcollective_core_nccl.so",
    "collective_core/lib/libnccl-net-ccore.so",
    "collective_core/lib/libnccl-tuner-ccore.so",
    *(f"clusterctl/apply/runner/{name}" for name in (*script.COMMON, *script.APPLY, *script.UNDO)),
)


@pytest.fixture
def wheel(tier_unavailable: Callable[[str], None]) -> metadata.Distribution:
    try:
        return metadata.distribution("clusterctl")
    except metadata.PackageNotFoundError:
        tier_unavailable("clusterctl is not installed as a wheel here (pip install .)")
        raise


def test_one_wheel_serves_every_python_of_the_platform(wheel: metadata.Distribution) -> None:
    text = wheel.read_text("WHEEL")
    assert text is not None
    tags = message_from_string(text).get_all("Tag", [])
    assert tags
    for tag in tags:
        python, abi, platform = tag.split("-")
        assert (python, abi) == ("py3", "none")
        assert platform.startswith(("linux_", "manylinux", "musllinux"))


def test_the_wheel_has_the_core_and_the_data(wheel: metadata.Distribution) -> None:
    recorded = {str(path): path for path in wheel.files or ()}
    assert sorted(set(NEEDED) - set(recorded)) == []
    for name in NEEDED:
        path = recorded[name]
        assert path.size and path.locate().stat().st_size == path.size, name
