"""Translate pydantic's errors into problems of the inventory: the key as written, what was expected, a suggestion."""

from __future__ import annotations

import types
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from clusterctl.inventory.model import NodeSpec
from clusterctl.inventory.problems import InventoryProblem, KeyPath, key_text
from clusterctl.inventory.shapes import shape_of
from clusterctl.inventory.yaml_source import Document
from clusterctl.text.model_errors import problem
from clusterctl.text.model_errors import shown as _value

_UNQUOTED = {
    "int_type": "expected a whole number, without quotes",
    "float_type": "expected a number, without quotes",
}
_READ_AS = {bool: "a boolean", int: "a number", float: "a number", type(None): "null"}
# What Ansible, ssh_config and other tools call these keys.
_ELSEWHERE = {
    "host": "address", "hostname": "address", "ip": "address", "hosts": "nodes", "username": "user",
    "key": "identity_file", "private_key": "identity_file", "private_key_file": "identity_file",
    "identityfile": "identity_file", "proxyjump": "proxy_jump",
}  # fmt: skip


def problems(error: ValidationError, document: Document, model: type[BaseModel]) -> list[InventoryProblem]:
    """Return one problem for each key that the model rejected."""
    sentences: dict[KeyPath, list[str]] = {}
    for detail in error.errors(include_url=False, include_context=True):
        path = _path(detail, document.value)
        if detail["type"] == "too_short" and detail["input"]:
            continue  # pydantic counts only valid entries; the others have problems of their own
        sentence = _sentence(detail, path, document, model)
        if sentence not in sentences.setdefault(path, []):
            sentences[path].append(sentence)
    # A union is rejected once per alternative; one problem lists all of them.
    return [
        InventoryProblem(document.line(path), key_text(path), _joined(parts))
        for path, parts in sentences.items()
    ]


def _joined(sentences: list[str]) -> str:
    """Return the sentences as one, with the rejected value named once."""
    if len(sentences) > 1 and all(one.startswith("expected ") for one in sentences):
        wanted, values = zip(*(one[len("expected ") :].rsplit(", not ", 1) for one in sentences), strict=True)
        if len(set(values)) == 1:
            return f"expected {' or '.join(wanted)}, not {values[0]}"
    return " or ".join(sentences)


def _path(detail: ErrorDetails, tree: Any) -> KeyPath:
    """Return the location without the names of union members that pydantic mixes into it."""
    path: list[str | int] = []
    for part in detail["loc"]:
        in_mapping = isinstance(tree, dict) and part in tree
        if in_mapping or (isinstance(tree, list) and isinstance(part, int) and part < len(tree)):
            tree = tree[part]
            path.append(part)
    if detail["type"] == "missing":
        path.append(detail["loc"][-1])
    return tuple(path)


def _sentence(detail: ErrorDetails, path: KeyPath, document: Document, model: type[BaseModel]) -> str:
    kind, context, value = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == "extra_forbidden":
        keys = _keys(model, path[:-1])
        meant = _meant(str(path[-1]), keys)
        return f"unknown key{meant}{' Expected' if meant else '; expected'} one of {', '.join(keys)}"
    if path == ("nodes",) and isinstance(value, dict):
        first = _value(next(iter(value), "gpu01")).strip("'")
        return f"{problem(detail)}; write '- name: {first}', its keys below, for each node"
    if kind == "missing" and path == ("version",):
        return "this key is missing; add 'version: 1'"
    if path == ("version",):
        return f"expected version 1 (written without quotes), not {_value(value)}"
    if kind == "string_type" and type(value) in _READ_AS:
        text = document.written.get(path, "")
        return f'expected text, but YAML reads {text or "nothing"} as {_READ_AS[type(value)]}; write "{text}"'
    if kind == "string_type":
        return f"expected text, not {_value(value)}"
    if kind in ("literal_error", "enum"):
        expected = context["expected"].replace("'", "")
        choices = expected.replace(" or ", ", ").split(", ")
        return f"expected {expected}, not {_value(value)}{_meant(str(value), choices)}"
    if kind == "string_pattern_mismatch":
        shape = shape_of(tuple(str(part) for part in path), is_key=detail["loc"][-1] == "[key]")
        return f"{_value(value)} is not {shape}" if shape else f"{_value(value)} is not a valid value"
    if kind == "too_short":
        return "expected at least one node" if path == ("nodes",) else "expected at least one entry"
    if path[:1] == ("nodes",) and len(path) == 2 and isinstance(value, str):
        key, colon, rest = value.partition(":")
        if colon and rest and key in NodeSpec.model_fields:
            return f"expected a mapping, not {_value(value)}; write '- {key}: {rest}', with a blank behind the colon"
    if kind in _UNQUOTED:
        return f"{_UNQUOTED[kind]}, not {_value(value)}"
    return problem(detail)


def _keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Return the keys that the model accepts at a path."""
    kind: Any = model
    for part in path:
        kind = _member(kind, part)
    owner = _model(kind)
    return list(owner.model_fields) if owner is not None else []


def _member(kind: Any, part: str | int) -> Any:
    owner = _model(kind)
    if owner is not None:
        return owner.model_fields[str(part)].annotation
    arguments = [argument for argument in get_args(kind) if argument is not Ellipsis]
    return arguments[-1] if arguments else None


def _model(kind: Any) -> type[BaseModel] | None:
    """Return a type if it is a model, or the model that it wraps in Annotated or Optional."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    if get_origin(kind) in (Annotated, Union, types.UnionType):
        return next((found for found in map(_model, get_args(kind)) if found is not None), None)
    return None


def _meant(word: str, known: list[str]) -> str:
    word = word.lower()
    elsewhere = _ELSEWHERE.get(word.removeprefix("ansible_").removeprefix("ssh_"))
    close = [elsewhere] if elsewhere in known else get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
