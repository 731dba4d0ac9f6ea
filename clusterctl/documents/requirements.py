"""``requirements``: what each requirement checks, why, and what bootstrap does about it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part


class RequirementSetting(Part):
    """A key of the inventory that changes a requirement; ``default`` is empty if the key is unset by default."""

    key: str
    values: str
    default: str
    meaning: str


class DescribedRequirement(Part):
    """One requirement in words; ``page`` is the path of its page in the repository."""

    name: str
    title: str
    checks: str
    why: str
    bootstrap: str
    undo: str
    settings: tuple[RequirementSetting, ...]
    page: str


class Requirements(Document):
    """``clusterctl requirements list --json`` and ``requirements show NAME --json``."""

    schema_: Literal["clusterctl.requirements/1"] = Field(default="clusterctl.requirements/1", alias="schema")
    requirements: tuple[DescribedRequirement, ...]
