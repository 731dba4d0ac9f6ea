"""Run a shell script in a container without network, and always remove the container."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import docker

LABEL = "clusterctl.image"
"""This label finds containers that a killed process left."""
_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Said:
    """The output of the script, and its exit status."""

    status: int
    stdout: str
    stderr: str


def run(
    client: docker.DockerClient, image: str, script: str, files: Mapping[str, Path] | None = None
) -> Said:
    """Run the script with the image's /bin/sh as root; ``files`` (name to path) are put into /tmp before.

    The SDK's APIError is for the caller: an image without a shell, or for another architecture.
    """
    container = client.containers.create(
        image, ["-c", script], entrypoint="/bin/sh", network_mode="none", user="0", labels={LABEL: "probe"}
    )
    try:
        if files:
            data = io.BytesIO()
            with tarfile.open(fileobj=data, mode="w") as archive:
                for name, path in files.items():
                    archive.add(path, arcname=name)
            container.put_archive("/tmp", data.getvalue())
        container.start()
        status = int(container.wait(timeout=_TIMEOUT_S)["StatusCode"])
        stdout, stderr = container.logs(stderr=False), container.logs(stdout=False)
        return Said(status, stdout.decode(errors="replace"), stderr.decode(errors="replace"))
    finally:
        container.remove(force=True, v=True)
