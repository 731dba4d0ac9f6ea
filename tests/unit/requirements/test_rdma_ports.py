"""NCCL_IB_HCA: which ports a selector matches."""

import pytest

from clusterctl.requirements.rdma.ports import chosen


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        (None, ["mlx5_0", "mlx5_1", "mlx5_10"]),
        ("mlx5_1", ["mlx5_1", "mlx5_10"]),
        ("=mlx5_1", ["mlx5_1"]),
        ("^mlx5_1", ["mlx5_0"]),
        ("^=mlx5_1", ["mlx5_0", "mlx5_10"]),
        ("=mlx5_0:1,mlx5_1:2", ["mlx5_0"]),
    ],
)
def test_nccl_ib_hca(selector, taken):
    assert [name for name in ("mlx5_0", "mlx5_1", "mlx5_10") if chosen(name, 1, selector)] == taken
