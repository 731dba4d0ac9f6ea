"""One pass over a log finds each fixed text, wherever it stands and whatever stands beside it."""

from __future__ import annotations

import random

import pytest

from clusterctl.report.known_errors import fixed_texts


@pytest.mark.parametrize("seed", range(20))
def test_the_texts_of_each_line_are_those_that_a_plain_search_finds(seed: int) -> None:
    draw = random.Random(seed)

    def some(shortest: int, longest: int) -> bytes:
        return bytes(draw.choices(b"ab", k=draw.randint(shortest, longest)))

    texts = {some(fixed_texts.SHORTEST, 9) for _ in range(12)}
    lines = [some(0, 12) for _ in range(draw.randint(1, 60))]
    found = fixed_texts.by_line(fixed_texts.table(tuple(texts)), b"\n".join(lines))
    start, expected = 0, {}
    for line in lines:
        if inside := {text for text in texts if text in line}:
            expected[start, start + len(line)] = inside
        start += len(line) + 1
    assert found == expected
