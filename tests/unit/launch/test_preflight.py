"""The probe before a launch: a real sh on this machine, and judging what nodes answered."""

import os
import sys
from dataclasses import replace

import pytest
from launch_facts import active_ports, facts_of, this_machine

from clusterctl.errors import LaunchError
from clusterctl.facts.base import ReadStatus
from clusterctl.inventory.model import Node
from clusterctl.launch import preflight, readiness
from clusterctl.launch.preflight import Needs
from clusterctl.transport.base import TransportError


@pytest.fixture
def here(tmp_path):
    return this_machine(Node(name="here", address="localhost", socket_ifname="lo"), tmp_path / "launch")


def test_this_machine_answers(here, tmp_path):
    assert here.python == sys.executable
    assert here.torch
    assert here.cores >= 1
    assert (here.interface, here.interface_address) == ("lo", "127.0.0.1")
    assert (tmp_path / "launch").stat().st_mode & 0o777 == 0o700
    assert preflight.judge([here], Needs(torch=True)) == ()


def test_cores_are_the_machines_whatever_a_shell_says_to_openmp(monkeypatch, tmp_path):
    monkeypatch.setenv("OMP_NUM_THREADS", "57")
    monkeypatch.setenv("OMP_THREAD_LIMIT", "57")
    found = this_machine(Node(name="n", address="n"), tmp_path / "launch")
    assert found.cores == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ("session", "cpus many"),
        ("listening", "   0: 0100007F:1F9² 00000000:0000 0A 0"),
        ("rdma", "mlx5_0/rate:400 Gb/sec"),
        ("session", "connection a 1 b x"),
        ("gpu_query", "what is this"),
        ("limits", "Max locked memory         much\n"),
    ],
)
def test_an_answer_that_is_none_is_the_nodes_error(section, text):
    with pytest.raises(LaunchError, match="n gave the launch probe a malformed answer"):
        readiness.of_facts(Node(name="n", address="n"), facts_of({section: text}))


def test_the_processors_are_those_that_are_online_and_allowed():
    def cores(cpus, online):
        texts = {"session": f"cpus {cpus}\n", "cpu": f"/sys/devices/system/cpu/online:{online}\n"}
        return readiness.of_facts(Node(name="n", address="n"), facts_of(texts)).cores

    assert (cores("0-127", "0-3"), cores("2-3", "0-7"), cores("9", "0-7")) == (4, 2, 1)


def test_an_address_of_ipv6_is_not_the_interfaces_address():
    found = "1: lo    inet6 ::1/128\n2: ib0    inet6 fe80::1/64 scope link\n2: ib0    inet 10.1.0.7/16\n"
    texts = {"network": "ib0/operstate:up\nlo/operstate:unknown\n", "addresses": found}
    node = Node(name="n", address="n", socket_ifname="=ib0,ib1")
    ready = readiness.of_facts(node, facts_of(texts))
    assert (ready.interface, ready.interface_address, ready.interfaces) == ("ib0", "10.1.0.7", "ib0 lo")
    missing = readiness.of_facts(node.model_copy(update={"socket_ifname": "ib7"}), facts_of(texts))
    assert (missing.interface, missing.interface_address) == (None, None)


def test_a_folder_that_cannot_be_made_is_a_fault(tmp_path):
    place = tmp_path / "no" / "such" / "place"
    with pytest.raises(TransportError, match=f"^n: cannot make {place}: No such file or directory$"):
        this_machine(Node(name="n", address="n"), place)


@pytest.mark.parametrize(
    ("settings", "change", "needs", "words"),
    [
        ({}, {"mpirun": None}, Needs(mpirun="openmpi"), "Open MPI not found"),
        ({"mpirun": "/opt/mpirun"}, {"mpirun": None}, Needs(mpirun="openmpi"), "(/opt/mpirun)"),
        ({}, {"mpirun_version": "HYDRA build details:"}, Needs(mpirun="openmpi"), "not Open MPI"),
        ({}, {"python": None}, Needs(torch=True), "python3 not found"),
        ({}, {"torch": None}, Needs(torch=True), "torch is not installed"),
        ({}, {"torch": "1.11.0+cu113"}, Needs(torch=True), "torch 1.11.0+cu113 of "),
        ({}, {"perf": None, "core_perf": None}, Needs(perf=True), "all_reduce_perf not found"),
        ({"socket_ifname": "bond0"}, {"interface": None}, Needs(), "network interface bond0 not found"),
    ],
)
def test_what_is_missing_is_named_with_its_node(here, settings, change, needs, words):
    node = Node(name="gpu07", address="gpu07", **settings)
    ready = {
        "mpirun": "/usr/bin/mpirun",
        "mpirun_version": "mpirun (Open MPI) 4.1.4",
        "perf": "/usr/bin/perf",
    }
    (fault,) = preflight.judge([replace(here, node=node, **{**ready, **change})], needs)
    assert (fault.kind.value, fault.node) == ("missing-program", "gpu07")
    assert words in fault.message
    assert fault.hint


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"mpirun_version": "mpirun (Open MPI) 5.0.11"},
            "gpu02: /usr/bin/mpirun is Open MPI 5.0.11, but gpu01",
        ),
        (
            {"mpirun": "/opt/ompi/bin/mpirun"},
            "/opt/ompi/bin/mpirun is Open MPI 4.1.4, but gpu01 launches with",
        ),
        ({"mpirun": "/bin/mpirun"}, None),
    ],
)
def test_a_node_whose_mpi_is_another_is_named(here, change, words):
    both = {"mpirun": "/usr/bin/mpirun", "mpirun_version": "mpirun (Open MPI) 4.1.4"}
    answers = [
        replace(here, node=Node(name=name, address=name), **{**both, **(change if name == "gpu02" else {})})
        for name in ("gpu01", "gpu02")
    ]
    faults = preflight.judge(answers, Needs(mpirun="openmpi"))
    assert [words in fault.message for fault in faults] == ([True] if words else [])
    assert [fault.node for fault in faults] == (["gpu02"] if words else [])


def test_an_answer_cut_short_is_refused():
    whole = facts_of()
    notes = tuple(replace(note, status=ReadStatus.FAILED, exit_status=None) for note in whole.sections)
    for cut in (replace(whole, sections=notes), replace(whole, launch=None)):
        with pytest.raises(LaunchError, match="n1 did not answer the launch probe completely"):
            readiness.of_facts(Node(name="n1", address="n1"), cut)


def test_peers_use_the_fabric_then_the_address_that_ssh_arrived_at(here):
    node = Node(name="n", address="203.0.113.7")
    forwarded = replace(here, node=node, interface_address="10.9.0.1", ssh_accepted_on="10.0.2.15")
    assert forwarded.ssh_address == "10.9.0.1"
    assert replace(forwarded, interface_address=None).ssh_address == "10.0.2.15"
    loopback = replace(forwarded, interface_address="127.0.0.1", ssh_accepted_on="127.3.0.2")
    assert loopback.ssh_address == "203.0.113.7"
    assert replace(loopback, node=Node(name="n", address="127.3.0.2")).ssh_address == "127.3.0.2"


def test_the_nics_are_those_of_the_variable_that_ranks_get():
    node = Node(name="n", address="n", rdma_devices="=mlx5_0", env={"NCCL_IB_HCA": "=mlx5_1"})
    found = readiness.of_facts(node, facts_of({"rdma": active_ports("mlx5_0", "mlx5_1")}))
    assert [port.device for port in found.links.rdma] == ["mlx5_1"]


def test_slots_are_the_inventorys_else_gpus_else_cores(here):
    def slots(**settings):
        return replace(here, gpus=4, cores=16, node=Node(name="n", address="n", **settings)).slots

    assert (slots(slots=3), slots(gpus=8), slots(), slots(gpus=0)) == (3, 8, 4, 16)


def test_an_interface_that_is_only_excluded_is_refused():
    with pytest.raises(LaunchError, match="only excludes an interface"):
        preflight.interface_of(Node(name="n", address="n", socket_ifname="^docker0"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"srun": None}, "srun not found"),
        ({"slurm_nodes": ()}, "gets no answer from slurmctld"),
        ({"slurm_nodes": ("gpu01", "gpu03")}, "gpu02: Slurm has no node of this name; its nodes: gpu[01,03]"),
    ],
)
def test_slurm_must_have_the_nodes_under_the_inventorys_names(here, change, words):
    first = {"srun": "/usr/bin/srun", "slurm_nodes": ("gpu01", "gpu02"), **change}
    answers = [
        replace(here, node=Node(name="gpu01", address="gpu01"), **first),
        replace(here, node=Node(name="gpu02", address="gpu02")),
    ]
    faults = preflight.judge(answers, Needs(srun=True))
    assert [words in fault.message for fault in faults] == ([True] if words else [])


def test_torches_that_differ_are_told_with_their_nodes(here):
    other = [replace(here, node=Node(name=f"n{i}", address="n"), torch=f"2.{i // 2}") for i in range(4)]
    assert preflight.unlike_torch(other[:2]) is None
    assert preflight.unlike_torch(other).endswith(": 2.0 on n[0-1]; 2.1 on n[2-3]")
