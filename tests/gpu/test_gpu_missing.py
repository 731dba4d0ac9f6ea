"""A rank does not come: nothing that the others read may look like a result, and nothing may hang.

At the deadline, a tensor read after a failed operation is invalid (NaN, the minimum of an integer), or reading raises.
"""

from __future__ import annotations

import itertools
import math
import re
import signal
from collections.abc import Callable, Mapping, Sequence

import pytest
import torch

pytestmark = pytest.mark.gpu

World = Callable[..., list[str]]
LIMIT_S = 1.0  # of the program
SMALL, LARGE = 1000, 3_000_000
MEDIUM = 200_000  # small for streams and too large for the CPUs


def reads(count: int) -> list[str]:
    """Every way to read a sum."""
    return [
        f"all_reduce:{count}:{mode}:{stream}:{read}"
        for mode, stream, read in itertools.product(
            ("sync", "async"), ("default", "side"), ("tolist", "item", "print", "synchronize", "event")
        )
    ]


# Large in one of the forms; every other collective by one way to read.
OTHERS = [
    f"all_reduce:{LARGE}:sync:default:item",
    f"all_reduce:{LARGE}:async:side:item",
    f"all_reduce:{SMALL}:sync:default:sum",
    f"int32:{SMALL}:sync:default:tolist",
    f"int32:{LARGE}:async:default:item",
    *(
        f"{collective}:{count}:{mode}:default:item"
        for collective, (count, mode) in itertools.product(
            ("reduce_scatter", "all_gather", "broadcast", "all_to_all"), ((SMALL, "sync"), (LARGE, "async"))
        )
    ),
]
# DDP waits for the Future of a bucket and never for its Work.
FUTURES = [
    f"all_reduce:{count}:async:{stream}:future" for count in (SMALL, LARGE) for stream in ("default", "side")
]


def table(world: World, cases: list[str], each: Sequence[Mapping[str, str]] = ()) -> None:
    """Run the cases in one program and expect an error or invalid values by the deadline in each."""
    outputs = world("cuda_missing.py", *cases, timeout_s=30 + 3.0 * len(cases), each=each)
    rows = re.findall(r"^(\S+) ([\d.]+) s: (error|invalid|WRONG|UNRAISED)(.*)$", outputs[0], re.MULTILINE)
    print(outputs[0])
    assert [row[0] for row in rows] == cases, outputs[0]
    wrong = [" ".join(row) for row in rows if row[2] not in ("error", "invalid")]
    assert not wrong, wrong
    late = [" ".join(row) for row in rows if float(row[1]) > LIMIT_S + 0.5]
    assert not late, late


slow = pytest.mark.gpu_slow


@pytest.mark.parametrize("way", ["stream", *(pytest.param(way, marks=slow) for way in ("host", "staged"))])
def test_nothing_read_looks_like_a_result(world: World, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    table(world, [*reads(MEDIUM if way == "stream" else SMALL), *OTHERS, *FUTURES])


@pytest.mark.usefixtures("mps")
@pytest.mark.parametrize("way", ["auto", "kernel", pytest.param("host", marks=slow)])
def test_nothing_read_looks_like_a_result_with_mps(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    # Under "auto" the streams wait, which every read without MPS has.
    table(world, [*([] if way == "auto" else reads(SMALL)), *OTHERS, *FUTURES])


@pytest.mark.gpu_slow
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("way", ["kernel", "stream", "host"])
def test_nothing_read_looks_like_a_result_between_gpus(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    table(world, [*reads(SMALL), *OTHERS, *FUTURES], [{"LOCAL_RANK": "0"}, {"LOCAL_RANK": "1"}])


def test_a_blocking_wait_raises_instead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_CUDA_BLOCKING_WAIT", "1")
    cases = [
        f"all_reduce:{SMALL}:{mode}:{stream}:synchronize"
        for mode in ("sync", "async")
        for stream in ("default", "side")
    ]
    outputs = world("cuda_missing.py", *cases, timeout_s=60)
    assert outputs[0].count(" s: error") == len(cases), outputs[0]


def test_a_program_that_never_calls_again_is_ended(world: World) -> None:
    outputs = world(
        "cuda_unheard.py",
        size=3,
        each=({}, {"CCORE_CUDA_ERROR": "abort"}, {}),
        ends={1: -signal.SIGABRT},
        timeout_s=60,
    )
    (took_s,) = re.findall(r"after ([\d.]+) s: .*waited for rank 2", outputs[0])
    assert 10 < float(took_s) < 13
    assert "the program has not called its group since" in outputs[1]


def test_a_program_that_ignores_errors_trains_on_nothing_valid(world: World) -> None:
    output = world("cuda_ignored.py", timeout_s=60)[0]
    steps = re.findall(r"^step (\d+): (raised|\S+)", output, re.MULTILINE)
    assert [int(step) for step, _ in steps] == list(range(12)), output
    is_valid = [result != "raised" and not math.isnan(float(result)) for _, result in steps]
    # The loss of step 4 is that of the last valid parameters; its own gradients are not valid.
    assert is_valid == [True] * 4 + [is_valid[4]] + [False] * 7, output
