"""Any damage to a valid inventory gives an inventory or an InventoryError, and nothing else."""

from __future__ import annotations

import copy
import string
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from valid_inventory import TREE, VALID

from clusterctl.errors import InventoryError
from clusterctl.inventory import load
from clusterctl.inventory.model import Inventory

FAST = settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])

values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**20), 10**20),
        st.floats(),
        st.text(max_size=12),
        st.sampled_from(
            ["gpu[1-", "a[2-1]", "-x", "~", "~nobody/x", "[::1]:22", "a\x00b", "=", "<<", "1:30"]
        ),
    ),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3)
    ),
    max_leaves=6,
)


def attempt(data: bytes) -> None:
    try:
        inventory = load.from_text(data)
    except InventoryError as error:
        assert error.message
        assert error.exit_code == 4
        assert not any(ord(character) < 32 and character != "\n" for character in error.message)
        return
    assert isinstance(inventory, Inventory)
    assert inventory.nodes


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(tree, dict):
        return [path, *(p for key, value in tree.items() for p in places(value, (*path, key)))]
    if isinstance(tree, list):
        return [path, *(p for index, value in enumerate(tree) for p in places(value, (*path, index)))]
    return [path]


def test_the_undamaged_inventory_loads() -> None:
    assert len(load.from_text(VALID).nodes) == 5


@FAST
@given(st.data())
def test_values_replaced_removed_or_renamed(data: st.DataObject) -> None:
    tree = copy.deepcopy(TREE)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([place for place in places(tree) if place]))
        parent = tree
        for part in path[:-1]:
            parent = parent[part]
        action = data.draw(st.sampled_from(["replace", "remove", "rename"]))
        if action == "replace":
            parent[path[-1]] = data.draw(values)
        elif action == "remove":
            del parent[path[-1]]
        elif isinstance(parent, dict):
            parent[data.draw(st.text(max_size=8))] = parent.pop(path[-1])
        if len(places(tree)) < 2:
            break
    attempt(yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass"))


@FAST
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(VALID) - 1),
            st.integers(0, 12),
            st.one_of(
                st.text(alphabet=string.printable, max_size=4),
                st.sampled_from(
                    [*"&*!|>%@`{}[],:?-#'\"\t\n", "<<: *x", "&a ", "*a", "--- ", "!!set ", "\\U", "~"]
                ),
            ),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_characters_replaced(edits: list[tuple[int, int, str]]) -> None:
    text = VALID
    for start, length, replacement in edits:
        text = text[:start] + replacement + text[start + length :]
    attempt(text.encode())


@FAST
@given(st.binary(max_size=60), st.integers(0, len(VALID)))
def test_bytes_inserted(noise: bytes, at: int) -> None:
    data = VALID.encode()
    attempt(data[:at] + noise + data[at:])
