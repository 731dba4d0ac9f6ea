"""A node's container as its node can run it: GPUs by the way that is there, devices and folders that exist; pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from clusterctl.images.on_node import EngineInfo, NodeImage
from clusterctl.inventory.model import ContainerSettings, Node

CLUSTER_FILE = "/etc/sysconfig/rdma/cluster"
"""What a site's RDMA service says of its network; collective libraries read it (ACCL's guide mounts it)."""


@dataclass(frozen=True, slots=True)
class Found:
    """What ``containers_probe.sh`` saw on a node."""

    host: str
    address: str
    ports: Collection[int]
    absent: Collection[str]
    """Paths of the container's settings that the node does not have."""
    cluster_file: bool
    gpus: bool
    cdi_spec: bool
    name_taken: str | None
    """The id of a container that has the name already."""
    gpu_hook: bool = False
    """Whether the container toolkit's hook is there, through which docker serves --gpus without a runtime."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a node's container cannot be started, and what to do."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """The settings to start with, what a person should know of them, and what is in the way."""

    container: ContainerSettings
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]


def fit(node: Node, found: Found, engine: EngineInfo, image: NodeImage | None, port: int) -> Fitted:
    """Return the node's container with what the node has; settings that the inventory names are never dropped.

    Only defaults give way in silence of an error: the RDMA devices of a node without any, GPUs likewise.
    """
    wish = node.container
    notes: list[str] = []
    problems: list[Problem] = []
    if wish.image is None:
        problems.append(Problem("no image is named", "set container.image in the inventory, or give --image"))
    elif image is None:
        problems.append(
            Problem(f"its engine has no image {wish.image}", f"clusterctl image distribute {wish.image}")
        )
    elif image.architecture and engine.architecture and image.architecture != engine.architecture:
        problems.append(
            Problem(
                f"it is {engine.architecture}, and {wish.image} is for {image.architecture}",
                "build the image for that architecture",
            )
        )
    if wish.network != "host":
        problems.append(
            Problem(
                f"network {wish.network!r} hides the container's SSH server", "set container.network: host"
            )
        )
    if found.name_taken is not None:
        problems.append(
            Problem(
                f"a container named {wish.name} is there already ({found.name_taken[:12]})",
                f"clusterctl down ends those of an earlier up; docker rm -f {wish.name} any other",
            )
        )
    elif port in found.ports:
        problems.append(Problem(f"port {port} is in use", "choose another with --port"))
    gpus = _gpus(node, found, engine, notes, problems)
    devices = _devices(wish, found, notes, problems)
    volumes = _volumes(wish, found, notes, problems)
    container = wish.model_copy(
        update={
            "gpus": gpus,
            "devices": devices,
            "volumes": volumes,
            # A container that ends keeps its log for whoever asks why, until ``down`` removes it.
            "detach": True, "interactive": False, "remove": False,
        }
    )  # fmt: skip
    return Fitted(container, tuple(notes), tuple(problems))


def _gpus(node: Node, found: Found, engine: EngineInfo, notes: list[str], problems: list[Problem]) -> str:
    wish = node.container
    asked = "gpus" in wish.model_fields_set
    if wish.gpus == "none" or (not asked and node.gpus == 0):
        return "none"
    by_cdi = bool(engine.cdi_dirs) and found.cdi_spec
    if wish.gpus == "cdi":
        if not by_cdi:
            problems.append(
                Problem(
                    "docker knows no CDI device nvidia.com/gpu",
                    "clusterctl bootstrap INVENTORY --only container-toolkit",
                )
            )
        return "cdi"
    if by_cdi:
        return "cdi"
    if "nvidia" in engine.runtimes or (found.gpus and found.gpu_hook):
        return "all"
    if found.gpus or asked:
        problems.append(
            Problem(
                "docker cannot give GPUs to containers" if found.gpus else "there is no GPU",
                "clusterctl bootstrap INVENTORY --only container-toolkit"
                if found.gpus
                else "set container.gpus: none",
            )
        )
        return "all"
    notes.append("no GPU here: started without")
    return "none"


def _devices(
    wish: ContainerSettings, found: Found, notes: list[str], problems: list[Problem]
) -> tuple[str, ...]:
    asked = "devices" in wish.model_fields_set
    kept = []
    for device in wish.devices:
        path = device.split(":")[0]
        if path not in found.absent or wish.privileged:
            kept.append(device)
        elif asked:
            problems.append(Problem(f"there is no device {path}", "mend container.devices in the inventory"))
        else:
            notes.append(f"no {path} here: started without RDMA")
    return tuple(kept)


def _volumes(
    wish: ContainerSettings, found: Found, notes: list[str], problems: list[Problem]
) -> tuple[str, ...]:
    for volume in wish.volumes:
        source = volume.split(":")[0]
        if source in found.absent:
            problems.append(
                Problem(
                    f"{source} is not there to be mounted",
                    "docker would make an empty folder of root's in its place: make it, or mend the path",
                )
            )
    targets = {volume.split(":")[1] for volume in wish.volumes if ":" in volume}
    if not found.cluster_file or CLUSTER_FILE in targets:
        return wish.volumes
    notes.append(f"{CLUSTER_FILE} mounted")
    return (*wish.volumes, f"{CLUSTER_FILE}:{CLUSTER_FILE}:ro")
