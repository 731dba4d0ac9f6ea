"""``inventory import``: the inventory that was made, and what could not be converted."""

from __future__ import annotations

from typing import Literal

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
