"""TCP over several interfaces: network namespaces joined by shaped veth pairs (root)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import shaped_networks
from fake_libraries import compile_fake
from shaped_networks import Networks

PROGRAMS = Path(__file__).resolve().parent / "programs"
DEADLINE_S = 3
"""Of every operation of endless.py that is cut off."""
SLACK_S = 11
"""What a loaded machine gets more, to run a rank that is to know a second after its deadline."""
PATIENCE_S = 30
"""Of every other one."""

# The shell execs twice, so that the process that the test knows is the rank.
INSIDE = ("sh", "-c", 'exec ip netns exec "$TEST_NETNS" "$@"', "inside", sys.executable)


@pytest.fixture(scope="module")
def rails_possible(tier_unavailable: Callable[[str], None]) -> None:
    reason = shaped_networks.missing()
    if reason:
        tier_unavailable(reason)


@pytest.fixture
def networks(rails_possible: None) -> Iterator[Networks]:
    """Two rails of 100 and 400 Mbit/s; nothing is left of them afterwards."""
    with shaped_networks.shaped_networks((100, 400)) as made:
        yield made
    listed = subprocess.run(
        ("ip", "netns", "list"), capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert not any(name in listed for name in made.names)


def over(networks: Networks, **more: str) -> Callable[[int], Mapping[str, str]]:
    """The environment of each rank: rank 0 in the first namespace, rank 1 in the second."""

    def of_rank(rank: int) -> Mapping[str, str]:
        return {
            "TEST_NETNS": networks.names[rank],
            "CCORE_ROOT_ADDR": networks.address(0),
            "CCORE_NODE_ID": f"node{rank}",
            "CCORE_SOCKET_IFNAME": "=" + ",".join(networks.rails),
            **more,
        }

    return of_rank


def test_both_rails_carry_what_they_can(networks: Networks, ranks: Any) -> None:
    mebibytes = 16
    ranks.start((*INSIDE, str(PROGRAMS / "rails.py"), str(mebibytes)), 2, over(networks))
    ended = ranks.finish()
    assert [one.output for one in ended] == ["done\n"] * 2
    for side in (0, 1):
        slow, fast = (networks.sent_bytes(side, rail) for rail in (0, 1))
        payload = 2 * mebibytes << 20
        assert payload < slow + fast < 1.15 * payload
        # 0.2 if both are always busy; an even split would be 0.5, and one rail alone 0 or 1.
        assert 0.1 < slow / (slow + fast) < 0.33, (slow, fast)


GPUS = ("0000:18:00.0", "0000:98:00.0")
"""One behind the switch of rail 0, the other behind that of rail 1."""


@pytest.fixture
def recorded_sysfs(tmp_path: Path) -> Path:
    """The part of /sys that says where two GPUs and the NICs of two rails are: one of each behind a switch."""
    root = tmp_path / "sys"
    (root / "bus" / "pci" / "devices").mkdir(parents=True)
    for rail, bus in enumerate(("15", "95")):
        switch = root / "devices" / f"pci0000:{bus}" / f"0000:{bus}:01.0" / f"0000:{bus[0]}6:00.0"
        for port, address in enumerate((GPUS[rail], f"0000:{bus[0]}9:00.0")):
            device = switch / f"0000:{bus[0]}7:0{port}.0" / address
            device.mkdir(parents=True)
            (device / "numa_node").write_text(f"{rail}\n")
            (root / "bus" / "pci" / "devices" / address).symlink_to(device)
        interface = root / "class" / "net" / f"rail{rail}"
        interface.mkdir(parents=True)
        (interface / "device").symlink_to(device)
    return root


# The fake driver names the GPU, and the recorded tree takes the place of /sys in the mount namespace that ip makes.
ON_RECORDED_SYSFS = 'mount --bind "$TEST_SYSFS" /sys && exec env LD_PRELOAD="$TEST_DRIVER" "$@"'
BESIDE_A_GPU = (
    "sh", "-c", f"exec ip netns exec \"$TEST_NETNS\" sh -c '{ON_RECORDED_SYSFS}' inside \"$@\"", "inside",
    sys.executable,
)  # fmt: skip


@pytest.mark.parametrize(
    ("gpus", "shares"),
    [
        pytest.param((GPUS[1], GPUS[1]), (0.0, 1.0), id="both-are-near-rail-1"),
        pytest.param((GPUS[0], GPUS[0]), (1.0, 0.0), id="both-are-near-rail-0"),
        pytest.param((GPUS[0], GPUS[1]), (0.5, 0.5), id="no-rail-is-near-both"),
        pytest.param(("", ""), (0.5, 0.5), id="no-gpu"),
    ],
)
def test_ranks_use_the_rail_nearest_to_their_gpus(
    rails_possible: None,
    recorded_sysfs: Path,
    tmp_path: Path,
    ranks: Any,
    gpus: tuple[str, str],
    shares: tuple[float, float],
) -> None:
    compile_fake("fake_cuda.c", tmp_path / "libcuda.so.1")
    with shaped_networks.shaped_networks((400, 400)) as networks:

        def of_rank(rank: int) -> Mapping[str, str]:
            gpu = {"FAKE_GPU": gpus[rank]} if gpus[rank] else {}
            return {
                **over(networks, TEST_SYSFS=str(recorded_sysfs))(rank), **gpu,
                "TEST_DRIVER": str(tmp_path / "libcuda.so.1"), "CCORE_DEBUG": "INFO",
            }  # fmt: skip

        ranks.start((*BESIDE_A_GPU, str(PROGRAMS / "rails.py"), "8"), 2, of_rank)
        for rank, one in enumerate(ranks.finish()):
            assert one.output.endswith("done\n"), one.output
            near = f"its GPU {gpus[rank]} is nearest to rail{GPUS.index(gpus[rank])}" if gpus[rank] else ""
            assert near in one.output
        for side in (0, 1):
            sent = [networks.sent_bytes(side, rail) for rail in (0, 1)]
            for rail, share in enumerate(shares):
                assert abs(sent[rail] / sum(sent) - share) < 0.15, sent


def wait_until_running(networks: Networks, ranks: Any) -> None:
    patience = time.monotonic() + 60
    while networks.sent_bytes(0, 1) < 8 << 20:
        running = time.monotonic() < patience and all(one.poll() is None for one in ranks.processes)
        assert running, "not running"
        time.sleep(0.05)


@pytest.mark.parametrize("rail", [0, 1])
def test_a_rail_that_is_cut_ends_both_ranks(networks: Networks, ranks: Any, rail: int) -> None:
    ranks.start(
        (*INSIDE, str(PROGRAMS / "endless.py"), "go-on"), 2, over(networks, CCORE_TCP_USER_TIMEOUT_MS="1000")
    )
    wait_until_running(networks, ranks)
    networks.cut(0, rail)
    for one in ranks.finish(timeout_s=60):
        assert one.returncode == 7, one
        report = json.loads(one.output.splitlines()[-1])
        assert report["code"] in ("REMOTE", "TIMEOUT")
        assert "rank 1 (host" in report["text"] or "rank 0 (host" in report["text"], report
        # The kernel notices at the first retransmission beyond its patience, and the pauses between them double.
        assert report["after_s"] < PATIENCE_S * 0.8


def test_a_host_that_is_cut_off_is_named_at_the_deadline(networks: Networks, ranks: Any) -> None:
    """With keepalives that notice it long afterwards."""
    ranks.start(
        (*INSIDE, str(PROGRAMS / "endless.py"), "cut"), 2, over(networks, CCORE_TCP_USER_TIMEOUT_MS="60000")
    )
    wait_until_running(networks, ranks)
    for rail in (0, 1):
        networks.cut(0, rail)
    for rank, one in enumerate(ranks.finish(timeout_s=60)):
        assert one.returncode == 7, one
        report = json.loads(one.output.splitlines()[-1])
        assert report["code"] == "TIMEOUT"
        assert "all_reduce(count=262144, f32, sum)" in report["text"], report
        told = rf"rank {1 - rank} \(host \S+ pid \d+\) gives no answer: it is stopped or cut off"
        assert re.search(told, report["text"]), report
        assert report["after_s"] < DEADLINE_S + 1 + SLACK_S


def test_ranks_with_other_wishes_do_what_rank_0_does(ranks: Any, environment: dict[str, str]) -> None:
    ranks.start(
        (sys.executable, str(PROGRAMS / "rails.py"), "1"), 2,
        lambda rank: {"CCORE_TRANSPORT": "tcp", "CCORE_TCP_STREAMS": str(3 - rank), "CCORE_DEBUG": "WARN"},
    )  # fmt: skip
    first, second = ranks.finish()
    assert first.output == "done\n"
    assert "CCORE_TCP_STREAMS=2" in second.output and "rank 0 has 3" in second.output
    assert second.output.endswith("done\n")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("CCORE_TCP_STREAMS", "17", "from 0 to 16"),
        ("CCORE_TCP_FRAME_BYTES", "1000", "from 1024 to 4194304"),
        ("CCORE_TCP_USER_TIMEOUT_MS", "10", "from 1000 to 3600000"),
        ("CCORE_SHM_RING_BYTES", "1", "from 4096 to 1073741824"),
        ("CCORE_SHM_SLOT_BYTES", "-1", "from 0 to 1073741824"),
        ("CCORE_FAULT_SEED", "-1", "from 0 to 9223372036854775807"),
    ],
)
def test_a_setting_out_of_range_is_refused(ranks: Any, name: str, value: str, expected: str) -> None:
    """By every rank, before it meets the others: one that ended first would leave them waiting for it."""
    ranks.start((sys.executable, str(PROGRAMS / "rails.py"), "1"), 2, lambda _: {name: value})
    for one in ranks.finish():
        assert one.returncode == 1
        assert f"{name}={value}: expected a whole number {expected}" in one.output
