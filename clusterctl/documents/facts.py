"""The facts of one node and of a fleet: ``facts.json`` of a run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from clusterctl.documents.base import Document


class Facts(Document):
    """The facts of one node; the fields are those of ``NodeFacts`` in ``clusterctl/facts/model``."""

    model_config = ConfigDict(extra="allow")

    schema_: Literal["clusterctl.facts/1"] = Field(default="clusterctl.facts/1", alias="schema")


class FleetFacts(Document):
    """``facts.json`` of a run: the facts of every node by its name.

    A node without facts has ``{"error": {"kind", "message"}}``.
    """

    schema_: Literal["clusterctl.fleet-facts/1"] = Field(default="clusterctl.fleet-facts/1", alias="schema")
    subjects: tuple[str, ...] | None = None
    """The subjects that were requested; absent if all were."""
    nodes: dict[str, Any]
    """The facts of a node are objects that the JSON writer converts in one pass."""

    def document(self) -> dict[str, Any]:
        """Return the document without a copy of the facts, because those of a large fleet are megabytes."""
        asked = {} if self.subjects is None else {"subjects": list(self.subjects)}
        return {"schema": self.schema_, **asked, "nodes": self.nodes}
