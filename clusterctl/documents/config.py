"""``config show``: clusterctl's own settings and where each value comes from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part


class ConfigSetting(Part):
    """A setting; ``origin`` is ``default``, ``$VARIABLE``, or the path of the configuration file."""

    name: str
    value: int | float | str
    origin: str
    default: int | float | str
    variable: str
    option: str | None
    help: str


class Config(Document):
    """``clusterctl config show --json``; ``file`` is the configuration file, whether it exists or not."""

    schema_: Literal["clusterctl.config/1"] = Field(default="clusterctl.config/1", alias="schema")
    file: str
    file_exists: bool
    settings: tuple[ConfigSetting, ...]
