"""Convert recorded facts to and from JSON documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from clusterctl.documents.facts import Facts, FleetFacts
from clusterctl.errors import FactsError
from clusterctl.facts.model.node import NodeFacts
from clusterctl.text import model_errors
from clusterctl.text.secret.scrub import scrubbed_json
from clusterctl.transport.base import Failure, HostMap

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = Facts.schema_name()
_KEYS = tuple(field.name for field in fields(NodeFacts))


@cache
def _adapter() -> TypeAdapter[NodeFacts]:
    from pydantic import TypeAdapter

    return TypeAdapter(NodeFacts)


def to_document(facts: NodeFacts) -> dict[str, Any]:
    """Return the facts as values that JSON can represent."""
    from pydantic_core import to_jsonable_python

    # The adapter is not used: building its schema takes longer than writing the facts of a hundred nodes.
    return {"schema": SCHEMA, **to_jsonable_python(_shown(facts), inf_nan_mode="null")}


def _shown(facts: NodeFacts) -> NodeFacts:
    """Return the facts without secrets in daemon.json, which memory holds unchanged because it is merged later."""
    docker = facts.docker
    whole = docker.daemon_config.value
    if whole is None or (clean := scrubbed_json(whole)) == whole:
        return facts
    config = replace(docker.daemon_config, value=clean)
    return replace(facts, docker=replace(docker, daemon_config=config))


def fleet_to_document(facts: HostMap[NodeFacts], subjects: frozenset[str] | None = None) -> dict[str, Any]:
    """Return the facts of every node, or the failure of a node without facts.

    ``subjects`` are the subjects that the nodes were probed for; None means all. The document holds facts as
    objects, which ``RunDir.write`` converts to JSON in one pass.
    """
    nodes: dict[str, Any] = {}
    for name, outcome in facts.items():
        if isinstance(outcome, Failure):
            nodes[name] = {"error": {"kind": outcome.kind.value, "message": outcome.message}}
        else:
            shown = _shown(outcome)
            nodes[name] = {"schema": SCHEMA, **{key: getattr(shown, key) for key in _KEYS}}
    asked = None if subjects is None else tuple(sorted(subjects))
    return FleetFacts(subjects=asked, nodes=nodes).document()


def from_document(document: object) -> NodeFacts:
    """Return the facts of a document; raise FactsError, with the key, for a malformed document."""
    from pydantic import ValidationError

    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        raise FactsError(
            f"the document does not have the schema {SCHEMA}", hint="gather the facts again: clusterctl check"
        )
    try:
        return _adapter().validate_python({key: value for key, value in document.items() if key != "schema"})
    except ValidationError as error:
        raise FactsError(
            f"recorded facts cannot be used: {model_errors.first(error)}",
            hint="another version of clusterctl wrote them; gather the facts again: clusterctl check",
        ) from None


def fleet_from_document(document: object) -> dict[str, NodeFacts]:
    """Return the facts of each node in a fleet's document, without nodes that have none that this version reads."""
    nodes = document.get("nodes") if isinstance(document, Mapping) else None
    found: dict[str, NodeFacts] = {}
    for name, one in nodes.items() if isinstance(nodes, Mapping) else ():
        try:
            found[str(name)] = from_document(one)
        except FactsError:
            continue  # the node failed, or another version of clusterctl wrote it
    return found
