"""A node in hostile hands says what it likes; no step on another node carries its words on.

Requirements look at the whole fleet (versions by majority, keys of the mesh, an export's server), and so one node's
facts can lead to steps on others. Every text in a peer's facts is made hostile in turn, and the steps of an honest
node are searched for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from case_facts import facts_of

from clusterctl import resources
from clusterctl.errors import ClusterctlError
from clusterctl.facts.document import from_document, to_document
from clusterctl.inventory.model import Node
from clusterctl.requirements.catalog import ALL
from clusterctl.requirements.fleet.view import Fleet

CASES = Path(__file__).resolve().parents[1] / "requirements"
MARK = "3v1l"
ROUND = (
    *(("", f"\n{MARK}"), ("", f" {MARK}"), ("", f'" {MARK}'), ("", f"$({MARK})"), ("", f";{MARK}")),
    *(
        (f'command="{MARK}" ', ""),
        (f"{MARK}\n", ""),
        (f"*,{MARK} ", ""),
        (f"-o{MARK}=", ""),
        (f"../{MARK}/", ""),
    ),
)
PER_REQUIREMENT = 10


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, (*path, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from leaves(value, (*path, index))
    elif isinstance(tree, str):
        yield path


def replaced(tree: Any, path: tuple[Any, ...], text: str) -> Any:
    if not path:
        return text
    if isinstance(tree, dict):
        return {k: replaced(v, path[1:], text) if k == path[0] else v for k, v in tree.items()}
    return [replaced(v, path[1:], text) if i == path[0] else v for i, v in enumerate(tree)]


def at(tree: Any, path: tuple[Any, ...]) -> str:
    for part in path:
        tree = tree[part]
    return str(tree)


def chosen() -> list[Path]:
    """The cases with peers and steps: some per requirement."""
    found: dict[str, list[Path]] = {}
    for path in sorted(CASES.glob("*/*.yaml")):
        case = resources.table(path)
        if path.parent.name in ALL and case.get("peers") and case["expect"].get("steps"):
            found.setdefault(path.parent.name, []).append(path)
    return [path for paths in found.values() for path in paths[:PER_REQUIREMENT]]


@pytest.mark.parametrize("path", chosen(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_step_on_a_node_carries_the_words_of_another(path: Path) -> None:
    case = resources.table(path)
    facts = facts_of(case.get("facts", {}))
    given = {"name": "n1", "address": "n1", **case.get("node", {})}
    node = Node.model_validate(given)
    peers = {name: facts_of({**case.get("facts", {}), **of}) for name, of in case["peers"].items()}
    others = tuple(Node.model_validate({**given, "name": name, "address": name}) for name in peers)
    requirement, evil = ALL[path.parent.name], next(iter(peers))
    document = to_document(peers[evil])
    tried = 0
    for leaf, (before, after) in itertools.product(list(leaves(document)), ROUND):
        hostile = before + at(document, leaf) + after
        try:
            said = from_document(replaced(document, leaf, hostile))
        except ClusterctlError:
            continue  # such facts are not taken in at all
        tried += 1
        fleet = Fleet((node, *others), {"n1": facts, **peers, evil: said})
        for step in requirement.decide(facts, node, fleet).steps:
            carried = {
                k: v for k in step.__slots__ if k != "description" and MARK in repr(v := getattr(step, k))
            }
            assert not carried, (leaf, hostile, carried)
    assert tried > 20


def test_there_are_fleets_to_try() -> None:
    assert {path.parent.name for path in chosen()} >= {"ssh-mesh"}
