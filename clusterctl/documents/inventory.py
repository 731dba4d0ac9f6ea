"""``inventory``: what was imported, written or validated, and the resolved settings of nodes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part


class ImportNote(Part):
    """A setting that was not converted, and its place; line 0 is the file as a whole."""

    file: str
    line: int
    message: str


class Import(Document):
    """``clusterctl inventory import --json``; ``text`` is the inventory as YAML."""

    schema_: Literal["clusterctl.import/1"] = Field(default="clusterctl.import/1", alias="schema")
    kind: str
    text: str
    nodes: tuple[str, ...]
    notes: tuple[ImportNote, ...]


class InventoryValidation(Document):
    """``clusterctl inventory validate --json``; ``source`` is null without an inventory."""

    schema_: Literal["clusterctl.inventory-validation/1"] = Field(
        default="clusterctl.inventory-validation/1", alias="schema"
    )
    source: str | None
    nodes: tuple[str, ...]
    groups: tuple[str, ...]


class InventorySetting(Part):
    """A setting, its value (secrets as stars), and the line and level that set it, or ``default``."""

    key: str
    value: Any
    origin: str


class InventoryNode(Part):
    """A node with its settings: those of the file, or with ``--all`` every setting."""

    name: str
    address: str
    user: str | None
    port: int | None
    groups: tuple[str, ...]
    settings: tuple[InventorySetting, ...]


class InventoryNodes(Document):
    """``clusterctl inventory show --json``; ``source`` is null without an inventory."""

    schema_: Literal["clusterctl.inventory/1"] = Field(default="clusterctl.inventory/1", alias="schema")
    source: str | None
    launcher: str
    nodes: tuple[InventoryNode, ...]


class InventoryInit(Document):
    """``clusterctl inventory init --json``; ``output`` is null if ``text`` was printed instead of written."""

    schema_: Literal["clusterctl.inventory-init/1"] = Field(
        default="clusterctl.inventory-init/1", alias="schema"
    )
    output: str | None
    text: str
    nodes: tuple[str, ...]
    unreachable: tuple[str, ...]


class ForgottenFile(Part):
    """A known_hosts file: nodes whose keys were removed, in how many lines; lines with wildcards, which stay."""

    file: str
    nodes: tuple[str, ...]
    lines: int
    pattern_lines: tuple[int, ...]


class HostKeysForgotten(Document):
    """``clusterctl inventory forget-host-keys --json``; ``without_key`` are nodes that had no recorded key."""

    schema_: Literal["clusterctl.host-keys-forgotten/1"] = Field(
        default="clusterctl.host-keys-forgotten/1", alias="schema"
    )
    files: tuple[ForgottenFile, ...]
    without_key: tuple[str, ...]
