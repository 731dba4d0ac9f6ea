"""A few kilobytes of another tool's inventory that multiply to millions: refused with their line, not expanded."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterctl.cli.inventory.importing import converted
from clusterctl.errors import InventoryError
from clusterctl.inventory.imports import ansible_tree, budget, kinds, ssh_config
from clusterctl.inventory.imports.found import ImportedInventory, Source

CHILDREN = "".join(f"[p{i}:children]\nc\n" for i in range(200))
CASES = {
    "a range in many groups": "".join(f"[g{i}]\nh[1:500]\n" for i in range(100)),
    "a range on many lines": "[a]\n" + "h[1:500]\n" * 100,
    "variables of a range": f"[a]\nh[1:500] {' '.join(f'v{i}=1' for i in range(100))}\n",
    "a range in a group of many parents": f"[c]\nh[1:500]\n{CHILDREN}",
    "variables of many parents": f"[c]\nh[1:50]\n{CHILDREN}"
    + "".join(f"[p{i}:vars]\n" + "".join(f"v{k}=1\n" for k in range(20)) for i in range(150)),
    "groups that are in one another in many ways": "".join(
        f"[p{i}_{j}:children]\n" + "".join(f"p{i + 1}_{k}\n" for k in range(10)) for i in range(30) for j in range(10)
    )
    + "[p30_0]\nh\n",
    "merge keys": "a: &a {" + ", ".join(f"k{i}: 1" for i in range(1000)) + "}\nall:\n  hosts:\n"
    + "".join(f"    h{i}: {{<<: [{', '.join(['*a'] * 20)}]}}\n" for i in range(10)),
    "aliases of variables": "all:\n  vars:\n    a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n    b: &b ["
    + ", ".join(["*a"] * 100) + "]\n    c: &c [" + ", ".join(["*b"] * 100) + "]\n  hosts: {h: }\n",
    "all nodes in many partitions": "NodeName=n[1-500]\n"
    + "".join(f"PartitionName=p{i} Nodes=ALL\n" for i in range(100)),
    "many partitions of all nodes": f"NodeName=n[1-500] Partitions={','.join(f'p{i}' for i in range(100))}\n",
    "a list on many lines": "n[1-500]\n" * 100,
    "sections with wildcards": "".join(f"Host n{i} n{i}*\n  User u\n" for i in range(150)),
}  # fmt: skip


def imported(text: str, **beside: str) -> ImportedInventory:
    source = Source("pasted", text, beside)
    return converted(source, kinds.detect(source), Path())[0]


@pytest.mark.parametrize("case", CASES)
def test_is_refused_before_it_is_expanded(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (budget, kinds.ansible, kinds.slurm):
        monkeypatch.setattr(module, "MOST_HELD", 20_000)
    for module in (budget, kinds.ansible, kinds.ssh_config):
        monkeypatch.setattr(module, "MOST_STEPS", 20_000)
    with pytest.raises(
        InventoryError, match=r"pasted(:\d+)?: ranges, groups and variables expand to more"
    ) as caught:
        imported(CASES[case])
    assert caught.value.hint and len(CASES[case]) < 70_000


def test_includes_that_multiply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_config, "_MOST_TEXT", 10_000)
    beside = {str(level): f"Include {level + 1}\n" * 10 for level in range(15)}
    with pytest.raises(InventoryError, match="expand to more than 10000"):
        imported("Include 0\nHost a\n  User x\n", **beside)


def test_a_fleet_in_twenty_groups_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = "".join(f"[g{i}]\nh[1:1000]\n" for i in range(20))
    found = imported(f"[all]\nh[1:1000]\n{groups}[top:children]\n" + "".join(f"g{i}\n" for i in range(20)))
    assert len(found.nodes) == 1000
    assert {name: len(members) for name, members in found.groups.items()} == {
        **{f"g{i}": 1000 for i in range(20)}, "top": 1000,
    }  # fmt: skip
    # Hosts count once against the most that there may be, however often they are named.
    monkeypatch.setattr(ansible_tree, "MAX_NODES", 1000)
    assert len(imported("[a]\nh[1:1000]\n[b]\nh[1:1000]\n").nodes) == 1000
    with pytest.raises(InventoryError, match="pasted:3: more than 1000 hosts"):
        imported("[a]\nh[1:900]\nx[1:101]\n")
