"""Run a separate docker engine in a lab container, with less than ``--privileged`` from the outer engine."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterctl import resources
from clusterctl.errors import LabError
from clusterctl.lab import host
from clusterctl.lab.node_files import NodeFile
from clusterctl.lab.rootfs import Image

if TYPE_CHECKING:
    from docker.models.containers import Container
    from docker.types import Mount

# The guests' disk has them; the containers' own filesystem does without these 190 MB.
_PROGRAMS = (
    "usr/bin/docker", "usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/sbin/dockerd", "usr/sbin/runc",
)  # fmt: skip
_EXTRACT_TIMEOUT_S = 300.0
_START = "usr/local/sbin/clusterctl-lab-engine"
COMMAND = (f"/{_START}",)
# Mounts and namespaces, the host network of inner containers, and IPC_LOCK for them to be given.
CAPABILITIES = ("SYS_ADMIN", "NET_ADMIN", "IPC_LOCK")
# A control group namespace puts the groups of inner containers below the node's, so both are removed together.
FREEDOMS: dict[str, Any] = {
    "security_opt": ["seccomp=unconfined", "apparmor=unconfined"],
    "cgroupns": "private",
}
# Inner containers ask for what the outer engine may not have to give: a node's limits and devices are the host's.
CONTAINER_SETTINGS: dict[str, object] = {"gpus": "none", "memlock": None, "devices": []}
_READY_TIMEOUT_S = 90.0


def files() -> tuple[NodeFile, ...]:
    """Return the program that starts the engine beside sshd."""
    return (NodeFile(_START, resources.text("templates", "lab", "engine.sh"), 0o755),)


def programs(image: Image) -> Path:
    """Return the directory of the engine's programs, taken once out of the guests' disk and kept beside it."""
    folder = image.folder / "engine"
    if folder.is_dir():
        return folder
    host.require_tools({"debugfs": "e2fsprogs"}, "a lab node's own docker engine")
    with tempfile.TemporaryDirectory(dir=image.folder, prefix=".engine.") as name:
        scratch = Path(name) / "engine"
        for program in _PROGRAMS:
            target = scratch / program
            target.parent.mkdir(parents=True, exist_ok=True)
            request = f'dump -p /{program} "{target}"'
            host.run(("debugfs", "-R", request, str(image.disk)), _EXTRACT_TIMEOUT_S)
            # debugfs exits with 0 even if it failed.
            if not target.is_file() or target.stat().st_size == 0:
                raise LabError(
                    f"{image.disk} has no /{program}", hint="clusterctl lab down --purge-cache, then up"
                )
        # Another lab may have been faster: a directory that exists is complete.
        if not folder.is_dir():
            scratch.rename(folder)
    return folder


def mounts(folder: Path) -> list[Mount]:
    """Return the mounts of the engine's programs, and of a volume for its images, which overlays need."""
    from docker.types import Mount

    found = {f"/{name}": str(folder / name) for name in _PROGRAMS}
    zstd = shutil.which("zstd")
    if zstd is not None:
        found["/usr/bin/zstd"] = zstd
    return [
        *(Mount(target, source, type="bind", read_only=True) for target, source in found.items()),
        Mount("/var/lib/docker", None, type="volume"),
    ]


def wait(container: Container, name: str) -> None:
    """Wait until a node's own engine answers; raise LabError with the end of its log when it does not."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while container.exec_run(["docker", "version"]).exit_code != 0:
        if time.monotonic() > deadline:
            log = container.exec_run(["tail", "-n", "15", "/var/log/dockerd.log"]).output
            said = log.decode(errors="replace").strip() if isinstance(log, bytes) else ""
            raise LabError(
                f"the engine of {name} does not answer after {_READY_TIMEOUT_S:.0f} s: {said}",
                hint="an outer engine without seccomp and apparmor limits for it is needed",
            )
        time.sleep(0.2)
