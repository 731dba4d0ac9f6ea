"""Ansible's INI dialect: sections of hosts, ``:vars`` and ``:children``. Only Ansible itself has a parser for it."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from typing import Any

from clusterctl.inventory.imports.ansible_tree import Group, Tree, Variable, Variables
from clusterctl.inventory.imports.found import ImportNote, Source, numbered_lines

_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_LONGEST_LITERAL = 4096


def looks_like(text: str) -> bool:
    """Return whether the text has a section, or a host with a variable of Ansible's."""
    return (
        re.search(r"^\[[^\]\s:]+(:\w+)?\]\s*(#.*)?$", text, re.MULTILINE) is not None
        or re.search(r"^[^#;\s]\S*\s.*\bansible_\w+\s*=", text, re.MULTILINE) is not None
    )


def read(source: Source, tree: Tree) -> None:
    """Add the file to the tree; add a note for each line that cannot be parsed."""
    section, kind = "ungrouped", "hosts"
    for number, raw in numbered_lines(source.name, source.text):
        line = raw.strip()
        if not line or line[0] in ";#":
            continue
        match = _SECTION.fullmatch(line)
        if match is not None:
            section, kind = match[1], match[2] or "hosts"
            if kind not in ("hosts", "vars", "children"):
                tree.notes.append(
                    ImportNote(
                        source.name, number, f"the section {line} is not imported: unknown kind of section"
                    )
                )
            else:
                tree.group(section, number)
            continue
        if kind == "vars":
            name, equals, value = line.partition("=")
            if not equals:
                tree.notes.append(ImportNote(source.name, number, "not imported: expected NAME=VALUE"))
                continue
            variables = tree.group(section, number).variables
            variables[name.strip()] = Variable(_literal(value.strip()), source.name, number)
        elif kind == "children":
            child = line.split("#", 1)[0].strip()
            tree.group(child, number)
            tree.group(section, number).children[child] = None
        elif kind == "hosts":
            _host_line(line, tree.group(section, number), source.name, number, tree)


def _host_line(line: str, group: Group, file: str, number: int, tree: Tree) -> None:
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        tree.notes.append(ImportNote(file, number, f"not imported: {error}"))
        return
    if not words:
        return
    variables: Variables = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if equals:
            variables[name] = Variable(_literal(value), file, number)
        else:
            tree.notes.append(
                ImportNote(file, number, f"not imported: expected NAME=VALUE, not {name[:60]!r}")
            )
    try:
        tree.add_hosts(group, words[0], variables, file, number)
    except ValueError as error:
        tree.notes.append(ImportNote(file, number, f"not imported: {error}"))


def _literal(text: str) -> Any:
    """Parse a value as Ansible does: as a Python literal if possible, else as text."""
    if len(text) > _LONGEST_LITERAL:
        return text
    try:
        with warnings.catch_warnings():
            # Of a host name such as gpu-1.internal, Python's parser warns of an invalid number.
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
