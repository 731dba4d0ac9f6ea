"""An import of one endless line ends at once, with the line's number, whatever the line holds."""

from __future__ import annotations

import time

import pytest

from clusterctl.errors import InventoryError
from clusterctl.inventory.imports import kinds
from clusterctl.inventory.imports.found import Source, split_outside

SIZE = 3_000_000


@pytest.mark.parametrize("piece", ["a", "1", ",", "gpu01,", "[", "gpu[1-2],", "a=b ", '"', " "])
@pytest.mark.parametrize("begin", ["", "h slots=1 ", "Host a", "[a]\nh ", "NodeName="])
def test_one_line_of_three_megabytes_is_refused(begin: str, piece: str) -> None:
    source = Source("f", f"{begin}{piece * (SIZE // len(piece))}x\n")
    began = time.process_time()
    for kind in kinds.Kind:
        with pytest.raises(InventoryError):
            kinds.read(source, kind)
    with pytest.raises(InventoryError, match=r"f:[12]: the line has \d+ characters"):
        kinds.detect(source)
    assert time.process_time() - began < 10  # each took 15 s and more


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,b", ["a", "b"]),
        ("gpu[01-03,07],spare", ["gpu[01-03,07]", "spare"]),
        (",", ["", ""]),
        ("a[1,2", ["a[1,2"]),
        ("gpu:a:8(S:0,1),nic", ["gpu:a:8(S:0", "1)", "nic"]),
    ],
)
def test_commas_outside_brackets(text: str, parts: list[str]) -> None:
    assert split_outside(text) == parts


def test_commas_outside_round_brackets() -> None:
    assert split_outside("gpu:a:8(S:0,1),nic:2", brackets="[]()") == ["gpu:a:8(S:0,1)", "nic:2"]
