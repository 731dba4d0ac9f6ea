"""The bases of all documents and of their parts."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer


@cache
def _left_out(model: type[Part]) -> frozenset[str]:
    """Return the fields that a part of this model leaves out if they are None."""
    if not issubclass(model, Sparse):
        return frozenset()
    return (
        frozenset(name for name, field in model.model_fields.items() if field.default is None) - model.ALWAYS
    )


def _as_written(shown: dict[str, Any], model: type[Part]) -> None:
    """Describe, in the JSON Schema of a model, what is written: the schema's name always, no null that is left out."""
    if "schema_" in model.model_fields:
        shown["required"] = ["schema", *shown.get("required", ())]
    for name in _left_out(model):
        field = shown["properties"][name]
        del field["default"]
        kinds = [kind for kind in field.pop("anyOf") if kind != {"type": "null"}]
        field.update(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})


class Part(BaseModel):
    """An object inside a document; unknown fields are rejected."""

    # A command uses few of the models that it imports, so each is built on its first use.
    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_as_written, defer_build=True)


class Sparse(Part):
    """A part without the fields that are None by default and now; every other field is always written."""

    ALWAYS: ClassVar[frozenset[str]] = frozenset()
    """Fields that are None by default and written nevertheless."""

    @model_serializer(mode="wrap")
    def _leave_out(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        left_out = _left_out(type(self))
        return {name: v for name, v in document.items() if v is not None or name not in left_out}


class Document(Part):
    """A whole document; its first field names its schema."""

    schema_: str = Field(alias="schema")

    @classmethod
    def schema_name(cls) -> str:
        """Return the name of the schema: ``clusterctl.check/1``."""
        return str(cls.model_fields["schema_"].default)

    def document(self) -> dict[str, Any]:
        """Return the document as values that JSON can represent."""
        return self.model_dump(mode="json", by_alias=True)
