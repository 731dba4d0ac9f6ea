"""A rank that meets the others for all_reduce by the GPUs of nodes, without a GPU: how they agree, as JSON.

argv[1]: "small", for data below the smallest size; "large"; "unset", where a rank has not set CCORE_CUDA_PATH;
"broken", where one node's handle cannot be made.
"""

from __future__ import annotations

import json
import sys
from ctypes import c_float, c_void_p

import torch
from collective_core.communicator import Communicator
from collective_core.enums import CudaPath
from collective_core.errors import CollectiveCoreError, Result
from collective_core.torch import cuda_nodes
from collective_core.torch.cuda_nodes import CudaNodes


class Broken(CudaNodes):
    """One whose library is there, and fails on node 1."""

    def _own_refusal(self) -> str:
        return ""

    def _create(self) -> None:
        if self._communicator.peer(self._communicator.rank).node == 1:
            raise CollectiveCoreError(Result.SYSTEM, "no memory on this GPU")
        self._handle = c_void_p(1)

    def _info(self) -> cuda_nodes._Info:
        return cuda_nodes._Info(inside=CudaPath.KERNEL)

    def release(self) -> None:
        self._handle = None


with Communicator.from_environment(timeout_s=60) as communicator:
    nodes = (Broken if sys.argv[1] == "broken" else CudaNodes)(communicator, 60)
    tensor = torch.zeros((64 << 10 if sys.argv[1] == "small" else 16 << 20) // 4)
    takes = [nodes.takes(tensor) for _ in range(2)]
    # The ranks still agree on what is next.
    total = (c_float * 1)(1.0)
    communicator.all_reduce(total, total)
    print(json.dumps({"takes": takes, "way": nodes.describe(), "total": total[0]}))
