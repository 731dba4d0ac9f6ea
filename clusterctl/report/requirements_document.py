"""The requirements in words as a ``clusterctl.requirements/1`` document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from clusterctl.documents.requirements import DescribedRequirement, Requirements, RequirementSetting
from clusterctl.inventory import reference
from clusterctl.requirements.catalog import ALL
from clusterctl.text.markdown import plain


def document_of(names: Iterable[str]) -> dict[str, Any]:
    """Return the described requirements, in the given order."""
    shipped = reference.shipped()
    return Requirements(requirements=tuple(_described(name, shipped) for name in names)).document()


def _described(name: str, shipped: reference.InventoryReference) -> DescribedRequirement:
    module, about = ALL[name], ALL[name].ABOUT
    return DescribedRequirement(
        name=name,
        title=module.TITLE,
        checks=plain(about.checks),
        why=plain(about.why),
        bootstrap=plain(about.bootstrap),
        undo=plain(about.undo),
        settings=tuple(_settings(about.settings, shipped)),
        page=f"docs/requirements/{name}.md",
    )


def _settings(paths: Iterable[str], shipped: reference.InventoryReference) -> Iterator[RequirementSetting]:
    for path in paths:
        for key, values, default, meaning in shipped.keys_at(path):
            yield RequirementSetting(
                key=plain(key), values=plain(values), default=plain(default), meaning=plain(meaning)
            )
