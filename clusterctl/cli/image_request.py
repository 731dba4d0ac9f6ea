"""What the verbs of ``image`` share: which image is meant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clusterctl.cli.artifact_output import load
from clusterctl.errors import ArtifactError


def image_of(
    path: Path | None, limit: Sequence[str] | None, *, option: str = "one on the command line"
) -> str:
    """Return the one image that the inventory's nodes run; raise ArtifactError where they name none, or several.

    ``option`` is how else the verb may be told.
    """
    from clusterctl.inventory import nodeset

    named: dict[str | None, list[str]] = {}
    for node in load(path, limit).nodes:
        named.setdefault(node.container.image, []).append(node.name)
    if len(named) > 1:
        listed = "; ".join(f"{nodeset.fold(names)}: {image or 'none'}" for image, names in named.items())
        raise ArtifactError(
            f"the nodes name different images: {listed}", hint="say which one is meant, or use --limit"
        )
    (image,) = named
    if image is None:
        raise ArtifactError(
            "no image is named",
            hint=f"name {option}, or in the inventory as defaults: {{container: {{image: ...}}}}",
        )
    return image
