"""The row that compares PFC's priorities with those in which a run sent: recorded output of ethtool and dcb."""

from __future__ import annotations

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
    """The counters of one port that sent gigabytes by priority, in the words of the probe's output."""
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
            ["eth2 sent 8 GB, nearly all with priority 0, but PFC protects priority 3: set NCCL_IB_TC"],
        ),
    ],
)
def test_a_port_that_sent_without_protection_is_named(sent, found):
    texts = run({"a": read({0: 1, 3: 10})}, {"a": read(sent)})["a"]
    assert [text.partition(" (")[0] for text in texts] == found


def test_a_fabric_without_pfc_is_not_judged():
    assert run({"a": read({0: 1}, pfc=())}, {"a": read({0: 90}, pfc=())}) == {"a": []}


def test_a_node_with_other_priorities_is_named():
    after = {"a": read({3: 9}), "b": read({3: 9}), "c": read({3: 9}, pfc=(4,))}
    found = run(after, after)
    assert found == {"a": [], "b": [], "c": ["PFC protects priority 4 on this node, and 3 on 2 others"]}


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
