"""The facts of an image on a node: those of a container of it, which is removed afterwards."""

from __future__ import annotations

import secrets
import time

from clusterctl.errors import ImageError
from clusterctl.facts import probe
from clusterctl.facts.catalog import settings_read
from clusterctl.facts.gather import RawAnswer, understand
from clusterctl.facts.model.node import NodeFacts
from clusterctl.images.on_node import NodeEngine, require
from clusterctl.inventory.model import Node
from clusterctl.transport.base import TransportError


def facts_of(
    engine: NodeEngine, node: Node, image: str, subjects: frozenset[str], timeout_s: float
) -> NodeFacts:
    """Return the facts of these subjects in a container of the image without network; the image is not pulled.

    Raise ImageError if the engine lacks the image, or if a container of it cannot be started or has no shell.
    """
    if engine.image(image) is None:
        raise ImageError(
            f"{node.name}: the docker engine does not have the image {image}",
            hint="clusterctl image distribute copies it to every node",
        )
    nonce = secrets.token_hex(16)
    # The Python of clusterctl itself, which ranks on this machine use, is not in the image.
    values = {**settings_read(node, subjects), "PYTHON": node.python or ""}
    script = probe.build_script(nonce, allow_sudo=False, only_root=False, subjects=subjects, values=values)
    started = time.time()
    done = engine.docker(
        *("run", "--rm", "--interactive", "--pull", "never", "--network", "none", "--user", "0"),
        *("--label", "clusterctl.image=probe", "--entrypoint", "/bin/sh", image),
        stdin=script.encode(),
        timeout_s=timeout_s,
    )  # fmt: skip
    # 125 to 127 are docker's own: no container, or no shell in it.
    if done.returncode in (125, 126, 127):
        require(done, f"{node.name}: no container of {image} can be started")
    answer = RawAnswer(nonce, False, done.returncode, done.stdout, done.stderr, started, time.time())
    try:
        return understand(node.name, (answer,), subjects=subjects)
    except TransportError as error:
        raise ImageError(
            f"{node.name}: a container of {image} does not report its contents: {error.message}"
        ) from None
