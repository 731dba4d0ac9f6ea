"""Top-k on the GPU: selection and sums."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.gpu


def test_selections_and_sums_are_those_of_torch(world: Callable[..., list[str]]) -> None:
    (output,) = world("cuda_topk.py", size=1, timeout_s=300)
    assert output.splitlines()[-1] == "done"
