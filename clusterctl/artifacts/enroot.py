"""The command that starts a rank in an image by enroot itself, for a Slurm without the plugin Pyxis."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.errors import ArtifactError
from clusterctl.inventory.model import ContainerSettings

# enroot gives a container no variable of the host by itself; Slurm sets these for each task.
_START = (
    """for name in $(env | sed -n 's/^\\(SLURM_[A-Z_]*\\|CUDA_VISIBLE_DEVICES\\)=.*/\\1/p'); do """
    """set -- --env "$name" "$@"; done; exec enroot start "$@\""""
)


def require_file(image: str) -> None:
    """Raise ArtifactError for an image that is not a file: enroot would have to import it on each node."""
    if not image.startswith(("/", "./")):
        raise ArtifactError(
            f"enroot without Pyxis starts only a squashfs file, not the image {image!r}",
            hint="run `enroot import -o FILE.sqsh docker://IMAGE` once, in a directory that all nodes share, and give "
            "the path of that file",
        )


def words(container: ContainerSettings, names: Sequence[str]) -> tuple[str, ...]:
    """Return the words before a program that start it in the image (enroot's doc/cmd/start.md), as a task of srun.

    ``names``: variables of the host that the program gets, besides Slurm's. Raise ArtifactError for an image that is
    not a file, and for a volume that enroot would misread.
    """
    image = container.image or ""
    require_file(image)
    options: list[str] = []
    for volume in container.volumes:
        source, *rest = volume.split(":")
        target, *flags = rest or [source]
        if not source.startswith(("/", ".")) or len(flags) > 1 or any(letter.isspace() for letter in volume):
            raise ArtifactError(
                f"enroot cannot mount the volume {volume!r}, which is not a path or has a blank",
                hint="give it as /on/the/host:/in/the/container in `container.volumes`",
            )
        options += [
            "--mount",
            ":".join((source, target, "none", ",".join(("rbind", "x-create=auto", *flags)))),
        ]
    for name in dict.fromkeys(names):
        options += ["--env", name]
    return ("sh", "-c", _START, "enroot", *options, image)
