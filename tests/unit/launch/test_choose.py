"""Launcher, library, program and environment, chosen from what the nodes answered."""

from dataclasses import replace

import pytest

from clusterctl.benchmarks.training import Training
from clusterctl.errors import ArtifactError, LaunchError, UsageError
from clusterctl.inventory.model import Node
from clusterctl.launch import choose
from clusterctl.launch.identity import LaunchIdentity
from clusterctl.launch.launchers.openmpi import OpenMpi
from clusterctl.launch.plan import launch
from clusterctl.launch.plan import plan as planned
from clusterctl.launch.preflight import Readiness
from clusterctl.launch.request import Request

READY = {
    "host": "h", "uid": 0, "cores": 4, "gpus": 0, "interface": None, "interface_address": None, "interfaces": "",
    "ssh_accepted_on": None, "ssh_port": 22, "mpirun": "/usr/bin/mpirun",
    "mpirun_version": "mpirun (Open MPI) 4.1.4", "python": "/usr/bin/python3", "python_version": "3.11",
    "torch": "2.4", "perf": None, "core_perf": None, "ports": frozenset(), "host_keys": (), "identity": None,
    "known_hosts": None,
}  # fmt: skip


def ready(name="n1", *, found=None, **settings):
    node = Node(name=name, address=f"{name}.example", **settings)
    return Readiness(node=node, **{**READY, "host": name, **(found or {})})


def plan(answers, np, map_by="slot", chosen="gloo", timeout_s=60.0, identity=None, number=0, **more):
    return launch(
        answers, launcher=OpenMpi(), library=chosen, np=np, map_by=map_by, program=("p",), timeout_s=timeout_s,
        identity=identity or LaunchIdentity.new("t0ken", "f00d"), number=number, **more,
    )  # fmt: skip


def test_a_machine_without_mpi_starts_its_ranks_itself():
    here = ready(connection="local", found={"mpirun": None})
    assert choose.launcher(None, [here]).name == "local"
    assert choose.launcher(None, [ready(connection="local")]).name == "openmpi"
    assert choose.launcher(None, [ready(found={"mpirun": None})]).name == "openmpi"


def test_open_mpi_is_launched_by_its_version():
    five = ready(found={"mpirun_version": "mpirun (Open MPI) 5.0.11"})
    assert choose.launcher("openmpi", [five]) == OpenMpi(5)
    assert choose.launcher(None, [ready()]) == OpenMpi(4)


def test_a_launcher_that_cannot_serve_is_refused():
    with pytest.raises(UsageError):
        choose.launcher("local", [ready("n1"), ready("n2")])
    assert choose.launcher("local", [ready("n1")]).name == "local"


@pytest.mark.parametrize(
    ("known", "names"),
    [
        (choose.known_launcher, ("openmpi", "mpich", "torchrun", "srun", "local")),
        (choose.known_library, ("nccl", "gloo", "ccore", "nccl+ccore")),
        (choose.known_mapping, ("slot", "node")),
    ],
)
def test_only_names_that_there_are_pass(known, names):
    assert tuple(known(name) for name in names) == names
    for other in ("prterun", "mpi", "", "SLOT"):
        with pytest.raises(UsageError):
            known(other)


def test_the_library_follows_the_hardware():
    gpu = ready(found={"gpus": 8})
    core = ready(found={"core_perf": "/c/all_reduce_perf"})
    assert choose.library(None, [gpu, gpu], collective=True) == "nccl"
    assert choose.library(None, [gpu, ready()], collective=True) == "gloo"
    assert choose.library(None, [core, core], collective=False) == "ccore"
    assert choose.library(None, [ready(all_reduce_perf="/opt/p")], collective=True) == "ccore"
    assert choose.library("gloo", [gpu], collective=True) == "gloo"


def test_a_node_that_lost_its_gpus_does_not_turn_the_run_into_one_of_cpus():
    whole, lost = ready("n1", gpus=8, found={"gpus": 8}), ready("n2", gpus=8)
    with pytest.raises(LaunchError, match="n2: the inventory lists GPUs"):
        choose.library(None, [whole, lost], collective=True)
    assert choose.library("gloo", [whole, lost], collective=True) == "gloo"
    assert choose.library("nccl", [whole, lost], collective=True) == "nccl"
    assert choose.library(None, [ready(gpus=0)], collective=True) == "gloo"


def test_a_collective_uses_a_binary_where_all_nodes_have_it_else_torch():
    nccl = ready(found={"gpus": 8, "perf": "/usr/bin/all_reduce_perf"})
    bare = ready("n2", found={"gpus": 8})
    core = ready(found={"core_perf": "/c/all_reduce_perf", "perf": "/usr/bin/all_reduce_perf"})
    named = ready(all_reduce_perf="/opt/p", found={"perf": "/opt/p", "core_perf": "/c/p"})
    archive = "/tmp/d/workloads.pyz"
    assert choose.collective_program("all_reduce", "nccl", [nccl, nccl], archive).words == (
        "/usr/bin/all_reduce_perf",
    )
    assert choose.collective_program("all_reduce", "ccore", [core], archive).words == ("/c/all_reduce_perf",)
    assert choose.collective_program("all_reduce", "ccore", [named], archive).words == ("/opt/p",)
    torch = choose.collective_program("all_reduce", "nccl", [nccl, bare], archive)
    assert torch.words == (
        "/usr/bin/python3",
        archive,
        "collective",
        "all_reduce",
        "--backend",
        "nccl",
        "-G",
        "auto",
    )
    gloo = choose.collective_program("all_reduce", "gloo", [core], archive)
    assert gloo.torch
    assert choose.told_of_deadline(gloo, 90.0).words == (*gloo.words, "-T", "90")
    tests = choose.collective_program("all_reduce", "nccl", [nccl, nccl], archive)
    assert choose.told_of_deadline(tests, 90.0) == tests


@pytest.mark.parametrize(
    ("library", "gpus", "graph"),
    [
        ("nccl", 8, True), ("ccore", 8, True), ("nccl+ccore", 8, True), ("gloo", 8, False), ("accl", 8, False),
        ("ccore", 0, False),
    ],
)  # fmt: skip
def test_libraries_are_compared_by_cuda_graphs_where_they_can_be_captured(library, gpus, graph):
    program = choose.comparable_program("all_reduce", library, [ready(found={"gpus": gpus})], "a")
    assert (program.words[-2:] == ("-G", "auto")) is graph


def test_collective_core_alone_is_timed_by_cuda_graphs_on_gpus():
    """The words of every rank of ``bench --library ccore`` and of each variant of ``bench --compare nccl,ccore``."""
    gpu = ready(found={"gpus": 8})
    alone = Request(None, {}, 2, None, "ccore", None, None, 60.0)
    for asked in (
        alone,
        replace(alone, library="nccl", same_program=True),
        replace(alone, same_program=True),
    ):
        chosen = planned(asked, [gpu], LaunchIdentity.new("t", "f"))
        (only,) = chosen.launches()
        words = " ".join(only.program)
        assert f"collective all_reduce --backend {chosen.library} -G auto" in words


def test_a_named_binary_that_is_absent_is_asked_for_by_the_preflight_not_replaced():
    absent = ready(all_reduce_perf="/opt/p")
    assert choose.collective_program("all_reduce", "ccore", [absent], "a").perf


def test_paths_that_differ_between_nodes_are_refused():
    with pytest.raises(LaunchError, match="path of python differs"):
        choose.torch_program([ready("n1"), ready("n2", found={"python": "/opt/python"})], "a", "training")


def test_cores_are_taken_in_turn_and_overbooked_while_counted_slots_are_not():
    cores = [ready("n1"), ready("n2")]
    assert choose.mapping(None, cores) == "node"
    assert choose.mapping(None, [ready(slots=1)]) == "slot"
    assert [p.ranks for p in plan(cores, 2, "node").placements] == [1, 1]
    assert [p.ranks for p in plan(cores, 20, "node").placements] == [10, 10]
    with pytest.raises(LaunchError, match="2 slots"):
        plan([ready("n1", slots=1), ready("n2", slots=1)], 3)


def test_ranks_share_gpus_if_they_may():
    one_gpu = [ready(found={"gpus": 1})]
    with pytest.raises(LaunchError, match="2 ranks, but the nodes have 1 slot ") as refused:
        plan(one_gpu, 2)
    assert "--oversubscribe" in refused.value.hint
    made = plan(one_gpu, 4, oversubscribe=True)
    assert (made.np, made.slots) == (4, [("n1", 4)])
    assert dict(made.env)["CLUSTERCTL_SHARE_GPUS"] == "1"
    assert "CLUSTERCTL_SHARE_GPUS" not in dict(plan(one_gpu, 1).env)


def test_too_many_ranks_are_reported_before_missing_programs():
    """The nodes answer from recorded facts: a machine with one GPU, whose torch and mpirun are missing."""
    bare = [ready(found={"gpus": 1, "torch": None, "mpirun": None})]
    asked = Request(None, {}, 2, None, "gloo", None, None, 60.0)
    identity = LaunchIdentity.new("t0ken", "f00d")
    with pytest.raises(LaunchError, match="2 ranks, but the nodes have 1 slot ") as refused:
        planned(asked, bare, identity)
    assert "--oversubscribe to put several ranks on a GPU" in refused.value.hint
    for library in ("gloo", "ccore"):
        shared = replace(asked, library=library, oversubscribe=True)
        found = planned(shared, [ready(found={"gpus": 1})], identity)
        assert found.unmet() == ()
        assert [launch.np for launch in found.launches()] == [2]


def test_a_collective_of_one_rank_is_refused_and_a_smoke_test_gets_two():
    asked = Request(None, {}, None, None, "gloo", None, None, 60.0)
    identity = LaunchIdentity.new("t0ken", "f00d")
    for answer, wish in (
        (ready(found={"gpus": 1}), "the GPU: -np 2 --oversubscribe"),
        (ready(slots=1), "-np 2"),
    ):
        with pytest.raises(LaunchError, match="all_reduce needs at least two ranks") as refused:
            planned(asked, [answer], identity).require_partner()
        assert wish in refused.value.hint
        smoke = planned(replace(asked, pair_if_alone=True), [answer], identity)
        smoke.require_partner()
        assert [launch.np for launch in smoke.launches()] == [2]
    planned(asked, [ready("n1", slots=1), ready("n2", slots=1)], identity).require_partner()


def test_many_ranks_on_few_cores_are_announced():
    """Two cores with 200 ranks are allowed, as for a test of a launcher."""
    found = planned(
        Request(None, {}, 200, None, "gloo", None, None, 60.0), [ready()], LaunchIdentity.new("t", "f")
    )
    assert found.notes() == ("200 ranks share 4 cores, so the figures are low and not meaningful",)
    gpu = [ready(found={"gpus": 1})]
    shared = Request(None, {}, 2, None, "gloo", None, None, 60.0, oversubscribe=True)
    (note,) = planned(shared, gpu, LaunchIdentity.new("t", "f")).notes()
    assert note == "2 ranks share 1 GPU, so the figures are not those of as many GPUs"


@pytest.mark.parametrize(
    ("settings", "gpus", "words"),
    [
        ({"default_precision": True}, 1, "resnet50 trains in fp32"),
        ({"default_precision": True}, 1, "--precision amp-bf16 --channels-last uses them"),
        ({"default_precision": True, "channels_last": True}, 1, "; --precision amp-bf16 uses them"),
        ({"default_precision": True, "model": "bert-large"}, 1, "; --precision amp-bf16 uses them"),
        ({"default_precision": False}, 1, ""),
        ({"default_precision": True}, 0, ""),
    ],
)
def test_a_training_in_the_default_precision_is_noted_on_gpus(settings, gpus, words):
    training = Training(**{"model": "resnet50", **settings})
    asked = Request(training, {}, 1, None, "gloo", None, None, 60.0)
    notes = planned(asked, [ready(found={"gpus": gpus})], LaunchIdentity.new("t", "f")).notes()
    assert [words in note for note in notes] == ([True] if words else [])


def test_ccore_without_collective_core_and_torch_asks_for_the_smaller_one():
    """Its own programs measure host memory without torch."""
    asked = Request(None, {}, 2, None, "ccore", None, "local", 60.0)
    bare = ready(found={"torch": None, "core_perf": None})
    (fault,) = planned(asked, [bare], LaunchIdentity.new("t0ken", "f00d")).unmet()
    assert fault.message.startswith("n1: collective_core is not installed for ")
    assert "run clusterctl bootstrap INVENTORY --only python; or choose --library gloo" in fault.hint
    empty = ready(found={"torch": None, "core_perf": None, "python": None})
    (fault,) = planned(asked, [empty], LaunchIdentity.new("t0ken", "f00d")).unmet()
    assert fault.message == "n1: python3 not found, which would have collective_core"


def test_nccl_without_a_gpu_is_refused_before_a_rank_starts():
    asked = Request(None, {}, 2, None, "nccl", None, None, 60.0)
    (fault,) = planned(asked, [ready()], LaunchIdentity.new("t0ken", "f00d")).unmet()
    assert fault.message == "n1: --library nccl needs GPUs, and nvidia-smi finds none"
    assert "--library gloo" in fault.hint


def test_a_type_that_the_program_lacks_is_refused_before_a_rank_starts():
    identity = LaunchIdentity.new("t0ken", "f00d")
    asked = Request(None, {"op": "avg"}, 2, None, "gloo", None, None, 60.0)
    with pytest.raises(LaunchError, match="--op avg cannot be measured: the torch program") as refused:
        planned(asked, [ready()], identity)
    assert refused.value.hint.startswith("choose from: sum, prod, max, min;")
    perf = [ready(found={"core_perf": "/c/all_reduce_perf"}, all_reduce_perf="/c/all_reduce_perf")]
    own = replace(asked, library="ccore", sweep={"op": "avg", "datatype": "uint32"})
    (launched,) = planned(own, [replace(perf[0], perf="/c/all_reduce_perf")], identity).launches()
    assert launched.program[-4:] == ("-d", "uint32", "-o", "avg")


def test_nccl_behind_collective_core_is_preloaded_into_the_ranks():
    gpu = {"gpus": 1, "core_perf": "/site/collective_core/bin/all_reduce_perf", "perf": "/n/all_reduce_perf"}
    made = plan([ready(found=gpu)], 1, chosen="nccl+ccore")
    env = dict(made.env)
    assert env["LD_PRELOAD"] == "/site/collective_core/lib/libcollective_core_nccl.so"
    assert (env["CCORE_NCCL_REPORT"], env["NCCL_DEBUG"]) == ("fd:2", "VERSION")
    assert "LD_PRELOAD" not in dict(plan([ready(found=gpu)], 1, chosen="nccl").env)
    words = choose.collective_program("all_reduce", "nccl+ccore", [ready(found=gpu)], "a").words
    assert words == ("/n/all_reduce_perf",)
    # The program calls NCCL; on GPUs collective_core's own program would measure host memory.
    assert "nccl" in choose.comparable_program("all_reduce", "nccl+ccore", [ready(found=gpu)], "a").words
    assert choose.collective_program("all_reduce", "ccore", [ready(found=gpu)], "a").torch


def test_this_machine_launches_even_when_it_is_listed_last():
    first, second = choose.launching_first([ready("n1"), ready("here", connection="local")])
    assert (first.node.name, second.node.name) == ("here", "n1")


def test_the_environment_says_where_ranks_meet():
    made = plan([ready("n1", slots=1), ready("n2", slots=1)], 2)
    env = dict(made.env)
    assert env["MASTER_ADDR"] == env["CCORE_ROOT_ADDR"] == "n1.example"
    assert 20000 <= int(env["MASTER_PORT"]) < 32000
    assert env["OMP_NUM_THREADS"] == "4"
    assert env["CCORE_JOB_SECRET"] is None
    assert len(dict(made.secrets)["CCORE_JOB_SECRET"]) == 32
    alone = dict(plan([ready("n1")], 1).env)
    assert (alone["MASTER_ADDR"], alone["GLOO_SOCKET_IFNAME"]) == ("127.0.0.1", "lo")


@pytest.mark.parametrize(
    ("library", "variable", "said"),
    [
        ("nccl", "NCCL_SOCKET_IFNAME", "=eth0,eth1"),
        ("ccore", "CCORE_SOCKET_IFNAME", "=eth0,eth1"),
        ("gloo", "GLOO_SOCKET_IFNAME", "eth0,eth1"),
    ],
)
def test_the_library_gets_all_interfaces_as_the_inventory_names_them(library, variable, said):
    on_eth0 = {"interface": "eth0", "interface_address": "10.0.0.1"}
    made = plan([ready(n, socket_ifname="=eth0,eth1", found=on_eth0) for n in "ab"], 2, "node", library)
    assert dict(made.env)[variable] == said
    # So do Open MPI's own connections, without the marks, which it does not understand.
    assert made.argv[made.argv.index("btl_tcp_if_include") + 1] == "eth0,eth1"


@pytest.mark.parametrize("port", ["http", "0", "65536", "²", "", "9" * 5000])
def test_a_port_of_the_inventory_that_is_none_is_refused(port):
    with pytest.raises(LaunchError, match="MASTER_PORT"):
        plan([ready("n1", env={"MASTER_PORT": port})], 1)


def test_a_port_in_use_is_not_chosen():
    identity = LaunchIdentity("t", "m", "s", 20001)

    def ports(taken, number=0):
        made = plan([ready("n1", found={"ports": frozenset(taken)})], 1, identity=identity, number=number)
        return [dict(made.env)[name] for name in ("MASTER_PORT", "CCORE_ROOT_PORT")]

    assert ports({20001}) == ["20002", "20003"]
    assert ports({20002}) == ["20001", "20003"]
    # The next launch of a run gets other ports: a rank of the last one may still hold its own.
    assert ports((), number=1) == ["20003", "20004"]
    last = LaunchIdentity("t", "m", "s", 31999)
    assert last.ports((), 0) == (31999, 20000)


def test_only_the_identity_differs_between_two_runs_of_a_launch():
    answers = [ready("n1", slots=1), ready("n2", slots=1)]
    first, second = (
        plan(answers, 2, identity=LaunchIdentity(t, t, t, 20000)) for t in ("1st-run", "2nd-run")
    )
    assert first != second
    assert [word.replace("1st-run", "2nd-run") for word in first.argv] == list(second.argv)
    assert "1st-run" not in " ".join(value or "" for _, value in first.env)
    assert LaunchIdentity.new("t", "m") != LaunchIdentity.new("t", "m")


def test_the_inventorys_environment_wins_and_its_secrets_are_hidden():
    made = plan([ready("n1", env={"NCCL_ALGO": "Ring", "HF_TOKEN": "hunter2", "OMP_NUM_THREADS": "3"})], 1)
    assert dict(made.env)["NCCL_ALGO"] == "Ring"
    assert dict(made.env)["OMP_NUM_THREADS"] == "3"
    assert dict(made.env)["HF_TOKEN"] is None
    assert dict(made.secrets)["HF_TOKEN"] == "hunter2"
    with pytest.raises(ArtifactError):
        plan([ready("n1", slots=1, env={"A": "1"}), ready("n2", slots=1, env={"A": "2"})], 2)


def test_nccl_says_enough_for_the_proof_where_it_joins_nodes_and_the_inventory_wins():
    both = dict(plan([ready("a"), ready("b")], 2, "node", "nccl").env)
    assert (both["NCCL_DEBUG"], both["NCCL_DEBUG_FILE"]) == ("INFO", "/dev/stderr")
    assert {"INIT", "NET"} <= set(both["NCCL_DEBUG_SUBSYS"].split(","))
    assert "TUNING" not in both["NCCL_DEBUG_SUBSYS"]
    alone = dict(plan([ready("a")], 1, "slot", "nccl").env)
    assert alone["NCCL_DEBUG"] == "VERSION"
    assert "NCCL_DEBUG_FILE" not in alone
    quiet = dict(plan([ready(name, env={"NCCL_DEBUG": "WARN"}) for name in "ab"], 2, "node", "nccl").env)
    assert quiet["NCCL_DEBUG"] == "WARN"
    assert "NCCL_DEBUG" not in dict(plan([ready("a"), ready("b")], 2, "node", "gloo").env)
