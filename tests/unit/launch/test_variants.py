"""What ``--compare`` may name, and what is refused before a node is contacted."""

import pytest

from clusterctl.cli.bench import compare as bench_compare
from clusterctl.errors import ClusterctlError, UsageError
from clusterctl.inventory.model import Node
from clusterctl.launch.identity import SHOWN
from clusterctl.launch.interleave import request_of
from clusterctl.launch.plan import plan
from clusterctl.launch.readiness import assumed
from clusterctl.launch.request import Request
from clusterctl.launch.variants import Variant, parse_variants, require_reader, without_effect


@pytest.mark.parametrize(
    ("text", "variants"),
    [
        ("nccl,ccore", (Variant("nccl", "nccl"), Variant("ccore", "ccore"))),
        (
            "gdr=0,gdr=2",
            (
                Variant("gdr=0", None, (("NCCL_NET_GDR_LEVEL", "0"),)),
                Variant("gdr=2", None, (("NCCL_NET_GDR_LEVEL", "2"),)),
            ),
        ),
        (
            "default, NCCL_ALGO=Ring",
            (Variant("default"), Variant("NCCL_ALGO=Ring", None, (("NCCL_ALGO", "Ring"),))),
        ),
        (
            "nccl,nccl+LIGHT_2D_ALLREDUCE=1+LIGHT_TOPK_ALLREDUCE=1",
            (
                Variant("nccl", "nccl"),
                Variant(
                    "nccl+LIGHT_2D_ALLREDUCE=1+LIGHT_TOPK_ALLREDUCE=1", "nccl",
                    (("LIGHT_2D_ALLREDUCE", "1"), ("LIGHT_TOPK_ALLREDUCE", "1")),
                ),
            ),
        ),
        (
            "nccl,nccl+ccore+CCORE_NCCL=0",
            (Variant("nccl", "nccl"), Variant("nccl+ccore+CCORE_NCCL=0", "nccl+ccore", (("CCORE_NCCL", "0"),))),
        ),
        ("NAME=,NAME=a=b", (Variant("NAME=", None, (("NAME", ""),)), Variant("NAME=a=b", None, (("NAME", "a=b"),)))),
    ],
)  # fmt: skip
def test_variants_are_libraries_and_variables(text, variants):
    assert parse_variants(text) == variants


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is not a library"),
        ("nccl", "needs at least two variants"),
        ("nccl,nccl", "'nccl' twice"),
        ("gdr=0,NCCL_NET_GDR_LEVEL=0", "twice"),
        (
            "nccl,mpi",
            "accl, acspeed, aiacc, horovod, lightcc), a mechanism (plain, 2d, topk) or NAME=VALUE",
        ),
        ("nccl,nccl+gloo", "'gloo' is not a library"),
        ("nccl,ccore+nccl", "'nccl' is not a library"),
        ("gdr=9,gdr=2", "invalid GDR level '9'"),
        ("A-B=1,A=2", "'A-B' is not a valid name"),
        ("RANK=1,RANK=2", "RANK is set by the launch itself"),
        ("MASTER_PORT=1,MASTER_PORT=2", "MASTER_PORT is set by the launch itself"),
        ("HF_TOKEN=hunter2,HF_TOKEN=b", "HF_TOKEN looks like a secret"),
        ("gloo+NCCL_ALGO=Ring,gloo", "NCCL_ALGO is read by nccl, not by gloo"),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(ClusterctlError) as refused:
        parse_variants(text)
    assert words in refused.value.message
    assert "hunter2" not in refused.value.message
    assert refused.value.hint


def test_a_variable_of_another_library_is_refused_once_the_library_is_known():
    require_reader("nccl", {"NCCL_NET_GDR_LEVEL": "0", "ANYTHING": "1"})
    with pytest.raises(ClusterctlError, match="read by nccl, not by ccore"):
        require_reader("ccore", {"NCCL_NET_GDR_LEVEL": "0"})


def test_what_a_single_node_cannot_show():
    environment = {"NCCL_NET_GDR_LEVEL": "0", "NCCL_ALGO": "Ring"}
    assert without_effect(environment, 1) == ["NCCL_NET_GDR_LEVEL"]
    assert without_effect(environment, 2) == []


def test_a_variants_variables_win_over_all_others():
    node = Node(name="a", address="a", slots=1, env={"NCCL_ALGO": "Tree", "NCCL_IB_HCA": "mlx5_1"})
    request = Request(
        None, {}, None, None, "nccl", "openmpi", None, 60.0,
        environment=(("NCCL_ALGO", "Ring"), ("NCCL_IB_HCA", "mlx5_0"), ("NCCL_DEBUG", "WARN")),
    )  # fmt: skip
    made = plan(request, [assumed(node)], SHOWN)
    (launch,) = made.launches()
    env = dict(launch.env)
    assert (env["NCCL_ALGO"], env["NCCL_IB_HCA"], env["NCCL_DEBUG"]) == ("Ring", "mlx5_0", "WARN")


def test_repeats_without_variants_are_one_variant():
    assert bench_compare.chosen(None, None, "nccl") == ((), 1)
    assert bench_compare.chosen(None, 1, None) == ((), 1)
    assert bench_compare.chosen(None, 5, None) == ((Variant("default"),), 5)
    assert bench_compare.chosen("gdr=0,gdr=2", None, "nccl")[1] == 5
    with pytest.raises(UsageError, match="--compare and --library both name libraries"):
        bench_compare.chosen("nccl,ccore", None, "nccl")


@pytest.mark.parametrize(("proving", "level"), [(False, "VERSION"), (True, "INFO")])
def test_nccl_on_one_node_logs_what_it_reads_if_a_variant_sets_variables(proving, level):
    node = Node(name="a", address="a", slots=1)
    request = Request(None, {}, None, None, "nccl", "openmpi", None, 60.0, proving=proving)
    (launch,) = plan(request, [assumed(node)], SHOWN).launches()
    env = dict(launch.env)
    assert env["NCCL_DEBUG"] == level
    assert env.get("NCCL_DEBUG_SUBSYS") == ("INIT,ENV" if proving else None)


def test_every_variant_of_collective_core_runs_the_program_that_reports_settings():
    variants = parse_variants("ccore,ccore+CCORE_2D=0")
    plain = Request(None, {}, None, None, None, "openmpi", None, 60.0)
    node = Node(name="a", address="a", slots=1)
    plans = [plan(request_of(plain, one, variants), [assumed(node)], SHOWN) for one in variants]
    assert [made.program.torch for made in plans] == [True, True]


def test_collective_core_reads_names_of_other_libraries():
    require_reader("ccore", {"LIGHT_2D_ALLREDUCE": "0", "HOROVOD_AUTOTUNE": "1"})
    require_reader("aiacc", {"NCCL_ALGO": "Ring", "AIACC_FASTTUNING": "0"})
    with pytest.raises(ClusterctlError, match="read by lightcc, not by gloo"):
        require_reader("gloo", {"LIGHT_2D_ALLREDUCE": "0"})
