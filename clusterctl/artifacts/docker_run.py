"""Build the docker run line of a node's container: least privilege by default, in the order of a style."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clusterctl.errors import ArtifactError
from clusterctl.inventory.model import ContainerSettings
from clusterctl.text.secret.scrub import names_a_secret

_Part = Callable[["_Line"], list[str]]


@dataclass(frozen=True, slots=True)
class Style:
    """Define how a container is written: the order of its parts, and the flags joined to values by '='."""

    order: tuple[str, ...]
    joined: frozenset[str]
    network_flag: str = "--network"


STYLES: dict[str, Style] = {
    "default": Style(
        order=(
            *(
                "mode",
                "remove",
                "name",
                "gpus",
                "network",
                "ipc",
                "shm",
                "memlock",
                "stack",
                "devices",
                "caps",
            ),
            *("privileged", "volumes", "env"),
        ),
        joined=frozenset({"--shm-size"}),
    ),
    # Tencent's TACO Train guide: docker run -itd --rm --gpus all --shm-size=32g ... --net=host --privileged
    "taco": Style(
        order=(
            *(
                "mode",
                "remove",
                "name",
                "gpus",
                "ipc",
                "shm",
                "memlock",
                "stack",
                "network",
                "devices",
                "caps",
            ),
            *("privileged", "volumes", "env"),
        ),
        joined=frozenset({"--shm-size", "--net"}),
        network_flag="--net",
    ),
    # Alibaba's ACCL guide: docker run --name=N --rm -it --net=host --gpus=all --shm-size=8g --device=...
    "accl": Style(
        order=(
            *(
                "name",
                "remove",
                "mode",
                "network",
                "gpus",
                "ipc",
                "shm",
                "devices",
                "memlock",
                "stack",
                "caps",
            ),
            *("privileged", "volumes", "env"),
        ),
        joined=frozenset({"--name", "--net", "--gpus", "--shm-size", "--device", "--cap-add"}),
        network_flag="--net",
    ),
}


def docker_run_argv(
    container: ContainerSettings,
    *,
    name: str | None = None,
    env: Mapping[str, str] | None = None,
    command: Sequence[str] | None = None,
    style: str = "default",
    flags: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the words that start the container.

    ``name`` and ``command`` replace the container's own; ``env`` precedes the container's variables and overrides
    them; ``flags`` are further words before the image. Raise ArtifactError without an image or for an unknown style.
    """
    if container.image is None:
        raise ArtifactError(
            "no image is set for the container",
            hint="set container.image in the inventory, under defaults, a group or the node; or use --image",
        )
    if style not in STYLES:
        raise ArtifactError(f"unknown style {style!r}", hint=f"choose from: {', '.join(STYLES)}")
    line = _Line(container, STYLES[style], name or container.name, dict(env or {}))
    words = ["docker", "run"]
    for part in line.style.order:
        words += _PARTS[part](line)
    return (*words, *flags, container.image, *(container.command if command is None else command))


def with_cluster_file(container: ContainerSettings, path: str) -> ContainerSettings:
    """Return the settings with the host's cluster file at the same path, where topology-aware libraries read it.

    A volume of the inventory with this target takes precedence. ``path`` must exist: docker would create a directory.
    """
    targets = {volume.split(":")[1] for volume in container.volumes if ":" in volume}
    if path in targets:
        return container
    return container.model_copy(update={"volumes": (*container.volumes, f"{path}:{path}:ro")})


def rendezvous(
    *, master_address: str, master_port: int, node_rank: int, nodes: int, ranks_per_node: int
) -> dict[str, str]:
    """Return the rendezvous variables for containers that are started one per node (ACCL's BERT example).

    RANK and WORLD_SIZE count nodes here: the script in the container starts the ranks of its node.
    """
    return {
        "MASTER_ADDR": master_address,
        "MASTER_PORT": str(master_port),
        "RANK": str(node_rank),
        "WORLD_SIZE": str(nodes),
        "NPROC_PER_NODE": str(ranks_per_node),
    }


@dataclass(frozen=True, slots=True)
class _Line:
    container: ContainerSettings
    style: Style
    name: str | None
    env: dict[str, str]

    def flag(self, flag: str, value: str | None) -> list[str]:
        if value is None:
            return []
        return [f"{flag}={value}"] if flag in self.style.joined else [flag, value]


def _mode(line: _Line) -> list[str]:
    letters = ("it" if line.container.interactive else "") + ("d" if line.container.detach else "")
    return [f"-{letters}"] if letters else []


def _gpus(line: _Line) -> list[str]:
    if line.container.gpus == "cdi":
        return line.flag("--device", "nvidia.com/gpu=all")
    return line.flag("--gpus", "all") if line.container.gpus == "all" else []


def _shm(line: _Line) -> list[str]:
    # A container that shares another's IPC namespace also shares its /dev/shm, so a size has no effect.
    shared = (line.container.ipc or "").startswith(("host", "container:"))
    return [] if shared else line.flag("--shm-size", line.container.shm_size)


def _ulimit(line: _Line, what: str, value: str | None) -> list[str]:
    return [] if value is None else line.flag("--ulimit", f"{what}={value}")


def _devices(line: _Line) -> list[str]:
    # --privileged grants every device and capability; listing single ones as well would mislead.
    if line.container.privileged:
        return []
    return [word for device in line.container.devices for word in line.flag("--device", device)]


def _caps(line: _Line) -> list[str]:
    if line.container.privileged:
        return []
    return [word for capability in line.container.cap_add for word in line.flag("--cap-add", capability)]


def _volumes(line: _Line) -> list[str]:
    return [word for volume in line.container.volumes for word in ("-v", volume)]


def _env(line: _Line) -> list[str]:
    merged = {**line.env, **{k: v for k, v in line.container.env.items() if k not in line.env}}
    # docker copies a name without a value from its own environment.
    return [
        word
        for key, value in merged.items()
        for word in ("-e", key if names_a_secret(key, value) else f"{key}={value}")
    ]


_PARTS: dict[str, _Part] = {
    "mode": _mode,
    "remove": lambda line: ["--rm"] if line.container.remove else [],
    "name": lambda line: line.flag("--name", line.name),
    "gpus": _gpus,
    "network": lambda line: line.flag(line.style.network_flag, line.container.network),
    "ipc": lambda line: line.flag("--ipc", line.container.ipc),
    "shm": _shm,
    "memlock": lambda line: _ulimit(line, "memlock", line.container.memlock),
    "stack": lambda line: _ulimit(line, "stack", line.container.stack),
    "devices": _devices,
    "caps": _caps,
    "privileged": lambda line: ["--privileged"] if line.container.privileged else [],
    "volumes": _volumes,
    "env": _env,
}
