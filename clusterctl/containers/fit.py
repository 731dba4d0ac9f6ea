"""Adapt container settings to what a node has: GPU access, devices, directories; no side effects."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from clusterctl.artifacts.docker_run import with_cluster_file
from clusterctl.images.on_node import EngineInfo, NodeImage
from clusterctl.inventory.model import ContainerSettings, Node
from clusterctl.text.typed_inventory import filled


@dataclass(frozen=True, slots=True)
class Found:
    """Hold what the facts of a node show about it (:mod:`containers.found`)."""

    host: str
    address: str
    ports: Collection[int]
    absent: Collection[str]
    """Paths of the container's settings that the node does not have."""
    cluster_file: bool
    """Whether the node has the cluster file, which topology-aware libraries read (ACCL's guide mounts it)."""
    gpus: bool
    cdi_spec: bool
    name_taken: str | None
    """The id of an existing container with the same name."""
    gpu_hook: bool = False
    """Whether the container toolkit's hook is installed: with it, docker serves --gpus without an nvidia runtime."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Hold why a node's container cannot start, and what to do."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """Hold the settings to start with, notes for the user, and the problems that prevent the start."""

    container: ContainerSettings
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]


def fit(node: Node, found: Found, engine: EngineInfo, image: NodeImage | None, port: int) -> Fitted:
    """Return the node's container settings, adapted to what the node has.

    Only defaults are dropped, with a note: RDMA devices and GPUs that the node lacks. A setting of the inventory that
    the node cannot serve is a problem.
    """
    wish = node.container
    notes: list[str] = []
    problems: list[Problem] = []
    if wish.image is None:
        problems.append(Problem("no image is set", "set container.image in the inventory, or use --image"))
    elif image is None:
        problems.append(
            Problem(
                f"the container engine does not have image {wish.image}",
                f"run clusterctl image distribute {wish.image}",
            )
        )
    elif image.architecture and engine.architecture and image.architecture != engine.architecture:
        problems.append(
            Problem(
                f"the node is {engine.architecture}, but {wish.image} is for {image.architecture}",
                "build the image for that architecture",
            )
        )
    if wish.network != "host":
        problems.append(
            Problem(
                f"with network {wish.network!r} the other nodes cannot reach the container's SSH server",
                "set container.network: host",
            )
        )
    if found.name_taken is not None:
        problems.append(
            Problem(
                f"a container named {wish.name} already exists ({found.name_taken[:12]})",
                f"if an earlier clusterctl up started it, run clusterctl down; otherwise docker rm -f {wish.name}",
            )
        )
    elif port in found.ports:
        problems.append(Problem(f"port {port} is in use", "choose another port with --port"))
    gpus = _gpus(node, found, engine, notes, problems)
    devices = _devices(wish, found, notes, problems)
    _require_volumes(wish, found, problems)
    if found.cluster_file:
        path = node.requirements.cluster_file.path
        mounted = with_cluster_file(wish, path)
        notes += [f"{path} mounted"] if mounted != wish else []
        wish = mounted
    container = wish.model_copy(
        update={
            "gpus": gpus,
            "devices": devices,
            # A container that ended keeps its log until ``down`` removes it.
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
                    "docker has no CDI device nvidia.com/gpu",
                    filled("run clusterctl bootstrap INVENTORY --only container-toolkit"),
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
                "docker cannot give GPUs to containers" if found.gpus else "the node has no GPU",
                filled("run clusterctl bootstrap INVENTORY --only container-toolkit")
                if found.gpus
                else "set container.gpus: none",
            )
        )
        return "all"
    notes.append("no GPU found: the container starts without GPUs")
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
            problems.append(Problem(f"device {path} not found", "fix container.devices in the inventory"))
        else:
            notes.append(f"{path} not found: the container starts without RDMA")
    return tuple(kept)


def _require_volumes(wish: ContainerSettings, found: Found, problems: list[Problem]) -> None:
    for volume in wish.volumes:
        source = volume.split(":")[0]
        if source in found.absent:
            problems.append(
                Problem(
                    f"{source} not found, so it cannot be mounted",
                    "create it, or fix the path in container.volumes: docker would create an empty directory there",
                )
            )
