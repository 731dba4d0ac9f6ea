"""The row that compares PFC's priorities with those in which a run sent."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from case_facts import facts_of

from clusterctl.acceptance.model import FleetPlace, RowPlace
from clusterctl.acceptance.rows import rdma
from clusterctl.facts.base import Reading
from clusterctl.facts.model.health import Health
from clusterctl.facts.subjects import counters
from clusterctl.inventory.model import Node
from clusterctl.transport.base import HostMap
from clusterctl.trust import health

(ROW,) = rdma.AT_THE_END
ROCE = "mlx5_0 1:ACTIVE:LinkUp:400:Ethernet"


def read(sent, pfc=(3,), **more):
    """Return the counters of one port that sent gigabytes by priority, from text as the probe prints it."""
    text = [f"roce eth2 tx_prio{priority}_bytes: {gigabytes * 10**9}" for priority, gigabytes in sent.items()]
    text += [f"roce eth2 {name}: {value}" for name, value in more.items()]
    on = " ".join(f"{priority}:{'on' if priority in pfc else 'off'}" for priority in range(8))
    text += [
        "dcb eth2 pfc-cap 8 macsec-bypass off delay 0",
        f"dcb eth2 prio-pfc {on}",
        "dcb eth2 requests 0:0 1:0 2:0 3:7 4:0 5:0 6:0 7:0",
    ]
    return Health(counts=Reading(counters.parse_counts("\n".join(text) + "\n")))


def run(before, after):
    facts = {name: replace(facts_of({"rdma": [ROCE]}), health=found) for name, found in before.items()}
    later = {name: replace(facts[name], health=found) for name, found in after.items()}
    nodes = tuple(Node(name=name, address=name) for name in before)
    place = FleetPlace(nodes, lambda: None, Path(), lambda _: None, facts, facts, lambda _: HostMap(later))
    return {
        name: [one.text for one in parsed.findings] for name, parsed in ROW.work.run(place).parsed.items()
    }


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ({0: 1, 3: 40}, []),
        ({0: 40, 3: 20}, []),
        ({0: 1, 3: 10}, []),  # nothing since the start
        ({0: 2, 3: 10}, []),  # a little
        (
            {0: 9, 3: 10},
            ["eth2 sent 8 GB, TCP included, nearly all with priority 0, but PFC protects priority 3"],
        ),
    ],
)
def test_a_port_that_sent_without_protection_is_named(sent, found):
    texts = run({"a": read({0: 1, 3: 10})}, {"a": read(sent)})["a"]
    assert [text.partition(": if RDMA ran, set NCCL_IB_TC (")[0] for text in texts] == found


def test_a_fabric_without_pfc_is_not_judged():
    assert run({"a": read({0: 1}, pfc=())}, {"a": read({0: 90}, pfc=())}) == {"a": []}


def test_a_node_with_other_priorities_is_named():
    after = {"a": read({3: 9}), "b": read({3: 9}), "c": read({3: 9}, pfc=(4,))}
    found = run(after, after)
    assert found == {"a": [], "b": [], "c": ["PFC protects priority 4 on this node, and 3 on 2 others"]}


def test_nodes_without_roce_are_no_part_of_the_majority():
    without = {name: Health(counts=Reading(())) for name in ("d", "e", "f", "g")}
    after = {"a": read({3: 9}), "b": read({3: 9}), "c": read({3: 9}, pfc=(4,)), **without}
    assert run(after, after)["c"] == ["PFC protects priority 4 on this node, and 3 on 2 others"]


def test_a_node_without_dcb_is_not_judged():
    silent = {"a": Health(counts=Reading(()))}
    facts = {"a": replace(facts_of({"rdma": [ROCE]}), health=silent["a"])}
    place = FleetPlace(
        (Node(name="a", address="a"),),
        lambda: None,
        Path(),
        lambda _: None,
        facts,
        facts,
        lambda _: HostMap(facts),
    )
    assert "dcb (iproute2)" in ROW.work.run(place).parsed["a"].not_run


@pytest.mark.parametrize(
    ("rdma_words", "why"),
    [
        (ROCE + " pci=0000:41:00.0", ""),
        ("mlx5_0 1:ACTIVE:LinkUp:400:InfiniBand pci=0000:41:00.0", "no active RoCE card"),
        ("rxe0 netdev=eth0 1:ACTIVE:LinkUp:2.5:Ethernet", "no active RoCE card"),
    ],
)
def test_only_cards_with_roce_have_priorities(rdma_words, why):
    assert why in ROW.applies(facts_of({"rdma": [rdma_words]})) and bool(
        ROW.applies(facts_of({"rdma": [rdma_words]}))
    ) == bool(why)


def test_drops_and_pauses_of_the_run_are_events_of_its_hardware():
    before = read({}, rx_prio3_discards=0, tx_pause_storm_error_events=1)
    after = read({3: 5}, rx_prio3_discards=4, tx_pause_storm_error_events=2)
    assert {(event.place, event.what, event.effect.value) for event in health.growth(before, after)} == {
        ("eth2", "packets of one priority dropped (priority 3): 4 more", "doubtful"),
        ("eth2", "the card paused its peer for long (error): 1 more", "doubtful"),
    }


def test_perftest_gets_the_class_of_training():
    node = Node(name="a", address="a", env={"NCCL_IB_TC": "106", "NCCL_IB_SL": "3"})
    place = RowPlace(node, facts_of({"rdma": [ROCE]}), "/d")
    for row in rdma.ROWS:
        assert row.work.server(place).env["OPTIONS"].endswith(" --tclass=106 --sl=3")
    odd = RowPlace(
        Node(name="a", address="a", env={"NCCL_IB_TC": "1; reboot"}), facts_of({"rdma": [ROCE]}), "/d"
    )
    assert "tclass" not in rdma.ROWS[0].work.client(odd).env["OPTIONS"]


ETHTOOL = """\
NIC statistics:
     rx_packets: 12
     rx_prio3_bytes: 7000000000
     rx_prio3_discards: 2
     tx_prio3_bytes: 9000000000
     tx_prio3_packets: 8
     tx_pause_storm_warning_events: 1
"""
DCB = """\
pfc-cap 8 macsec-bypass off delay 7
prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off
requests 0:0 1:0 2:0 3:5 4:0 5:0 6:0 7:0
indications 0:0 1:0 2:0 3:6 4:0 5:0 6:0 7:0
"""


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_probe_reads_ports_with_roce_and_no_others(tmp_path, shell):
    """Programs that print what mlx5's documentation and dcb-pfc(8) show, in a tree like that of sysfs."""
    tree, programs = tmp_path / "infiniband", tmp_path / "bin"
    for device, layer, card in (("mlx5_0", "Ethernet", "eth2"), ("mlx5_1", "InfiniBand", "ib0")):
        port = tree / device / "ports" / "1"
        port.mkdir(parents=True)
        (port / "link_layer").write_text(f"{layer}\n")
        (tree / device / "device" / "net" / card).mkdir(parents=True)
    interfaces = tmp_path / "net"
    (interfaces / "eth2" / "master" / "bonding").mkdir(parents=True)
    (interfaces / "eth2" / "master" / "bonding" / "slaves").write_text("eth2 eth3\n")
    programs.mkdir()
    for name, output in (("ethtool", ETHTOOL), ("dcb", DCB)):
        (tmp_path / name).write_text(output)
        (programs / name).write_text(f"#!/bin/sh\nexec cat '{tmp_path / name}'\n")
        (programs / name).chmod(0o755)
    script = counters.FRAGMENTS[0].script.partition("\nset --\n")[0]
    script = script.replace("/sys/class/infiniband", str(tree)).replace("/sys/class/net", str(interfaces))
    done = subprocess.run(
        (shell, "-c", 't() { shift; "$@"; }\n' + script),
        env={"PATH": f"{programs}:/usr/bin:/bin"}, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    found = {
        (count.kind, count.place, count.name): count.value for count in counters.parse_counts(done.stdout)
    }
    assert {place for _, place, _ in found} == {"eth2", "eth3"}
    named = {name: value for (_, _, name), value in found.items() if value and name != "pfc: priority 3"}
    assert named == {
        "rx_bytes: priority 3": 7000000000, "tx_bytes: priority 3": 9000000000, "rx_discards: priority 3": 2,
        "pause_storm: warning": 1, "tx_pause: priority 3": 5, "rx_pause: priority 3": 6,
    }  # fmt: skip
    assert found["roce", "eth2", "pfc: priority 3"] == 1 and found["roce", "eth2", "pfc: priority 4"] == 0
