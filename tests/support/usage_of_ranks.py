"""What real ranks report as used: two processes that train a small model, once for each combination.

As a program: one rank, with the combinations as JSON in the first argument; it prints a record for each.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from free_ports import free_ports

RANKS = 2
LIMIT_S = 100
# Two ranks of this machine are two nodes, so that data goes between nodes.
_ALWAYS = {"CCORE_INTRA_SIZE": "1", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


@dataclass(frozen=True)
class Combination:
    """A training; ``env`` has all variables that this combination sets."""

    backend: str
    api: str
    hook: str
    env: dict[str, str] = field(default_factory=dict)


def of_ranks(combinations: Sequence[Combination]) -> list[list[dict[str, object]]]:
    """Run the combinations one after the other, and return the reports of all ranks for each."""
    ports = [free_ports(2) for _ in combinations]
    told = json.dumps([[asdict(one), *pair] for one, pair in zip(combinations, ports, strict=True)])
    checkout = Path(__file__).parents[2]
    with contextlib.ExitStack() as opened:
        # Files, because a rank that waits for space in a pipe makes the others wait, too.
        outputs = [opened.enter_context(tempfile.TemporaryFile("w+")) for _ in range(RANKS)]
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, told],
                env={
                    **os.environ, **_ALWAYS, "PYTHONPATH": f"{checkout}:{Path(__file__).parent}",
                    "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank),
                    "LOCAL_WORLD_SIZE": str(RANKS), "CCORE_JOB_SECRET": "of this test",
                },
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )
            for rank, output in enumerate(outputs)
        ]  # fmt: skip
        end = time.monotonic() + LIMIT_S
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(0.1, end - time.monotonic()))
        for process in processes:
            process.kill()
            process.wait()
        for output in outputs:
            output.seek(0)
        texts = [output.read() for output in outputs]
    assert [process.returncode for process in processes] == [0] * RANKS, "\n".join(texts)
    by_rank = [[json.loads(line) for line in text.splitlines() if line.startswith("{")] for text in texts]
    return [list(reports) for reports in zip(*by_rank, strict=True)]


def _run(combination: Combination, master_port: int, root_port: int) -> dict[str, object]:
    import torch

    from clusterctl.workloads import binding, data_parallel, places, usage
    from collective_core import environment

    environment._read.clear()  # of the combination before this one
    os.environ.update(
        combination.env, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(master_port), CCORE_ROOT_ADDR="127.0.0.1",
        CCORE_ROOT_PORT=str(root_port),
    )  # fmt: skip
    torch.manual_seed(1)
    model: torch.nn.Module = torch.nn.Linear(600, 600)  # above the threshold of top-k
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    place, device = places.read_place(os.environ), torch.device("cpu")
    together = data_parallel.choose(combination.api, combination.backend, combination.hook, None)
    before = frozenset(os.sched_getaffinity(0))
    together.join(place, device, 60.0)
    bound = binding.bind(place, device, together.gather, before=before)
    model, optimizer = together.distribute(model, optimizer, lambda _: None)
    used = usage.Usage(combination.backend, joined=True, package=together.usage_package)
    used.skip()
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        model(torch.ones(2, 600)).square().mean().backward()
        together.update(scaler, optimizer)
    used.look()
    used.mechanisms = {**together.uses, "cpu_binding": bound.cpus}
    report = {**used.report(), "hook": together.hook}
    together.leave()
    for name in combination.env:
        os.environ.pop(name)
    os.environ.update(_ALWAYS)
    return report


if __name__ == "__main__":
    import faulthandler

    import torch

    # A rank that hangs shows where.
    faulthandler.dump_traceback_later(0.8 * LIMIT_S)
    torch.set_num_threads(1)
    for one, *_ports in json.loads(sys.argv[1]):
        print(json.dumps(_run(Combination(**one), *_ports)), flush=True)
