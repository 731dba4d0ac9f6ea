"""Placement of ranks, settings that nodes must share, and the variables that ranks get."""

from __future__ import annotations

import pytest

from clusterctl.artifacts import ranks
from clusterctl.errors import ArtifactError
from clusterctl.inventory import interfaces
from clusterctl.inventory.model import Node
from clusterctl.launch import environment
from clusterctl.launch.environment import Communication, variables


def node(name: str, **settings: object) -> Node:
    return Node.model_validate({"name": name, "address": name, **settings})


GPUS = (node("gpu1", gpus=8), node("gpu2", gpus=8), node("gpu3", gpus=8, slots=4))


@pytest.mark.parametrize(
    ("np", "hosts"),
    [
        (None, (("gpu1", 8), ("gpu2", 8), ("gpu3", 4))),
        (20, (("gpu1", 8), ("gpu2", 8), ("gpu3", 4))),
        (16, (("gpu1", 8), ("gpu2", 8))),
        (9, (("gpu1", 8), ("gpu2", 8))),
        (1, (("gpu1", 8),)),
    ],
)
def test_ranks_fill_nodes_in_order(np: int | None, hosts: tuple[tuple[str, int], ...]) -> None:
    assert ranks.place(GPUS, np) == ranks.RankPlacement(np or 20, hosts)


def test_slots_come_from_the_inventory_then_from_what_was_found() -> None:
    assert ranks.slots_of(node("a", gpus=8, slots=2), {"a": 4}) == 2
    assert ranks.slots_of(node("a", gpus=8), {"a": 4}) == 8
    assert ranks.slots_of(node("a", gpus=0), {"a": 4}) == 4
    with pytest.raises(ArtifactError, match="the number of ranks for a"):
        ranks.slots_of(node("a"))


@pytest.mark.parametrize(
    ("nodes", "np", "reason"),
    [
        (GPUS, 21, r"-np asks for 21 ranks, but gpu\[1-3\] has 20 slots"),
        (GPUS, 0, "-np must be at least 1, not 0"),
        ((), 1, "no node"),
    ],
)
def test_impossible_placements_are_refused(nodes: tuple[Node, ...], np: int, reason: str) -> None:
    with pytest.raises(ArtifactError, match=reason):
        ranks.place(nodes, np)


def test_what_one_line_says_once_must_be_the_same_everywhere() -> None:
    assert ranks.agreed((node("a", socket_ifname="x"), node("b", socket_ifname="x")), "socket_ifname") == "x"
    nodes = (node("n1", socket_ifname="x"), node("n2", socket_ifname="x"), node("n3"))
    with pytest.raises(ArtifactError) as caught:
        ranks.agreed(nodes, "socket_ifname")
    assert caught.value.message == "socket_ifname differs between nodes: x on n[1-2]; unset on n3"
    assert ranks.agreed_env((node("a", env={"A": "1"}), node("b", env={"A": "1"}))) == {"A": "1"}
    with pytest.raises(ArtifactError, match=r"env\.A differs between nodes: 1 on a; 2 on b"):
        ranks.agreed_env((node("a", env={"A": "1"}), node("b", env={"A": "2"})))
    with pytest.raises(ArtifactError, match=r"env\.B differs between nodes: unset on a; 2 on b"):
        ranks.agreed_env((node("a"), node("b", env={"B": "2"})))


def test_what_is_not_set_is_not_said() -> None:
    assert variables(Communication()) == {}


def test_each_library_gets_its_own_interface_variable() -> None:
    def names(library: environment.Library) -> dict[str, str]:
        found = interfaces.parse("=eth0")
        return variables(Communication(library=library, interfaces=found, rdma_devices="mlx5_0"))

    assert names("nccl") == {"NCCL_SOCKET_IFNAME": "=eth0", "NCCL_IB_HCA": "mlx5_0"}
    assert names("gloo") == {"GLOO_SOCKET_IFNAME": "eth0"}
    assert names("ccore") == {"CCORE_SOCKET_IFNAME": "=eth0"}


LEVELS = ("options", "free", "settings", "chosen")


@pytest.mark.parametrize("highest", range(len(LEVELS)))
def test_each_level_has_precedence_over_all_below_it_and_over_forwarding(highest: int) -> None:
    given = {level: {"NCCL_DEBUG": level, level.upper(): level} for level in LEVELS[highest:]}
    found = dict(environment.build(**given, forward=("NCCL_DEBUG", "PATH")).variables)
    assert found["NCCL_DEBUG"] == LEVELS[highest]
    assert [found[level.upper()] for level in LEVELS[highest:]] == list(LEVELS[highest:])
    assert found["PATH"] is None


def test_a_forwarded_variable_keeps_a_value_that_is_set() -> None:
    found = environment.build(free={"PATH": "/bin", "X": "1"}, forward=("LD_LIBRARY_PATH", "PATH"))
    assert found.variables == (("PATH", "/bin"), ("X", "1"), ("LD_LIBRARY_PATH", None))


def test_a_secret_has_no_value_among_the_variables() -> None:
    found = environment.build(free={"HF_TOKEN": "hunter2", "NCCL_ALGO": "Ring"})
    assert found.variables == (("HF_TOKEN", None), ("NCCL_ALGO", "Ring"))
    assert found.secrets == (("HF_TOKEN", "hunter2"),)


def test_more_devices_than_nccl_reads_are_refused_at_every_level() -> None:
    for level in LEVELS:
        with pytest.raises(ArtifactError, match="NCCL_IB_HCA lists 33 devices"):
            environment.build(**{level: {"NCCL_IB_HCA": "^=" + "a," * 32 + "b"}})


def test_every_light_variable_in_the_guides_order() -> None:
    settings = Communication(
        two_d=True,
        intra_size=8,
        hierarchical_threshold_bytes=1 << 30,
        top_k=True,
        top_k_ratio=0.01,
        top_k_threshold_bytes=1 << 20,
        top_k_fp16=False,
    )
    assert list(variables(settings, np=16).items()) == [
        ("LIGHT_INTRA_SIZE", "8"),
        ("LIGHT_2D_ALLREDUCE", "1"),
        ("LIGHT_HIERARCHICAL_THRESHOLD", "1073741824"),
        ("LIGHT_TOPK_ALLREDUCE", "1"),
        ("LIGHT_TOPK_RATIO", "0.01"),
        ("LIGHT_TOPK_THRESHOLD", "1048576"),
        ("LIGHT_TOPK_FP16", "0"),
    ]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"gdr_level": "FAR"}, "GDR level"),
        ({"gdr_level": "9"}, "GDR level"),
        ({"debug": "LOUD"}, "NCCL_DEBUG"),
        ({"gid_index": -1}, "GID index -1"),
        ({"intra_size": 0}, "group size must be at least 1"),
        ({"two_d": True, "intra_size": 6}, "16 ranks do not divide into groups of 6"),
        ({"top_k": True, "top_k_ratio": 0.0}, "top-k ratio"),
        ({"top_k": True, "top_k_ratio": 1.5}, "top-k ratio"),
        ({"library": "gloo", "two_d": True}, "not to gloo"),
        ({"library": "ccore", "fusion_threshold_bytes": 0}, "not to ccore"),
        ({"library": "gloo", "gdr_level": "PXB"}, "no GPUDirect RDMA"),
        ({"library": "gloo", "interfaces": interfaces.parse("^lo")}, "cannot handle the exclusion"),
    ],
)
def test_contradictions_are_refused(settings: dict, reason: str) -> None:
    with pytest.raises(ArtifactError, match=reason):
        variables(Communication(**settings), np=16)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("NCCL_PROTOS", "NCCL_PROTO"),
        ("NCCL_SOCKET_IFACE", "NCCL_SOCKET_IFNAME"),
        ("NCCL_IB_TIMEOUTS", "NCCL_IB_TIMEOUT"),
        ("CCORE_TCP_STREAM", "CCORE_TCP_STREAMS"),
    ],
)
def test_a_mistyped_variable_is_named_once_with_the_variable_that_it_resembles(
    given: str, meant: str
) -> None:
    (sentence,) = environment.misspelt([given, "NCCL_DEBUG", given])
    assert f"does not read {given}; did you mean {meant}?" in sentence


def test_variables_of_plugins_torch_and_programs_are_not_taken_for_typing_errors() -> None:
    # Plugins of HPC-X and of Google's clouds, torch before 2.2, builds and programs of users.
    others = [
        "NCCL_SHARP_DISABLE", "NCCL_IBEXT_DISABLE", "NCCL_PLUGIN_P2P", "NCCL_SHARP_MAX_COMMS", "NCCL_UCX_TLS",
        "NCCL_FASTRAK_IFNAME", "NCCL_FASTRAK_NUM_FLOWS", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "NCCL_BLOCKING_WAIT",
        "NCCL_ASYNC_ERROR_HANDLING", "NCCL_DESYNC_DEBUG", "NCCL_ENABLE_TIMING", "NCCL_HOME", "NCCL_VERSION",
        "NCCL_IB_ENABLE", "NCCL_TIMEOUT", "HOROVOD_PROTO", "PROTO",
    ]  # fmt: skip
    assert environment.misspelt(others) == []
