"""One call of a collective: what was asked, and how the caller hears of its end."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch

from collective_core.horovod.common.exceptions import HorovodInternalError
from collective_core.horovod.reduce_ops import ReduceOp
from collective_core.topk import Residual


class Kind(Enum):
    """The collectives, by the names that errors and the timeline use."""

    ALLREDUCE = "allreduce"
    ALLGATHER = "allgather"
    BROADCAST = "broadcast"
    ALLTOALL = "alltoall"
    REDUCESCATTER = "reducescatter"
    BARRIER = "barrier"
    PROCESS_SET = "add_process_set"


# Collectives whose tensors may differ between ranks in their first dimension.
RAGGED = frozenset({Kind.ALLGATHER, Kind.ALLTOALL})
# Collectives in which zeros can stand for a rank that has no data left.
JOINABLE = frozenset({Kind.ALLREDUCE, Kind.BARRIER})
DIGEST_BYTES = 16


def digest(text: str) -> bytes:
    """Return a short stand-in for a text, equal on all ranks for equal texts."""
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()


@dataclass(slots=True, eq=False)
class Request:
    """A call by one rank. `outputs` are given when the result goes to the caller's own tensors."""

    kind: Kind
    name: str
    tensors: list[torch.Tensor]
    outputs: list[torch.Tensor] | None = None
    op: ReduceOp = ReduceOp.SUM
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = 0
    splits: list[int] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)  # of a new process set
    # What was not sent yet of the tensors of each type, if only the largest elements are to be.
    residuals: dict[torch.dtype, Residual] | None = None
    one: bool = True  # the caller gave a tensor, not a list, and gets a tensor back
    events: list[Any] = field(default_factory=list)  # CUDA events after which the tensors can be read
    result: Any = None
    error: Exception | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def descriptor(self) -> str:
        """Say what all ranks must agree on, as JSON."""
        ragged = self.kind in RAGGED
        said: dict[str, Any] = {
            "call": self.kind.value,
            "tensors": [
                [str(tensor.dtype).removeprefix("torch."), list(tensor.shape[1:] if ragged else tensor.shape)]
                for tensor in self.tensors
            ],
        }
        if self.device() is not None:
            said["device"] = "cuda"
        if self.kind in {Kind.ALLREDUCE, Kind.REDUCESCATTER}:
            said |= {"op": self.op.name, "prescale": self.prescale, "postscale": self.postscale}
        if self.residuals is not None:
            said["topk"] = True
        if self.kind is Kind.BROADCAST:
            said["root"] = self.root
        if self.kind is Kind.PROCESS_SET:
            said["ranks"] = self.ranks
        return json.dumps(said)

    def device(self) -> torch.device | None:
        """Return the CUDA device of the tensors, if all are on one."""
        if len({tensor.device for tensor in self.tensors}) != 1:
            return None
        device = self.tensors[0].device
        return device if device.type == "cuda" else None

    def extents(self) -> list[int]:
        """Return the lengths that all ranks must know of each other, as many on each rank."""
        if self.kind is Kind.ALLGATHER:
            return [tensor.shape[0] for tensor in self.tensors]
        if self.kind is Kind.ALLTOALL:
            return self.splits
        return []

    def end(self, result: Any, error: Exception | None = None) -> None:
        """Publish the result or the error; called once."""
        self.result, self.error = result, error
        self.ended.set()

    def is_ended(self) -> bool:
        """Tell whether it has ended, well or not."""
        return self.ended.is_set()

    def wait(self) -> Any:
        """Block until the end; raises HorovodInternalError."""
        self.ended.wait()
        if self.error is not None:
            raise HorovodInternalError(str(self.error)) from self.error
        return self.result


def kind_of(descriptor: str) -> Kind:
    """Return the collective that a descriptor is of."""
    return Kind(json.loads(descriptor)["call"])


def stand_in(name: str, descriptor: str) -> Request:
    """Make the request, of one of the JOINABLE, with which a rank that has joined takes part in those of the others."""
    said = json.loads(descriptor)
    if Kind(said["call"]) is Kind.BARRIER:
        return Request(Kind.BARRIER, name, [])
    device = said.get("device", "cpu")
    tensors = [
        torch.zeros(shape, dtype=getattr(torch, dtype), device=device) for dtype, shape in said["tensors"]
    ]
    return Request(
        Kind.ALLREDUCE, name, tensors, outputs=tensors, op=ReduceOp[said["op"]],
        prescale=said["prescale"], postscale=said["postscale"], residuals={} if said.get("topk") else None,
    )  # fmt: skip
