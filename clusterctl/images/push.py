"""Push an image to the registry in its name, with the credentials of docker's own configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl.errors import ImageError
from clusterctl.images import engine
from clusterctl.images.layers import Layers

if TYPE_CHECKING:
    import docker


@dataclass(frozen=True, slots=True)
class Pushed:
    """An image in its registry, with the registry's ``digest`` (``sha256:...``)."""

    image: str
    digest: str
    size_bytes: int


def push(client: docker.DockerClient, image: str, *, progress: Callable[[str], None]) -> Pushed:
    """Push ``NAME[:TAG]`` and return its digest; ``progress`` is called with one short line at a time.

    Credentials are those of ``docker login`` (~/.docker/config.json and its helpers), never an argument.
    """
    import docker

    try:
        client.images.get(image)
    except docker.errors.ImageNotFound:
        raise ImageError(
            f"the engine has no image {image}", hint=f"clusterctl image build --tag {image} ..."
        ) from None
    repository, tag = split(image)
    layers = Layers(f"pushing {image}")
    for message in client.api.push(repository, tag=tag, stream=True, decode=True):
        if "error" in message:
            said = str(message["error"]).strip()
            raise ImageError(f"{image} could not be pushed: {said}", hint=engine.hint(said))
        progress(layers.heard(message))
        aux = message.get("aux") or {}
        if aux.get("Digest"):
            return Pushed(image, str(aux["Digest"]), int(aux.get("Size") or 0))
    raise ImageError(f"the registry of {image} returned no digest", hint="push it again")


def split(image: str) -> tuple[str, str]:
    """Return repository and tag (default ``latest``); refuse a digest, which cannot be pushed."""
    if "@" in image:
        raise ImageError(
            f"{image} is named by its digest", hint="a push goes to a tag: NAME:TAG, as it was built"
        )
    head, slash, last = image.rpartition("/")
    name, _, tag = last.partition(":")
    return f"{head}{slash}{name}", tag or "latest"
