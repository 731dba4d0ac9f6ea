"""The docker engine of a node, driven by its own ``docker`` command through the node's Transport.

Host keys, jump hosts and root access are therefore those of the Transport, as for all other commands on a node
(docs/decisions/0012-docker-through-the-transport.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from clusterctl.errors import ClusterctlError, ImageError
from clusterctl.images import engine
from clusterctl.text.foreign import NotUnderstood, json_value
from clusterctl.text.typed_inventory import filled
from clusterctl.transport.answers import understanding
from clusterctl.transport.base import Completed, Transport

_ASK_TIMEOUT_S = 60.0
# Names of the same processor: Go's (docker version), and the kernel's (docker info, uname).
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "armv7l": "arm"}


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The fields of ``docker info`` that are used here."""

    version: str
    architecture: str
    """The architecture in the notation of images: amd64, arm64."""
    root_dir: str
    cdi_dirs: tuple[str, ...]
    runtimes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeImage:
    """An image in an engine. Engines may give the same image different ids, but the same layers and time."""

    id: str
    layers: tuple[str, ...]
    created: str
    architecture: str
    size_bytes: int
    user: str
    env: tuple[str, ...]
    digests: tuple[str, ...]

    def same_as(self, other: NodeImage) -> bool:
        """Return whether both are the same image, independent of the engine's store."""
        return self.id == other.id or (self.layers, self.created) == (other.layers, other.created)


@dataclass(frozen=True, slots=True)
class NodeEngine:
    """A node's working engine: ``docker`` runs as this user, or as root if only root has access."""

    transport: Transport
    as_root: bool
    info: EngineInfo

    def docker(self, *words: str, stdin: bytes = b"", timeout_s: float = _ASK_TIMEOUT_S) -> Completed:
        """Run ``docker WORDS`` to its end; a status other than 0 is a result."""
        return self.transport.run(
            ("docker", *words), stdin=stdin, timeout_s=timeout_s, as_root=self.as_root, env=ENVIRONMENT
        )

    def image(self, name: str) -> NodeImage | None:
        """Return the image of this name; None if it does not exist."""
        done = self.docker("image", "inspect", name)
        if done.returncode != 0 and "no such image" in done.error_text.lower():
            return None
        require(done, f"{self.transport.node}: docker did not report whether it has {name}")
        with understanding(self.transport.node, f"the image {name}"):
            return image_of(json_value(done.text)[0])


ENVIRONMENT = {"LC_ALL": "C", "DOCKER_CLI_HINTS": "false", "DOCKER_HOST": "unix:///var/run/docker.sock"}
"""The environment of ``docker`` on nodes; the host is that of the facts, whatever context the login chose."""


def image_of(document: dict[str, Any]) -> NodeImage:
    """Return the image described by ``docker image inspect`` or by the engine's API."""
    config = document.get("Config") or {}
    return NodeImage(
        id=str(document["Id"]),
        layers=tuple((document.get("RootFS") or {}).get("Layers") or ()),
        created=str(document.get("Created") or ""),
        architecture=str(document.get("Architecture") or ""),
        size_bytes=int(document.get("Size") or 0),
        user=str(config.get("User") or ""),
        env=tuple(config.get("Env") or ()),
        digests=tuple(document.get("RepoDigests") or ()),
    )


def open_engine(transport: Transport, failure: type[ClusterctlError] = ImageError) -> NodeEngine:
    """Return a node's engine; raise ``failure`` with a hint if no engine is usable."""
    node = transport.node
    ask = ("docker", "info", "--format", "{{json .}}")
    done = transport.run(ask, timeout_s=_ASK_TIMEOUT_S, env=ENVIRONMENT)
    as_root = _is_denied(done.text + done.error_text)
    if as_root:
        done = transport.run(ask, timeout_s=_ASK_TIMEOUT_S, env=ENVIRONMENT, as_root=True)
    if done.returncode == 127:
        raise failure(
            f"{node}: docker is not installed",
            hint=filled("clusterctl bootstrap INVENTORY --only docker installs and starts it"),
        )
    said = _document(done.text)
    with understanding(node, "its docker engine"):
        problems = said.get("ServerErrors") or ([] if said.get("ServerVersion") else [done.error_text])
        if problems:
            raise failure(
                f"{node}: the docker engine does not answer: {brief(str(problems[0]))}",
                hint="run systemctl start docker; journalctl -u docker shows why it does not run",
            )
        info = info_of(said)
    found = re.match(r"(\d{1,9})\.(\d{1,9})", info.version)
    if found and (int(found[1]), int(found[2])) < engine.OLDEST:
        oldest = ".".join(map(str, engine.OLDEST))
        raise failure(
            f"{node}: its docker engine is {info.version}, older than {oldest}, the oldest supported version",
            hint="upgrade it: https://docs.docker.com/engine/install/",
        )
    return NodeEngine(transport, as_root, info)


def _is_denied(said: str) -> bool:
    """Return whether docker reported a permission error for its socket."""
    about = said.lower().partition("permission denied")[2]
    return "docker.sock" in about or "socket" in about.partition("docker")[2]


def _document(text: str) -> dict[str, Any]:
    try:
        found = json_value(text)
    except NotUnderstood:
        return {}
    return found if isinstance(found, dict) else {}


def info_of(document: dict[str, Any]) -> EngineInfo:
    """Return the used fields of ``docker info``'s document."""
    architecture = str(document.get("Architecture") or "")
    return EngineInfo(
        version=str(document.get("ServerVersion") or ""),
        architecture=_ARCHITECTURES.get(architecture, architecture),
        root_dir=str(document.get("DockerRootDir") or "/var/lib/docker"),
        cdi_dirs=tuple(document.get("CDISpecDirs") or ()),
        runtimes=tuple(document.get("Runtimes") or ()),
    )


def require(done: Completed, what: str, failure: type[ClusterctlError] = ImageError) -> str:
    """Return a command's output; raise ``failure`` with the end of its output if it failed."""
    if done.returncode != 0:
        said = brief(done.error_text or done.text) or f"status {done.returncode}"
        raise failure(f"{what}: {said}", hint=engine.hint(said))
    return done.text


def brief(text: str) -> str:
    """Return the end of a command's output as one line, without docker's own prefix."""
    lines = [line for line in text.splitlines() if line.strip() and "--help'" not in line]
    joined = " ".join(" ".join(lines).split())
    for preamble in ("docker: ", "Error response from daemon: ", "error during connect: "):
        joined = joined.removeprefix(preamble)
    return joined[-400:]
