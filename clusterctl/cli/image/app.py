"""``image``: build images with a collective library, and prove that ranks use it."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli.image.build import build
from clusterctl.cli.image.distribute import distribute
from clusterctl.cli.image.name import image_of
from clusterctl.cli.image.prove import prove
from clusterctl.cli.image.show import show
from clusterctl.cli.options import InventoryOption, JsonOption, LimitOption
from clusterctl.cli.terminal import interrupt
from clusterctl.cli.terminal.progress import Progress

app = typer.Typer(
    help="Build, push and prove the image that runs on the nodes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


app.command("build")(build)
app.command("show")(show)
app.command("prove")(prove)
app.command("distribute")(distribute)


@app.command()
def push(
    image: Annotated[
        str | None,
        typer.Argument(metavar="IMAGE", help="Image to push; default: container.image of the inventory."),
    ] = None,
    *,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    json: JsonOption = False,
) -> None:
    """Push an image to the registry in its name.

    Uses the credentials of 'docker login'. Prints NAME@sha256:..., which the inventory accepts as an image.
    """
    from clusterctl.documents.image import ImagePush
    from clusterctl.images import engine
    from clusterctl.images import push as pushing

    name = image or image_of(inventory, limit)
    left = "The registry keeps the layers that it has received."
    with (
        interrupt.explained(left, "To continue"),
        engine.connect() as client,
        Progress("Pushing the image", done="Pushed the image") as progress,
    ):
        pushed = pushing.push(client, name, progress=progress.say)
    if json:
        console.emit_json(
            ImagePush(image=pushed.image, digest=pushed.digest, size_bytes=pushed.size_bytes).document()
        )
    else:
        console.data(f"{pushing.split(pushed.image)[0]}@{pushed.digest}")
