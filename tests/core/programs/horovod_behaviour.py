"""What Horovod promises beyond single collectives: orders, names, errors, join, process sets, gradients, objects."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import collective_core.horovod.torch as hvd
import pytest
import torch
from collective_core.errors import CollectiveCoreError
from collective_core.horovod import world

os.environ["HOROVOD_TIMELINE"] = "DYNAMIC"  # else the timeline would be on
hvd.init()
hvd.init()  # does nothing
RANK, SIZE = hvd.rank(), hvd.size()
OTHERS = [rank for rank in range(SIZE) if rank != 0]


def places() -> None:
    assert (hvd.local_rank(), hvd.local_size()) == (RANK, SIZE)
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert hvd.is_initialized()
    assert hvd.is_homogeneous()
    assert not any((hvd.mpi_built(), hvd.gloo_enabled(), hvd.nccl_built(), hvd.mpi_threads_supported()))


def any_order() -> None:
    names = [f"order{number}" for number in range(8)]
    mine = names if RANK == 0 else names[::-1]
    handles = {
        name: hvd.allreduce_async(torch.tensor([float(names.index(name))]), name=name) for name in mine
    }
    for number, name in enumerate(names):
        assert hvd.synchronize(handles[name]).item() == number
    with pytest.raises(ValueError, match="is not the handle of a call"):
        hvd.synchronize(handles["order0"])


def polled() -> None:
    handle = hvd.allreduce_async(torch.ones(3), name="polled")
    while not hvd.poll(handle):
        time.sleep(0.001)
    assert hvd.synchronize(handle).tolist() == [1.0] * 3


def scaled() -> None:
    turned = hvd.allreduce(torch.tensor([1 + 2j]), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    assert turned.item() == SIZE * (2 + 4j)
    gathered = hvd.allgather(torch.tensor([1 + 2j]).conj())
    assert gathered.tolist() == SIZE * [1 - 2j]


def one_name_twice() -> None:
    hvd.barrier()
    if RANK == 0:  # alone, so that it cannot end before the second call
        first = hvd.allreduce_async(torch.ones(1), name="twice")
        with pytest.raises(ValueError, match=r"'allreduce\.twice': a call of this name is under way"):
            hvd.allreduce_async(torch.ones(1), name="twice")
        hvd.barrier()
        hvd.synchronize(first)
    else:
        hvd.barrier()
        hvd.allreduce(torch.ones(1), name="twice")


def disagreements() -> None:
    def told(*parts: str) -> None:
        text = str(caught.value)
        assert all(part in text for part in ("the ranks disagree about", "rank 0:", *parts)), text

    with pytest.raises(hvd.HorovodInternalError) as caught:
        hvd.allreduce(torch.zeros(3 + RANK), name="shape")
    told("'allreduce.shape'", '["float32", [3]]', '["float32", [4]]')
    with pytest.raises(hvd.HorovodInternalError) as caught:
        hvd.allreduce(torch.zeros(3, dtype=torch.float32 if RANK else torch.int32), name="type")
    told("int32", "float32")
    with pytest.raises(hvd.HorovodInternalError) as caught:
        hvd.broadcast(torch.zeros(3), root_rank=RANK, name="root")
    told('"root": 0', '"root": 1')
    with pytest.raises(hvd.HorovodInternalError) as caught:
        hvd.allreduce(torch.zeros(3), op=hvd.Sum if RANK else hvd.Max, name="op")
    told("SUM", "MAX")
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [SIZE] * 2  # all is well after that


def refusals() -> None:
    refused = [
        (lambda: hvd.allreduce(torch.ones(1), op=hvd.Adasum), NotImplementedError, "op=Adasum is not part"),
        (lambda: hvd.elastic.run, NotImplementedError, r"horovod.torch.elastic.run is not part"),
        (lambda: hvd.allreduce(torch.ones(1), op=hvd.Sum, average=True), ValueError, "not both"),
        (lambda: hvd.broadcast(torch.ones(1), SIZE), ValueError, f"root_rank {SIZE} is not in"),
        (lambda: hvd.allgather(torch.tensor(1)), ValueError, "no dimensions"),
        (lambda: hvd.alltoall(torch.ones(SIZE + 1)), ValueError, "give splits"),
        (lambda: hvd.alltoall(torch.ones(2), splits=[2] * SIZE), ValueError, "add up to 2"),
        (lambda: hvd.sparse_allreduce_async(torch.ones(2)), ValueError, "expected a sparse tensor"),
        (lambda: hvd.grouped_allreduce([]), ValueError, "at least one tensor"),
        (lambda: hvd.add_process_set([0, 0]), ValueError, "distinct ranks"),
        (lambda: hvd.add_process_set([SIZE]), ValueError, f"not below {SIZE}"),
        (lambda: hvd.add_process_set(list(range(SIZE))), ValueError, "already"),
    ]
    for call, error, text in refused:
        with pytest.raises(error, match=text):
            call()
    with pytest.raises(hvd.HorovodInternalError, match=r"no MAX of torch\.complex64"):
        hvd.allreduce(torch.ones(1, dtype=torch.complex64), op=hvd.Max)


def joined() -> None:
    for step in range(3 + RANK):  # the last rank has most
        total = hvd.allreduce(torch.ones(2), op=hvd.Sum, name=f"step{step}")
        assert total.tolist() == [min(SIZE, SIZE + 3 - max(3, step + 1))] * 2, (step, total)
    if RANK == SIZE - 1:
        for name in ("refused", None):
            with pytest.raises(hvd.HorovodInternalError, match="only allreduce and barrier"):
                hvd.allgather(torch.ones(1), name=name)
        hvd.allreduce(torch.ones(1))
    assert hvd.join() == SIZE - 1
    # Calls without a name match again, though only the last rank made some.
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == SIZE
    assert hvd.allgather(torch.tensor([RANK])).tolist() == list(range(SIZE))


def process_sets() -> None:
    first, rest = hvd.add_process_set([0]), hvd.add_process_set(hvd.ProcessSet(OTHERS))
    mine = first if RANK == 0 else rest
    assert mine.included()
    assert (mine.rank(), mine.size()) == ((0, 1) if RANK == 0 else (RANK - 1, SIZE - 1))
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=mine).item() == mine.size()
    met = [world.current().group(number).communicator for number in (0, mine.process_set_id)]
    assert met[1].peer(mine.rank()).address == met[0].peer(RANK).address  # in one network
    assert hvd.allgather(torch.tensor([RANK]), process_set=mine).tolist() == mine.ranks
    assert (
        hvd.broadcast(torch.tensor([RANK]), SIZE - 1, process_set=rest).item() == SIZE - 1 if RANK else True
    )
    other = rest if RANK == 0 else first
    assert not other.included()
    with pytest.raises(ValueError, match="is not in process set"):
        hvd.allreduce(torch.ones(1), process_set=other)
    assert hvd.get_process_set_ids_and_ranks() == {0: list(range(SIZE)), 1: [0], 2: OTHERS}
    assert hvd.process_set_by_id(2) is rest
    assert hvd.remove_process_set(first)
    assert first.ranks is None
    assert not hvd.remove_process_set(hvd.global_process_set)
    again = hvd.add_process_set([0])
    assert again.process_set_id == 3
    assert hvd.global_process_set.size() == SIZE


def gradients() -> None:
    base = torch.arange(4.0, requires_grad=True)
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0]) * (RANK + 1)
    everything = sum(range(1, SIZE + 1)) * torch.tensor([1.0, 2.0, 3.0, 4.0])

    def of(result: torch.Tensor) -> torch.Tensor:
        (gradient,) = torch.autograd.grad(result, base)
        return gradient

    assert torch.allclose(of((hvd.allreduce(base, op=hvd.Sum) * weights).sum()), everything)
    assert torch.allclose(of((hvd.allreduce(base) * weights).sum()), everything / SIZE)
    assert torch.allclose(of((hvd.grouped_allreduce([base, base])[1] * weights).sum()), everything / SIZE)
    # Rank r gives 4 + r rows; all use all rows with the same weights.
    extended = torch.cat([base, torch.zeros(RANK)])
    gathered = hvd.allgather(extended)
    begin = sum(4 + rank for rank in range(RANK))
    uses = torch.arange(float(gathered.shape[0]))
    assert torch.allclose(of((gathered * uses).sum()), uses[begin : begin + 4])
    both = hvd.grouped_allgather([extended, base])
    assert torch.allclose(of((both[0] * uses).sum() + both[1].sum()), uses[begin : begin + 4] + 1)
    root = SIZE - 1
    expected = everything / SIZE if root == RANK else torch.zeros(4)
    assert torch.allclose(of((hvd.broadcast(base, root) * weights).sum()), expected)
    # All rows to rank 0.
    splits = [4] + [0] * (SIZE - 1)
    exchanged, _ = hvd.alltoall(base, splits=splits)
    assert torch.allclose(
        of((exchanged * torch.arange(float(exchanged.numel()))).sum()), torch.arange(4.0) + 4 * RANK
    )
    kept = hvd.reducescatter(base, op=hvd.Average)
    begin = RANK * (4 // SIZE) + min(RANK, 4 % SIZE)
    rows = torch.tensor(
        [float(rank + 1) for rank in range(SIZE) for _ in range(4 // SIZE + (rank < 4 % SIZE))]
    )
    assert torch.allclose(of((kept * (RANK + 1)).sum()), rows)
    (kept,) = hvd.grouped_reducescatter([base], op=hvd.Sum, prescale_factor=0.5)
    assert torch.allclose(of((kept * (RANK + 1)).sum()), rows * SIZE / 2)
    # Results are the caller's own: what it does to one of them in place, is right, and does not touch another.
    single = hvd.allreduce(base, op=hvd.Sum)
    single.mul_(weights)
    assert torch.allclose(of(single.sum()), everything)
    one, other = hvd.grouped_allreduce([base, base * 2], op=hvd.Sum)
    squared = one.square().sum()
    other.zero_()
    assert torch.allclose(of(squared), 2 * SIZE * SIZE * base.detach())
    (kept,) = hvd.grouped_reducescatter([base], op=hvd.Sum)
    kept.mul_(RANK + 1)
    assert torch.allclose(of(kept.sum()), rows * SIZE)
    with pytest.raises(NotImplementedError, match="no gradient of a reduction by MAX"):
        of(hvd.allreduce(base, op=hvd.Max).sum())


def objects() -> None:
    mine = {"rank": RANK, "tensor": torch.full((RANK + 1,), float(RANK)), "text": "x" * 1000 * RANK}
    everyone = hvd.allgather_object(mine)
    assert [one["rank"] for one in everyone] == list(range(SIZE))
    assert [one["tensor"].numel() for one in everyone] == [rank + 1 for rank in range(SIZE)]
    assert hvd.broadcast_object(mine, root_rank=1, name="thing")["rank"] == 1
    assert hvd.broadcast_object_fn(root_rank=1)(mine)["text"] == "x" * 1000
    with torch.device("meta"):  # a default for what the program makes, and not for what carries its objects
        assert hvd.broadcast_object({"rank": RANK}, root_rank=1) == {"rank": 1}
        assert hvd.allgather_object(RANK) == list(range(SIZE))


def forked() -> None:
    for call in (lambda: hvd.allreduce(torch.ones(1)), hvd.join, hvd.barrier):
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # it has not the thread that could run what it calls
            try:
                call()
            except CollectiveCoreError as error:
                os._exit("belongs to another process (fork?)" not in str(error))
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == SIZE


class Code:
    """An object that runs code where it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (9,)


def parameters_and_state() -> None:
    torch.manual_seed(RANK)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (RANK + 1))
    if RANK == 0:
        model(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    states = hvd.allgather_object((model.state_dict(), optimizer.state_dict()))
    for state, of_optimizer in states[1:]:
        assert all(torch.equal(state[name], states[0][0][name]) for name in state)
        assert of_optimizer["param_groups"] == states[0][1]["param_groups"]
        assert all(
            torch.equal(one["exp_avg"], states[0][1]["state"][key]["exp_avg"])
            for key, one in of_optimizer["state"].items()
        )
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert len(optimizer.state_dict()["state"]) == 4
    # An optimizer without a state: its parameters get gradients, those that need one.
    fixed = torch.nn.Parameter(torch.ones(2, dtype=torch.int32), requires_grad=False)
    table = torch.nn.Embedding(3, 2, sparse=True)
    fresh = torch.optim.SGD([fixed, table.weight, *model.parameters()], lr=0.1 * (RANK + 1), momentum=0.9)
    fresh.zero_grad()
    hvd.broadcast_optimizer_state(fresh, root_rank=0, model=table)
    assert (fixed.grad, fresh.param_groups[0]["lr"]) == (None, 0.1)
    assert table.weight.grad is not None
    assert table.weight.grad.is_sparse
    assert all(one.grad is not None and not one.grad.any() for one in model.parameters())
    # The state travels as data: every optimizer of torch, no code.
    for make in (torch.optim.LBFGS, torch.optim.SGD, torch.optim.AdamW):
        one = make([torch.nn.Parameter(torch.ones(2))], lr=0.5 + RANK)

        def closure(parameters=one.param_groups[0]["params"]) -> torch.Tensor:
            loss = (parameters[0] ** 2).sum()
            loss.backward()
            return loss

        if RANK == 0:
            one.step(closure)
        hvd.broadcast_optimizer_state(one, root_rank=0)
        states = hvd.allgather_object(one.state_dict())
        assert [str(state) for state in states] == [str(states[0])] * SIZE
    one.param_groups[0]["lr"] = Code() if RANK == 0 else 0.5
    with pytest.raises(
        ValueError, match="a Code, which cannot be sent" if RANK == 0 else "rank 0 could not send"
    ):
        hvd.broadcast_optimizer_state(one, root_rank=0)
    hvd.broadcast_parameters(model.named_parameters(), root_rank=1)
    with pytest.raises(ValueError, match="use broadcast_object"):
        hvd.broadcast_parameters({"epoch": 3}, root_rank=0)


def batch_norm() -> None:
    torch.manual_seed(5)
    batches = [torch.randn(3 + rank, 2, 4, dtype=torch.float64) * 5 + 100 for rank in range(SIZE)]
    alone = torch.nn.BatchNorm1d(2).double()
    whole = torch.cat(batches).requires_grad_()
    factors = torch.arange(whole.numel(), dtype=torch.float64).view(whole.shape)
    expected = alone(whole)
    (expected * factors).sum().backward()
    begin = sum(batch.shape[0] for batch in batches[:RANK])
    mine = slice(begin, begin + batches[RANK].shape[0])
    together = hvd.SyncBatchNorm(2).double()
    given = batches[RANK].clone().requires_grad_()
    got = together(given)
    (got * factors[mine]).sum().backward()
    assert given.grad is not None
    assert whole.grad is not None
    assert torch.allclose(got, expected[mine], rtol=1e-9)
    assert torch.allclose(given.grad, whole.grad[mine], rtol=1e-6, atol=1e-6)
    assert together.running_var is not None
    assert alone.running_var is not None
    assert torch.allclose(together.running_var, alone.running_var)
    weight = together.weight.grad
    assert weight is not None
    assert torch.allclose(hvd.allreduce(weight, op=hvd.Sum), alone.weight.grad)
    together.eval()
    alone.eval()
    assert torch.allclose(together(given), alone(given))
    # Halves stay halves, though the layer itself is kept in float32, as torch's own has it.
    halves = torch.randn(4, 2, 3, dtype=torch.bfloat16)
    assert hvd.SyncBatchNorm(2)(halves).dtype == torch.nn.BatchNorm1d(2)(halves).dtype == torch.bfloat16


def timeline() -> None:
    path = Path(sys.argv[1]) / f"{SIZE}.json"
    hvd.start_timeline(str(path))
    if RANK == 0:
        with pytest.raises(ValueError, match="stop_timeline"):
            hvd.start_timeline(str(path))
    hvd.allreduce(torch.ones(1), name="traced")
    hvd.barrier()
    hvd.stop_timeline()
    if RANK == 0:
        events = json.loads(path.read_text())
        rows = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
        spans = {(rows[event["pid"]], event["name"]) for event in events if event["ph"] == "X"}
        assert {("allreduce.traced", "NEGOTIATE_ALLREDUCE"), ("allreduce.traced", "ALLREDUCE")} <= spans, (
            events
        )
        assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")
    # A full disk ends the trace, not the job.
    hvd.start_timeline("/dev/full")
    for number in range(20):
        hvd.allreduce(torch.ones(1), name=f"untraced{number}{'x' * 1000}")
    hvd.stop_timeline()
    hvd.start_timeline("/dev/full")  # found only when the file is closed
    hvd.stop_timeline()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == SIZE


def ended() -> None:
    hvd.shutdown()
    hvd.shutdown()
    with pytest.raises(ValueError, match=r"call hvd.init\(\) first"):
        hvd.rank()
    hvd.init()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == SIZE


for check in (
    places, any_order, polled, scaled, one_name_twice, disagreements, refusals, joined, process_sets, gradients,
    objects, forked, parameters_and_state, batch_norm, timeline, ended,
):  # fmt: skip
    check()
    print(check.__name__, flush=True)
