"""The error that ends a command with ``--json``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part


class ErrorBody(Part):
    """What is wrong, what to do, and the exit code of the command."""

    message: str
    hint: str | None
    exit_code: int


class Error(Document):
    """Any command with ``--json`` that could not start or was interrupted."""

    schema_: Literal["clusterctl.error/1"] = Field(default="clusterctl.error/1", alias="schema")
    error: ErrorBody
