"""Every text of the inventory that must have a form is refused with that form in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, StringConstraints
from pydantic.fields import FieldInfo

from clusterctl.inventory.model import InventoryFile
from clusterctl.inventory.shapes import shape_of


def forms(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the path of every text with a pattern below a type, and whether it is a mapping's key."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            if any(getattr(part, "pattern", None) for part in field.metadata):
                yield (*path, name), False
            yield from forms(field.annotation, (*path, name))
    elif get_origin(kind) is Annotated:
        inner, *extra = get_args(kind)
        parts = [m for part in extra for m in (part.metadata if isinstance(part, FieldInfo) else [part])]
        if any(isinstance(part, StringConstraints) and part.pattern for part in parts):
            yield path, False
        yield from forms(inner, path)
    elif get_origin(kind) is dict:
        key, value = get_args(kind)
        if any(True for _ in forms(key, path)):
            yield (*path, "key"), True
        yield from forms(value, (*path, "key"))
    else:
        for part in get_args(kind):
            if part is not Ellipsis:
                yield from forms(part, path)


FORMS = sorted(set(forms(InventoryFile)))


def test_the_forms_are_found() -> None:
    found = {".".join(path) for path, _ in FORMS}
    assert {
        "defaults.user",
        "nodes.container.name",
        "defaults.requirements.ssh_mesh.name",
        "groups.key",
    } <= found


def test_each_has_words() -> None:
    assert [".".join(path) for path, is_key in FORMS if shape_of(path, is_key=is_key) is None] == []
