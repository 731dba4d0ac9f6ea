"""The options of Pyxis, with which srun starts ranks in an image."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.errors import ArtifactError
from clusterctl.inventory.model import ContainerSettings


def options(container: ContainerSettings, names: Sequence[str]) -> list[str]:
    """Return the options of Pyxis (https://github.com/NVIDIA/pyxis/wiki/Usage), which srun reads.

    Of a variable that the image sets, too, Pyxis takes the image's value, unless ``--container-env`` names it.
    """
    found = [f"--container-image={_enroot_image(container.image or '')}"]
    for volume in container.volumes:
        if "," in volume or not volume.startswith(("/", ".")):
            raise ArtifactError(
                f"Pyxis cannot mount the volume {volume!r}, which is not a path or has a comma",
                hint="give it as /on/the/host:/in/the/container in `container.volumes`",
            )
    if container.volumes:
        found.append(f"--container-mounts={','.join(container.volumes)}")
    return [*found, f"--container-env={','.join(dict.fromkeys(names))}"]


def _enroot_image(image: str) -> str:
    """Return an image as enroot names it: ``registry#name:tag``; a path stays as it is."""
    if image.startswith(("/", "./")):
        return image
    if "@" in image:
        raise ArtifactError(
            f"Pyxis reads what is before the @ of {image!r} as a user",
            hint="give the image by a tag, or as the path of a squashfs file that `enroot import` made",
        )
    first, slash, rest = image.partition("/")
    return f"{first}#{rest}" if slash and ("." in first or ":" in first or first == "localhost") else image
