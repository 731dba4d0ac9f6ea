"""No text of a node, a rank or another program ends a parser in an error that its docstring does not name.

Recorded outputs are mutated: numbers become endless, lists nest, pieces are cut and doubled. The inputs follow from
the parser's name alone. ``CLUSTERCTL_MUTATIONS=100000`` tries so many per parser instead of the few of each run.
"""

from __future__ import annotations

import contextlib
import os
import random
import time

import parsers_of_the_project as table
import pytest
from soak import SOAK

MUTATIONS = int(os.environ.get("CLUSTERCTL_MUTATIONS") or (600 if SOAK else 60))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("parser", table.PARSERS, ids=lambda parser: parser.name)
def test_no_mutation_of_recorded_output_ends_a_parser(parser: table.Parser) -> None:
    chance = random.Random(parser.name)
    for number in range(MUTATIONS):
        text = table.mutated(chance, parser.seeds)
        began = time.process_time()
        try:
            parser.run(text)
        except parser.refuses:
            pass
        except Exception as error:
            raise AssertionError(f"mutation {number} of {parser.name}: {text[:2000]!r}") from error
        assert time.process_time() - began < 5, f"mutation {number} took too long: {text[:2000]!r}"


@pytest.mark.parametrize("parser", table.PARSERS, ids=lambda parser: parser.name)
def test_every_seed_is_understood_and_is_worth_mutating(parser: table.Parser) -> None:
    refused = 0
    for seed in parser.seeds:
        try:
            parser.run(seed)
        except parser.refuses:
            refused += 1
    assert refused < len(parser.seeds)


def test_every_parser_is_in_the_table() -> None:
    def every() -> None:
        for parser in table.PARSERS:
            for seed in parser.seeds:
                with contextlib.suppress(*parser.refuses):
                    parser.run(seed)

    assert table.unlisted(table.reached(every)) == []
