"""Drift: who is in the minority, who is not compared at all, and how it is said."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import facts_recorded as recorded
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterctl.facts import gather
from clusterctl.facts.base import Reading, ReadStatus, Sections
from clusterctl.facts.comparable import comparable
from clusterctl.facts.drift import drift
from clusterctl.facts.model.devices import GpuDriver, Link, Pci, PciDevice
from clusterctl.facts.model.fabric import Interface, RdmaDevice, RdmaPort
from clusterctl.facts.model.host import Limit, RootAccess
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.model.services import Package, Unit
from clusterctl.inventory import nodeset
from clusterctl.inventory.model import Node
from clusterctl.report.check_document import document_of
from clusterctl.transport.base import HostMap


def render(deviations, names):
    """Return one line for a single deviation, else one line for each, and which nodes have none."""
    odd = {name for one in deviations for name in one.nodes}
    fine = [name for name in names if name not in odd]
    parts = [f"{nodeset.fold(fine)} ok"] if fine else []
    for one in deviations:
        said = f"{nodeset.fold(one.nodes)}: {one.fact} {one.value}, others {one.others}"
        parts.append(said + (" (no majority)" if one.tie else ""))
    return ("; " if len(deviations) == 1 else "\n").join(parts)


def _gpu(number: int, device: str = "2335") -> PciDevice:
    address = f"0000:{number:02x}:00.0"
    return PciDevice(
        address, "030200", "10de", device, "nvidia", 0, None, (address,), Link(32.0, 16, 32.0, 16), None
    )


def _node(name: str, gpus: int = 8, device: str = "2335") -> NodeFacts:
    """A node of recorded sections; what no section tells is not known of it."""
    sections = Sections()
    for path in (
        recorded.CASES / "system" / "ubuntu-bare-metal.txt",
        recorded.CASES / "versions" / "gpu-image.txt",
    ):
        sections.update(recorded.load(path))
    facts = gather.facts_from(name, sections, RootAccess(0, "root"), gathered_at=0.0, duration_s=0.1)
    return replace(
        facts,
        pci=Pci(Reading(tuple(_gpu(n, device) for n in range(gpus)))),
        gpu=replace(facts.gpu, driver=Reading(GpuDriver("570.1", "open"))),
        software=replace(facts.software, packages=Reading((Package("rdma-core", "50.0"),))),
    )


def _fleet(count: int, **changed: NodeFacts) -> dict[str, NodeFacts]:
    return {name: changed.get(name, _node(name)) for name in (f"gpu{i:02d}" for i in range(1, count + 1))}


def _nccl(facts: NodeFacts, *versions: str) -> NodeFacts:
    return replace(facts, versions=replace(facts.versions, nccl_files=versions))


def test_the_minority_is_named_and_the_rest_is_folded():
    fleet = {name: _nccl(facts, "2.27") for name, facts in _fleet(32).items()}
    fleet["gpu32"] = _nccl(fleet["gpu32"], "2.21")
    assert render(drift(fleet), fleet) == "gpu[01-31] ok; gpu32: NCCL 2.21, others 2.27"


def test_nodes_that_are_alike_are_fine():
    fleet = _fleet(32)
    assert drift(fleet) == ()
    assert render((), fleet) == "gpu[01-32] ok"


def test_several_differences_are_a_line_each():
    fleet = _fleet(5)
    fleet["gpu02"] = _nccl(fleet["gpu02"])
    for name in ("gpu04", "gpu05"):
        fleet[name] = replace(
            fleet[name], gpu=replace(fleet[name].gpu, driver=Reading(GpuDriver("560.9", "open")))
        )
    assert render(drift(fleet), fleet).splitlines() == [
        "gpu[01,03] ok",
        "gpu[04-05]: NVIDIA driver 560.9 (open), others 570.1 (open)",
        "gpu02: NCCL absent, others 2.27.3, 2.26.2 (Python)",
    ]


def test_a_tie_is_a_tie():
    fleet = _fleet(4)
    for name in ("gpu03", "gpu04"):
        fleet[name] = _nccl(fleet[name], "2.21")
    found = drift(fleet)
    assert [(d.value, d.nodes, d.tie) for d in found] == [
        ("2.27.3, 2.26.2 (Python)", ("gpu01", "gpu02"), True),
        ("2.21", ("gpu03", "gpu04"), True),
    ]
    assert all(line.endswith("(no majority)") for line in render(found, fleet).splitlines())
    assert "ok" not in render(found, fleet)


def test_a_fact_that_could_not_be_read_has_no_vote_and_is_no_drift():
    fleet = _fleet(3)
    denied = Reading(None, ReadStatus.DENIED, "needs root")
    fleet["gpu02"] = replace(fleet["gpu02"], gpu=replace(fleet["gpu02"].gpu, driver=denied))
    assert drift(fleet) == ()


def test_what_one_node_lacks_is_absent_there():
    fleet = _fleet(3)
    fleet["gpu03"] = replace(fleet["gpu03"], software=replace(fleet["gpu03"].software, packages=Reading(())))
    assert render(drift(fleet), fleet) == "gpu[01-02] ok; gpu03: package rdma-core absent, others 50.0"


def test_kernel_parameters_count_but_not_those_that_name_a_disk():
    fleet = _fleet(3)
    for number, (name, facts) in enumerate(fleet.items()):
        own = (
            f"root=UUID={number}",
            f"boot=UUID={number}",
            f"luks.uuid={number}",
            f"ifname=lan:00:0{number}",
        )
        words = ("BOOT_IMAGE=/vmlinuz", *own, "ro", *(["iommu=pt"] if number else []))
        fleet[name] = replace(facts, system=replace(facts.system, cmdline=Reading(words)))
    assert render(drift(fleet), fleet) == "gpu[02-03] ok; gpu01: kernel parameter iommu absent, others pt"


def test_a_kernel_parameter_that_every_node_has_for_itself_is_its_own():
    fleet = _fleet(5)
    for number, (name, facts) in enumerate(fleet.items()):
        words = ("ro", f"provisioner.node=10.0.0.{number}", f"hugepages={number // 2}")
        fleet[name] = replace(facts, system=replace(facts.system, cmdline=Reading(words)))
    assert {d.fact for d in drift(fleet)} == {"kernel parameter hugepages"}
    # Two nodes cannot tell a setting from a name; what netbooted clusters put there is known.
    two = _fleet(2)
    for number, (name, facts) in enumerate(two.items()):
        words = (
            f"wwid=00:11:22:33:44:{number}",
            f"systemd.machine_id={number}",
            f"rd.iscsi.initiator=iqn.{number}",
        )
        two[name] = replace(facts, system=replace(facts.system, cmdline=Reading(words)))
    assert drift(two) == ()


@pytest.mark.parametrize(("size", "told"), [(2015, False), (1960, False), (1007, True)])
def test_memory_has_a_tolerance(size, told):
    fleet = {
        name: replace(facts, memory=replace(facts.memory, total_bytes=Reading(2015 * 2**30)))
        for name, facts in _fleet(4).items()
    }
    odd = replace(fleet["gpu04"].memory, total_bytes=Reading(size * 2**30))
    fleet["gpu04"] = replace(fleet["gpu04"], memory=odd)
    assert [(d.fact, d.value, d.others) for d in drift(fleet)] == (
        [("memory", "1007 GiB", "2015 GiB")] if told else []
    )


def test_a_login_node_is_no_gpu_node_that_lost_its_gpus():
    fleet = _fleet(4)
    fleet["login"] = replace(_node("login", gpus=0), versions=fleet["gpu01"].versions)
    assert drift(fleet) == ()
    fleet["gpu04"] = _node("gpu04", gpus=0)
    assert [(d.fact, d.value, d.nodes) for d in drift(fleet) if d.fact == "GPUs on the bus"] == [
        ("GPUs on the bus", "absent", ("gpu04",))
    ]


def test_nodes_without_the_gpus_that_the_inventory_expects_are_odd_however_many():
    fleet = _fleet(6, **{name: _node(name, gpus=0) for name in ("gpu05", "gpu06")})
    assert drift(fleet) == ()
    nodes = [Node(name=name, address=name, gpus=8) for name in fleet]
    assert {d.nodes for d in drift(fleet, nodes)} == {("gpu05", "gpu06")}


@pytest.mark.parametrize(
    "names", [("head", "worker"), ("alice", "bob", "carol"), ("gpu-a1f", "gpu-b2c", "gpu-d4e", "n7")]
)
def test_nodes_whose_names_have_nothing_in_common_are_compared_by_their_gpus(names):
    fleet = {name: _node(name) for name in names}
    assert drift(fleet) == ()
    fleet[names[-1]] = _nccl(fleet[names[-1]], "2.21")
    assert ("NCCL", "2.21", (names[-1],)) in {(d.fact, d.value, d.nodes) for d in drift(fleet)}


def test_names_without_a_stem_and_without_gpus_are_alike_by_groups_or_in_a_fleet_of_cpus():
    fleet = {"alice": _node("alice"), "bob": _node("bob")}
    fleet |= {name: _node(name, gpus=0) for name in ("login", "storage")}
    fleet["storage"] = _nccl(fleet["storage"], "2.21")
    assert drift(fleet) == ()
    groups = {"alice": "gpu", "bob": "gpu", "login": "gpu", "storage": "disks"}
    assert {d.nodes for d in drift(fleet, _grouped(fleet, groups)) if d.fact == "GPUs on the bus"} == {
        ("login",)
    }
    del fleet["alice"], fleet["bob"]
    assert {d.nodes for d in drift(fleet)} == {("login",), ("storage",)}


def test_one_gpu_less_is_drift():
    fleet = _fleet(4, gpu02=_node("gpu02", gpus=7))
    assert "gpu02: GPUs on the bus 7 x 10de:2335, others 8 x 10de:2335" in render(drift(fleet), fleet)


def test_kinds_of_gpus_are_compared_apart_and_a_lone_one_is_odd():
    old = {f"gpu{i:02d}": _node(f"gpu{i:02d}", device="20b2") for i in (5, 6)}
    fleet = _fleet(6, **old)
    assert drift(fleet) == ()
    fleet = _fleet(4, gpu04=_node("gpu04", device="20b2"))
    assert drift(fleet)[0].nodes == ("gpu04",)


def _grouped(fleet: dict[str, NodeFacts], groups: dict[str, str]) -> list[Node]:
    return [Node(name=name, address=name, groups=(groups[name],)) for name in fleet]


def _bios(facts: NodeFacts, version: str) -> NodeFacts:
    words = tuple(
        replace(word, value=version if word.name == "bios_version" else word.value)
        for word in facts.versions.firmware
    )
    return replace(facts, versions=replace(facts.versions, firmware=words))


def test_hardware_is_compared_within_groups_and_software_in_all():
    fleet = _fleet(7)
    groups = {name: "new" if name > "gpu04" else "old" for name in fleet}
    fleet = {name: _bios(facts, "3.0" if groups[name] == "new" else "2.3") for name, facts in fleet.items()}
    assert drift(fleet, _grouped(fleet, groups)) == ()
    assert {d.nodes for d in drift(fleet)} == {("gpu05", "gpu06", "gpu07")}
    fleet["gpu06"] = _nccl(_bios(fleet["gpu06"], "2.9"), "2.21")
    assert [(d.fact, d.value, d.others, d.nodes) for d in drift(fleet, _grouped(fleet, groups))] == [
        ("BIOS", "2.9", "3.0", ("gpu06",)),
        ("NCCL", "2.21", "2.27.3, 2.26.2 (Python)", ("gpu06",)),
    ]


def test_a_group_too_small_to_vote_votes_with_the_others():
    fleet = _fleet(5)
    groups = {name: "spare" if name == "gpu05" else "rack1" for name in fleet}
    fleet["gpu05"] = _bios(fleet["gpu05"], "2.9")
    assert [(d.fact, d.nodes) for d in drift(fleet, _grouped(fleet, groups))] == [("BIOS", ("gpu05",))]


def test_what_differs_by_nature_is_not_compared():
    fleet = _fleet(3)
    for number, (name, facts) in enumerate(fleet.items()):
        system = replace(
            facts.system,
            hostname=Reading(name),
            boot_id=Reading(str(number)),
            uptime_s=Reading(float(number)),
        )
        units = Reading((Unit("docker.service", "loaded", "activating" if number else "active", "enabled"),))
        fleet[name] = replace(
            facts, system=system, gathered_at=float(number), services=replace(facts.services, units=units)
        )
    labels = {label.split()[0] for facts in fleet.values() for label in comparable(facts).values}
    assert not labels & {"hostname", "uptime", "boot", "address"}
    assert [d.fact for d in drift(fleet)] == ["service docker"]


def test_a_service_on_its_way_is_not_absent():
    fleet = _fleet(3)
    for name, state in zip(fleet, ("active", "reloading", "activating"), strict=True):
        units = Reading((Unit("docker.service", "loaded", state, "enabled"),))
        fleet[name] = replace(fleet[name], services=replace(fleet[name].services, units=units))
    assert render(drift(fleet), fleet) == "gpu[01-02] ok; gpu03: service docker activating, others active"


def test_a_node_whose_memory_is_not_told_is_compared_in_all_else():
    fleet = _fleet(3)
    for name in fleet:
        fleet[name] = replace(
            fleet[name],
            memory=replace(
                fleet[name].memory,
                total_bytes=Reading(None, ReadStatus.ABSENT) if name == "gpu03" else Reading(1 << 40),
            ),
        )
    fleet["gpu03"] = _nccl(fleet["gpu03"], "2.21")
    assert [d.fact for d in drift(fleet)] == ["NCCL"]


def _interface(name: str, speed: int, pci: str | None = None, master: str | None = None) -> Interface:
    return Interface(name, "up", 9000, "", speed, None, pci, None, master, ())


def test_a_bond_with_a_leg_less_is_drift_and_a_bridge_of_containers_is_not():
    fleet = _fleet(3)
    for name, facts in fleet.items():
        found = (
            _interface("bond0", 100000 if name == "gpu02" else 200000),
            _interface("cni0", 10000 if name == "gpu01" else 20000),
            _interface("eth0", 100000, "0000:41:00.0", "bond0"),
            _interface("veth1", 10000, None, "cni0"),
        )
        fleet[name] = replace(facts, network=replace(facts.network, interfaces=Reading(found)))
    assert render(drift(fleet), fleet) == (
        "gpu[01,03] ok; gpu02: speed of bond0 100000 Mb/s, others 200000 Mb/s"
    )


def test_virtual_functions_that_are_lent_to_pods_are_no_drift():
    fleet = _fleet(3)
    function = replace(_gpu(1), address="0000:41:00.1", physical_function="0000:41:00.0")
    device = RdmaDevice("mlx5_1", "", "28", "MT_838", "CA", function.address, 0, (), ())
    own = replace(device, name="mlx5_0", pci_address="0000:41:00.0")
    for name, facts in fleet.items():
        pci = Pci(Reading((*facts.pci.devices.value, function)))
        devices = (own, device) if name == "gpu02" else (own,)
        fleet[name] = replace(facts, pci=pci, rdma=replace(facts.rdma, devices=Reading(devices)))
    assert [d.fact for d in drift(fleet)] == []


def test_the_fields_of_ibstat_that_equal_nodes_share():
    fleet = _fleet(3)
    for number, (name, facts) in enumerate(fleet.items()):
        # The LID is each port's own, and the node with the subnet manager sets a bit of its capability mask.
        port = RdmaPort(
            1, "ACTIVE", "LinkUp", 400.0, "400 Gb/sec (4X NDR)", "InfiniBand", 12 + number, 5, (), (),
            lmc=1 if name == "gpu02" else 0, capability_mask=0x2651E84A if name == "gpu01" else 0x2651E848,
        )  # fmt: skip
        device = RdmaDevice("mlx5_0", "", "28", "MT_838", "CA", "0000:41:00.0", 0, (), (port,), hw_rev="0")
        fleet[name] = replace(facts, rdma=replace(facts.rdma, devices=Reading((device,))))
    assert render(drift(fleet), fleet) == "gpu[01,03] ok; gpu02: LMC of MT_838 1, others 0"


def test_limits_and_switches_are_said_in_words():
    fleet = _fleet(3)
    for name, soft in zip(fleet, (-1, -1, 8388608), strict=True):
        fleet[name] = replace(
            fleet[name], limits=replace(fleet[name].limits, memlock=Reading(Limit(soft, -1)))
        )
    assert render(drift(fleet), fleet) == "gpu[01-02] ok; gpu03: memlock 8388608, others unlimited"


def test_the_document_says_the_same():
    fleet = _fleet(3)
    fleet["gpu03"] = _nccl(fleet["gpu03"], "2.21")
    document = document_of(HostMap({}), drift(fleet)).document()["drift"]
    assert json.loads(json.dumps(document)) == [
        {
            "fact": "NCCL",
            "value": "2.21",
            "others": "2.27.3, 2.26.2 (Python)",
            "nodes": ["gpu03"],
            "tie": False,
        }
    ]


ONE = _node("one")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["2.19", "2.21", "2.27"]), min_size=2, max_size=9), st.randoms())
def test_the_verdict_does_not_depend_on_the_order_and_never_names_the_majority(
    versions, chance: random.Random
):
    fleet = {f"gpu{i:02d}": _nccl(ONE, version) for i, version in enumerate(versions)}
    found = drift(fleet)
    mixed = list(fleet.items())
    chance.shuffle(mixed)
    said = {(d.value, frozenset(d.nodes), d.tie) for d in found}
    assert said == {(d.value, frozenset(d.nodes), d.tie) for d in drift(dict(mixed))}
    counts = sorted((versions.count(v) for v in set(versions)), reverse=True)
    for deviation in found:
        assert all(fleet[name].versions.nccl == deviation.value for name in deviation.nodes)
        assert deviation.tie == (counts[0] == counts[1])
        assert deviation.tie or len(deviation.nodes) < counts[0]
    assert bool(found) == (len(counts) > 1)
