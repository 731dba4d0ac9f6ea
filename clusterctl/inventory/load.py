"""Load an inventory: choose the file and read it into a frozen model."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clusterctl.errors import InventoryError
from clusterctl.inventory import explain, short_forms, targets, yaml_source
from clusterctl.inventory.discover import this_machine
from clusterctl.inventory.model import Inventory, InventoryFile
from clusterctl.inventory.problems import KeyPath, refusal
from clusterctl.inventory.resolve import resolve
from clusterctl.text import user_files

VARIABLE = "CLUSTERCTL_INVENTORY"
DEFAULT_FILE = Path("inventory.yaml")
_NUMBER_TEXTS = frozenset({"shm_size", "memlock", "stack"})


@dataclass(frozen=True, slots=True)
class Loaded:
    """An inventory with the file that it was read from; None and None for targets and for this machine."""

    inventory: Inventory
    document: yaml_source.Document | None = None
    file: InventoryFile | None = None


def load(path: Path | None = None) -> Inventory:
    """Return the inventory of ``path``, else $CLUSTERCTL_INVENTORY, else ./inventory.yaml, else this machine.

    A path without a file may hold targets: ``root@gpu[01-16]``. No node is contacted. Raise InventoryError with every
    problem of the file.
    """
    return read(path).inventory


def read(path: Path | None = None) -> Loaded:
    """Return what ``load`` returns, with the file."""
    chosen = path or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if chosen is None:
        # A dangling link is an error of the file, not a reason to use this machine.
        if not os.path.lexists(DEFAULT_FILE):
            return Loaded(this_machine())
        chosen = DEFAULT_FILE
    if targets.looks_like_targets(str(chosen)) and not os.path.lexists(chosen):
        return Loaded(targets.inventory_of(str(chosen)))
    # A pipe of the shell is not in a directory of the user's.
    folder = Path.cwd() if user_files.is_shell_pipe(chosen) else chosen.resolve().parent
    try:
        document = yaml_source.read(chosen)
        file = _parsed(document)
        return Loaded(resolve(file, document, folder), document, file)
    except InventoryError as error:
        raise _of_another_tool(chosen) or error from None


def _of_another_tool(path: Path) -> InventoryError | None:
    """Return the error for a file that another tool can read as its inventory; None for any other file."""
    from clusterctl.inventory.imports import kinds
    from clusterctl.inventory.imports.found import Source

    try:
        text = user_files.read(path, yaml_source.MAX_BYTES).decode("utf-8-sig")
    except (OSError, ValueError):
        return None
    kind = kinds.of_another_tool(Source(str(path), text))
    if kind is None:
        return None
    return InventoryError(
        f"{path}: {kinds.TITLES[kind]}; expected an inventory of clusterctl's",
        hint=f"convert it: clusterctl inventory import {shlex.quote(str(path))} -o inventory.yaml",
    )


def from_text(text: str | bytes, file: str = "inventory.yaml", folder: Path | None = None) -> Inventory:
    """Parse a text as an inventory; ``file`` is its name in messages."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return from_document(yaml_source.parse(data, file), folder or Path.cwd())


def from_document(document: yaml_source.Document, folder: Path) -> Inventory:
    """Return the inventory of a document; its relative paths start at the given directory."""
    return resolve(_parsed(document), document, folder)


def _parsed(document: yaml_source.Document) -> InventoryFile:
    """Return the file as written; raise InventoryError with every key that the model rejects."""
    tree = short_forms.expanded(_numbers_as_written(document.value, (), document))
    try:
        # Strict, because in YAML a quoted 8 is a text and yes is a boolean, and neither is a number of GPUs.
        # JSON, because only there strict pydantic accepts a list for a tuple and a text for an enum.
        return InventoryFile.model_validate_json(json.dumps(tree), strict=True)
    except ValidationError as error:
        raise refusal(document.file, explain.problems(error, document, InventoryFile)) from None


def _numbers_as_written(value: Any, path: KeyPath, document: yaml_source.Document) -> Any:
    """Replace numbers by their text in the file where the model expects a text that is usually a number."""
    if isinstance(value, dict):
        return {key: _numbers_as_written(item, (*path, key), document) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers_as_written(item, (*path, index), document) for index, item in enumerate(value)]
    parent = path[-2] if len(path) > 1 else None
    textual = parent == "env" or (parent == "container" and path[-1] in _NUMBER_TEXTS)
    if textual and isinstance(value, (int, float)) and not isinstance(value, bool):
        return document.written[path]
    return value
