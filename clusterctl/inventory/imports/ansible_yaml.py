"""Ansible's YAML: inventories and variable files, with lines; vault values are marked, never decrypted.

JSON is YAML too, so the output of ``ansible-inventory --list`` and of inventory scripts is also read: there, hosts and
children are lists, and ``_meta`` has the hosts' variables. In YAML, Ansible refuses a file with such a list.
"""

from __future__ import annotations

from typing import Any

import yaml

from clusterctl.errors import InventoryError
from clusterctl.inventory.imports.ansible_tree import Tree, Variable, Variables
from clusterctl.inventory.imports.budget import Budget
from clusterctl.inventory.imports.found import ImportNote, Source
from clusterctl.inventory.yaml_source import MAX_VALUES, compose

_TAG = "tag:yaml.org,2002:"
_GROUP_KEYS = ("hosts", "vars", "children")
_META = "_meta"
_VAULT = "__ansible_vault"


def read(source: Source, tree: Tree) -> None:
    """Add an inventory file to the tree; raise InventoryError for invalid YAML."""
    budget = Budget(source.name, MAX_VALUES)
    groups = dict(_pairs(compose(source.text, source.name), budget))
    meta = groups.pop(_META, None)
    is_listed = source.text.lstrip().startswith("{")
    for name, node in groups.items():
        _group(name, node, source.name, tree, budget, is_listed, depth=0)
    for name, hosts in _pairs(meta, budget) if meta is not None else ():
        for host, node in _pairs(hosts, budget) if name == "hostvars" else ():
            if host in tree.hosts:
                tree.host_variables[host].update(_variables(node, source.name, budget))


def variables(text: str, file: str, notes: list[ImportNote]) -> Variables:
    """Return the variables of a file under group_vars or host_vars."""
    if text.startswith("$ANSIBLE_VAULT;"):
        notes.append(ImportNote(file, 1, "not imported: the file is encrypted by ansible-vault"))
        return {}
    if not any(line.strip(" -.") and not line.lstrip().startswith("#") for line in text.splitlines()):
        return {}
    root = compose(text, file)
    if not isinstance(root, yaml.MappingNode):
        notes.append(
            ImportNote(file, root.start_mark.line + 1, "not imported: expected a mapping of variables")
        )
        return {}
    return _variables(root, file, Budget(file, MAX_VALUES))


def _group(
    name: str, node: yaml.Node, file: str, tree: Tree, budget: Budget, is_listed: bool, *, depth: int
) -> None:
    line = node.start_mark.line + 1
    budget.spend(1, line)
    group = tree.group(name, line)
    if depth > 32:
        tree.notes.append(
            ImportNote(file, line, f"the group {name} is not imported: it is nested too deeply")
        )
        return
    if is_listed and isinstance(node, yaml.SequenceNode):
        for host in _listed(node):
            _host(host.value, host, name, file, tree, budget)
        return
    if not isinstance(node, yaml.MappingNode):
        if not _is_null(node):
            tree.notes.append(ImportNote(file, line, f"the group {name} is not imported: expected a mapping"))
        return
    for key, value in _pairs(node, budget):
        at = value.start_mark.line + 1
        if key not in _GROUP_KEYS:
            tree.notes.append(
                ImportNote(
                    file,
                    at,
                    f"the key {key!r} of the group {name} is not imported: Ansible does not define it",
                )
            )
        elif isinstance(value, yaml.SequenceNode) and not is_listed:
            raise InventoryError(
                f"{file}:{at}: {key} of the group {name} is a list; expected a mapping",
                hint=f"write one name with a colon per line below {key}; Ansible refuses the list, too",
            )
        elif key == "vars":
            group.variables.update(_variables(value, file, budget))
        elif not isinstance(value, yaml.MappingNode):
            for one in _listed(value):
                if key == "children":
                    group.children[one.value] = None
                    tree.group(one.value, one.start_mark.line + 1)
                else:
                    _host(one.value, one, name, file, tree, budget)
        else:
            for child, inner in _pairs(value, budget):
                if key == "children":
                    group.children[child] = None
                    _group(child, inner, file, tree, budget, is_listed, depth=depth + 1)
                else:
                    _host(child, inner, name, file, tree, budget)


def _listed(node: yaml.Node) -> list[yaml.ScalarNode]:
    """Return the texts of a list, or one text alone; an empty list for any other node."""
    if isinstance(node, yaml.ScalarNode) and not _is_null(node):
        return [node]
    if not isinstance(node, yaml.SequenceNode):
        return []
    return [item for item in node.value if isinstance(item, yaml.ScalarNode)]


def _host(pattern: str, node: yaml.Node, group: str, file: str, tree: Tree, budget: Budget) -> None:
    line = node.start_mark.line + 1
    try:
        tree.add_hosts(tree.groups[group], pattern, _variables(node, file, budget), file, line)
    except ValueError as error:
        tree.notes.append(ImportNote(file, line, f"not imported: {error}"))


def _variables(node: yaml.Node, file: str, budget: Budget) -> Variables:
    found: Variables = {}
    for name, value in _pairs(node, budget):
        line = value.start_mark.line + 1
        vault = value.tag in ("!vault", "!vault-encrypted") or _VAULT in dict(_pairs(value, budget))
        found[name] = Variable(None if vault else _value(value, budget), file, line, vault)
    return found


def _pairs(node: yaml.Node, budget: Budget) -> list[tuple[str, yaml.Node]]:
    """Return a mapping's entries with keys as text, including merge keys (<<); an empty list for any other node."""
    if not isinstance(node, yaml.MappingNode):
        return []
    merged: list[tuple[str, yaml.Node]] = []
    own: list[tuple[str, yaml.Node]] = []
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if key.tag == f"{_TAG}merge":
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for source in reversed(sources):
                if isinstance(source, yaml.MappingNode) and source is not node:
                    budget.spend(len(source.value), source.start_mark.line + 1)
                    merged += [(k.value, v) for k, v in source.value if isinstance(k, yaml.ScalarNode)]
        else:
            own.append((key.value, value))
    return list({**dict(merged), **dict(own)}.items())


def _value(node: yaml.Node, budget: Budget, depth: int = 0) -> Any:
    budget.spend(1, node.start_mark.line + 1)
    if depth > 32:
        return None
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, budget, depth + 1) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {k: _value(v, budget, depth + 1) for k, v in _pairs(node, budget)}
    assert isinstance(node, yaml.ScalarNode)
    text, kind = str(node.value), node.tag.removeprefix(_TAG)
    if kind == "null":
        return None
    if kind == "bool":
        return yaml.SafeLoader.bool_values.get(text.lower(), text)
    if kind == "int":
        try:
            return int(text.replace("_", ""), 0 if not text.lstrip("+-").startswith("0") else 10)
        except ValueError:
            return text
    return text


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}null"
