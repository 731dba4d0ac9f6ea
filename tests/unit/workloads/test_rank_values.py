"""Values between ranks: what fits arrives, what does not is refused by the number of its rank."""

from __future__ import annotations

import json
import math
import pickle
import random
import subprocess
import sys

import pytest

from clusterctl.text.foreign import NotUnderstood
from clusterctl.workloads import rank_values
from clusterctl.workloads.archive import build
from clusterctl.workloads.collective_perf import RankPlace
from clusterctl.workloads.places import RankError

LIAR = 2


class Ranks:
    """Four ranks, of which one sends other bytes, or another size."""

    def __init__(self, lie: bytes, size: int | None = None) -> None:
        self.lie, self.size = lie, size

    def sizes(self, own: int) -> list[int]:
        return [own, own, len(self.lie) if self.size is None else self.size, own]

    def parts(self, own: bytes, sizes: list[int]) -> list[bytes]:
        assert max(sizes) <= rank_values.SMALL_BYTES, "memory is taken for sizes that were not checked"
        return [own, own, self.lie, own]


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("the code of another rank was run",))


HONEST = ["x", 1, True, 0.5]
LIES = {
    "pickle": pickle.dumps(Evil()),
    "a literal of Python": b"('x', 1, True, 0.5)",
    "a call": b"__import__('os').getpid()",
    "another type": b'{"0": "x"}',
    "one item more": b'["x", 1, true, 0.5, 1]',
    "text instead of a number": b'["x", "1", true, 0.5]',
    "a flag instead of a number": b'["x", true, true, 0.5]',
    "a number instead of a flag": b'["x", 1, 1, 0.5]',
    "NaN": b'["x", 1, true, NaN]',
    "Infinity": b'["x", 1, true, Infinity]',
    "beyond a float": b'["x", 1, true, 1e999]',
    "a rate below zero": b'["x", 1, true, -1]',
    "a huge rate": b'["x", 1, true, 1e19]',
    "a huge whole number": b'["x", ' + b"9" * 3000 + b", true, 0.5]",
    "a whole number above its bound": b'["x", 8, true, 0.5]',
    "a line break": b'["x\\nFAIL node01", 1, true, 0.5]',
    "an escape sequence": b'["\\u001b[2J", 1, true, 0.5]',
    "a reversal of direction": b'["\\u202e", 1, true, 0.5]',
    "a long text": b'["' + b"x" * 9 + b'", 1, true, 0.5]',
    "deep nesting": b"[" * 2000 + b"]" * 2000,
    "not UTF-8": b'["\xff", 1, true, 0.5]',
    "zeros": b"\0" * 20,
    "two values": b'["x", 1, true, 0.5] ["x", 1, true, 0.5]',
}


def read(value: object) -> tuple[str, int, bool, float]:
    name, count, is_bound, rate = rank_values.array(value, 4)
    return (
        rank_values.text(name, 8),
        rank_values.whole(count, 7),
        rank_values.flag(is_bound),
        rank_values.number(rate),
    )


def test_what_fits_arrives_from_all_ranks():
    lie = b'["y", 7, false, 1e18]'
    found = rank_values.gather(Ranks(lie), HONEST, read)
    assert found == [("x", 1, True, 0.5), ("x", 1, True, 0.5), ("y", 7, False, 1e18), ("x", 1, True, 0.5)]


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_what_does_not_fit_is_refused_by_the_number_of_its_rank(lie):
    with pytest.raises(
        RankError, match=r"^rank 2 sent a value that is not valid here: .{1,300}; check"
    ) as caught:
        rank_values.gather(Ranks(lie), HONEST, read)
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


@pytest.mark.parametrize("size", [-(2**63), -1, 0, rank_values.SMALL_BYTES + 1, 2**40, 2**63 - 1])
def test_a_size_beyond_its_bound_is_refused_before_memory_is_taken(size):
    with pytest.raises(RankError, match=r"^rank 2 sent .* expected 1 to 4096 bytes, not "):
        rank_values.gather(Ranks(b"", size), HONEST, read)


def test_mutated_values_are_read_or_refused_and_nothing_else():
    chance = random.Random(30)
    seeds = [
        json.dumps(HONEST).encode(),
        json.dumps([1, "node01", 0, "NVIDIA H100"]).encode(),
        *LIES.values(),
    ]
    for _ in range(2000):
        lie = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 8)):
            lie[chance.randrange(len(lie))] = chance.choice(b'[]{}",:0129eE-+.NIn\\\x00\xff')
        try:
            found = rank_values.gather(Ranks(bytes(lie)), HONEST, read)
        except RankError as error:
            assert str(error).startswith("rank 2 sent ")
        else:
            name, count, is_bound, rate = found[LIAR]
            assert isinstance(name, str) and 0 <= count <= 7 and isinstance(is_bound, bool)
            assert 0 <= rate <= 1e18 and math.isfinite(rate)


def test_own_values_that_are_not_json_are_an_error_of_the_program():
    with pytest.raises(ValueError, match="JSON"):
        rank_values.gather(Ranks(b"1"), math.nan, rank_values.number)


def test_a_place_cannot_write_further_lines():
    assert RankPlace.read([1, "node01", 0, "cuda:0 H100"]) == RankPlace(1, "node01", 0, "cuda:0 H100")
    for device in ("cpu\n# Library gloo FORGED 99.9", "x" * 201, 5, None):
        with pytest.raises(NotUnderstood):
            RankPlace.read([1, "node01", 0, device])


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None  # as if it were not installed
sys.path.insert(0, sys.argv[1])
import torch, torch.distributed as dist
from clusterctl.workloads import exchange, places, rank_values, ranks
assert sys.argv[1] in ranks.__file__
ranks.join(places.read_place({}), "gloo", torch.device("cpu"), 60.0)
print(rank_values.gather(exchange.TorchGather(torch.device("cpu")), {"rank": 0}, rank_values.members))
dist.destroy_process_group()  # its threads may end the process badly if they outlive the interpreter
"""


def test_the_archive_needs_neither_numpy_nor_an_installed_clusterctl(tmp_path):
    archive = tmp_path / "workloads.pyz"
    archive.write_bytes(build())
    done = subprocess.run(
        [sys.executable, "-I", "-c", WITHOUT_NUMPY, str(archive)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == "[{'rank': 0}]\n", done.stderr
