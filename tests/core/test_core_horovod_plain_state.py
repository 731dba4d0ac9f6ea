"""The state of an optimizer as data: what is written is read again, and bytes of another kind are refused."""

from __future__ import annotations

import json
import math
import os
import pickle
import random

import pytest
import torch
from collective_core.horovod.torch.plain_state import StateError, packed, unpacked

STATE = {
    "state": {
        0: {"step": torch.tensor(3.0), "exp_avg": torch.randn(2, 3), "bits": torch.tensor([True, False])}
    },
    "param_groups": [
        {
            "lr": 0.1,
            "betas": (0.9, 0.999),
            "foreach": None,
            "maximize": False,
            "params": [0, 1],
            "name": "a\nb",
        }
    ],
    "inf": math.inf,
    "big": 10**30,
    "empty": torch.empty(0, 4, dtype=torch.bfloat16),
}


def test_what_is_written_is_read_again():
    found = unpacked(packed(STATE))
    assert str(found) == str(STATE)
    assert isinstance(found["param_groups"][0]["betas"], tuple) and list(found["state"]) == [0]
    assert found["empty"].shape == (0, 4) and found["empty"].dtype is torch.bfloat16
    found["state"][0]["exp_avg"].add_(1)


@pytest.mark.parametrize("value", [object(), torch.randn(2).to_sparse(), {1, 2}, len, b"bytes"])
def test_other_values_are_refused_with_their_place(value):
    with pytest.raises(StateError, match=r"^the state\['a'\]\[0\] is a .* use broadcast_object$"):
        packed({"a": [value]})


class Code:
    def __reduce__(self):
        return os._exit, (9,)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Code()), b"", b"{}\n", b"[]\n", b'["q", 1]\n', b'["i", 5]\n', b'["i", "' + b"9" * 9000 + b'"]\n',
        b'["x", "float32", [4]]\n', b'["x", "float32", [-4]]\n', b'["x", "float32", [1e9, 4]]\n',
        b'["x", "object", [1]]\n', b'["d", [[["l", []], 1]]]\n', b"[" * 100000 + b"\n", b'null\nmore',
        json.dumps(["x", "float32", [2**62, 4]]).encode() + b"\n",
    ],
)  # fmt: skip
def test_bytes_of_another_kind_are_refused(data):
    with pytest.raises(StateError):
        unpacked(data)


def test_mutated_bytes_are_read_or_refused_and_nothing_else():
    chance, good = random.Random(30), packed(STATE)
    for _ in range(2000):
        data = bytearray(good)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            unpacked(bytes(data))
        except StateError:
            continue
