"""What a request is measured with: the sizes that it leaves open, and the variables that its result names."""

from types import SimpleNamespace

import pytest

from clusterctl.inventory.model import Node
from clusterctl.launch.measured import environment_of
from clusterctl.launch.plan import CPU_SWEEP, sweep_of
from clusterctl.launch.request import Request


@pytest.mark.parametrize(
    ("asked", "sizes"),
    [
        ({}, (8, 8 << 20)),
        ({"min_bytes": 64 << 20}, (64 << 20, 64 << 20)),
        ({"max_bytes": 4}, (4, 4)),
        ({"min_bytes": 1024}, (1024, 8 << 20)),
        ({"min_bytes": 1024, "max_bytes": 2048}, (1024, 2048)),
    ],
)
def test_one_end_of_a_sweep_beyond_the_others_default_takes_it_along(asked, sizes):
    sweep = sweep_of(CPU_SWEEP, Request(None, asked, None, None, None, None, None, 60.0, "alltoall"))
    assert (sweep.name, sweep.min_bytes, sweep.max_bytes) == ("alltoall", *sizes)


def test_the_variables_of_the_inventory_that_move_figures_are_named_with_the_figures():
    """Else a run with NCCL_ALGO=Ring would pass for one like all others."""
    inventory = {
        "NCCL_ALGO": "Ring",
        "NCCL_DEBUG": "WARN",
        "GLOO_X": "1",
        "PATH": "/bin",
        "NCCL_API_TOKEN": "s3cr3t",
    }
    node = Node(name="n", address="n", env=inventory)
    chosen = SimpleNamespace(library="nccl", answers=[SimpleNamespace(node=node)], environment={})
    shown = {**inventory, "NCCL_API_TOKEN": None, "NCCL_IB_TC": "106", "MASTER_PORT": "1"}
    plan = SimpleNamespace(env=tuple(shown.items()))
    assert environment_of(plan, chosen) == {"environment": {"NCCL_ALGO": "Ring"}}
    assert environment_of(SimpleNamespace(env=()), chosen) == {}
    chosen.environment["NCCL_IB_TC"] = "106"
    assert environment_of(plan, chosen)["environment"] == {"NCCL_ALGO": "Ring", "NCCL_IB_TC": "106"}
