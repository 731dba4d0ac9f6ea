"""The facts in which a named node differs from its peers: reasons to look at, never a name."""

from __future__ import annotations

import pytest
from case_facts import facts_of

from clusterctl.trust import node_differences

NIC = "0000:3b:00.0 020700 15b3:1021"
HEALTHY = {
    "pci": [f"{NIC} link=32/16/32/16"],
    "rdma": ["mlx5_0 pci=0000:3b:00.0 board=MT_1 1:ACTIVE:LinkUp:400:InfiniBand"],
    "gpus": ["0000:17:00.0 NVIDIA_H100"],
    "interfaces": ["eth0 9000", "eth1 9000", "lo 65536"],
}


def differences(named=("gpu02",), **changed):
    """Return what differs on the named nodes of four, if gpu02 has other facts."""
    fleet = {f"gpu{number:02d}": facts_of(HEALTHY) for number in range(1, 5)}
    fleet["gpu02"] = facts_of({**HEALTHY, **changed})
    found = node_differences.find(fleet, (), named, ("eth0", "eth1"))
    return [(one.fact, one.value, one.others) for one in found]


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"pci": [f"{NIC} link=16/8/32/16"]}, ("PCIe link of mlx5_0", "16 GT/s x8", "32 GT/s x16")),
        ({"rdma": [HEALTHY["rdma"][0].replace("400", "200")]},
         ("port 1 of mlx5_0", "ACTIVE, 200 Gb/s", "ACTIVE, 400 Gb/s")),
        ({"gpus": ["0000:17:00.0 NVIDIA_H100 lanes=8"]}, ("PCIe width of GPU 0", "x8", "x16")),
        ({"interfaces": ["eth0 9000", "eth1 1500", "lo 65536"]}, ("MTU of eth1", "1500", "9000")),
        ({"kernel": "6.1.0-29-amd64"}, ("kernel", "6.1.0-29-amd64", "6.1.0-30-amd64")),
    ],
)  # fmt: skip
def test_what_differs_on_a_named_node_is_found(changed, difference):
    assert differences(**changed) == [difference]
    assert differences(named=("gpu03",), **changed) == []


def test_links_come_before_software():
    found = differences(kernel="6.1.0-29-amd64", interfaces=["eth0 9000", "eth1 1500", "lo 65536"])
    assert [fact for fact, _, _ in found] == ["MTU of eth1", "kernel"]


def test_an_interface_that_the_ranks_do_not_use_is_not_compared():
    assert differences(interfaces=["eth0 9000", "eth1 9000", "lo 1500"]) == []


def test_two_nodes_have_no_majority():
    fleet = {"gpu01": facts_of(HEALTHY), "gpu02": facts_of({**HEALTHY, "interfaces": ["eth0 1500"]})}
    assert node_differences.find(fleet, (), fleet, ("eth0",)) == ()
