"""Choose the image of the ``image`` commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clusterctl.cli.render.output import load
from clusterctl.errors import ArtifactError
from clusterctl.text.grouping import grouped


def image_of(
    path: Path | None, limit: Sequence[str] | None, *, option: str = "an image on the command line"
) -> str:
    """Return the one image that the inventory sets for its nodes; raise ArtifactError for no image or several.

    ``option`` describes, for the hint, how to give the image on the command line.
    """
    from clusterctl.inventory import nodeset

    named = grouped((node.container.image, node.name) for node in load(path, limit).nodes)
    if len(named) > 1:
        listed = "; ".join(f"{nodeset.fold(names)}: {image or 'none'}" for image, names in named.items())
        raise ArtifactError(
            f"the nodes have different images: {listed}", hint="give one image, or select nodes with --limit"
        )
    (image,) = named
    if image is None:
        raise ArtifactError(
            "no image was given",
            hint=f"give {option}, or set it in the inventory: defaults: {{container: {{image: ...}}}}",
        )
    return image
