"""Run nodes as containers on a real docker engine: SSH, MPI and a separate network, but the host's kernel."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl import log
from clusterctl.documents.lab import LabNode
from clusterctl.errors import LabError
from clusterctl.images.engine import connect
from clusterctl.lab import node_engine
from clusterctl.lab.node_files import NodeFile
from clusterctl.lab.python_mounts import BindMount
from clusterctl.lab.recipe import cache_folder
from clusterctl.lab.rootfs import Image

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container

_logger = log.get(__name__)

FABRIC_INTERFACE = "eth0"
LABEL = "clusterctl.lab"
REPOSITORY = "clusterctl-lab"

_NETWORKS = ipaddress.IPv4Network("10.84.0.0/16")


@contextmanager
def engine() -> Iterator[docker.DockerClient]:
    """Yield a client of this machine's engine; raise LabError, with a hint, if no engine answers."""
    with connect(LabError) as client:
        yield client


def plan_nodes(client: docker.DockerClient, lab_id: str, count: int) -> tuple[LabNode, ...]:
    """Choose names and addresses, on a network that no other of the engine's networks overlaps."""
    taken = [
        ipaddress.IPv4Network(config["Subnet"], strict=False)
        for network in client.networks.list()
        for config in network.attrs["IPAM"]["Config"] or ()
        if ":" not in config.get("Subnet", ":")
    ]
    candidates = list(_NETWORKS.subnets(new_prefix=24))
    first = hashlib.sha256(lab_id.encode()).digest()[0]
    for candidate in (*candidates[first:], *candidates[:first]):
        if not any(candidate.overlaps(other) for other in taken):
            break
    else:
        raise LabError(f"every network in {_NETWORKS} is taken", hint="docker network prune")
    addresses = [str(candidate[10 + number]) for number in range(1, count + 1)]
    return tuple(
        LabNode(
            name=f"node{number}", address=address, port=22, user="root",
            fabric_address=address, fabric_interface=FABRIC_INTERFACE,
        )
        for number, address in enumerate(addresses, start=1)
    )  # fmt: skip


def _resource_name(lab_id: str, node: str | None = None) -> str:
    return f"clusterctl-lab-{lab_id}-{node}" if node else f"clusterctl-lab-{lab_id}"


def ensure_image(client: docker.DockerClient, image: Image) -> str:
    """Import the root filesystem into the engine, unless it has it; return the image's name."""
    import docker

    name = f"{REPOSITORY}:{image.key}"
    try:
        client.images.get(name)
    except docker.errors.ImageNotFound:
        _logger.info("importing the root filesystem into the docker engine")
        client.api.import_image(
            src=str(image.container_tar),
            repository=REPOSITORY,
            tag=image.key,
            changes=[f"LABEL {LABEL}=image"],
        )
        _prune_images(client, keep=name)
    client.images.get(name)
    return name


def _prune_images(client: docker.DockerClient, keep: str) -> None:
    """Remove the images of root filesystems that the cache no longer holds, unless a container is made of one."""
    for image in client.images.list(filters={"label": f"{LABEL}=image"}):
        # An image that lost its name to another one is removed by its id.
        for tag in image.tags or [str(image.id)]:
            if tag != keep and not (cache_folder() / tag.rpartition(":")[2]).is_dir():
                _remove_image(client, tag)


def _remove_image(client: docker.DockerClient, name: str, *, force: bool = False) -> None:
    """Remove an image, unless a container is made of it."""
    import docker

    try:
        client.images.remove(name, force=force)
    except docker.errors.APIError as error:
        _logger.info("the engine keeps %s: %s", name, error.explanation or error)


def create_network(client: docker.DockerClient, lab_id: str, nodes: Sequence[LabNode]) -> None:
    """Create the bridge network that the nodes share with each other and with this machine."""
    from docker.types import IPAMConfig, IPAMPool

    subnet = ipaddress.IPv4Network(f"{nodes[0].fabric_address}/24", strict=False)
    client.networks.create(
        _resource_name(lab_id),
        driver="bridge",
        ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))]),
        labels={LABEL: lab_id},
    )


def create(
    client: docker.DockerClient,
    lab_id: str,
    node: LabNode,
    *,
    peers: Sequence[LabNode],
    image: str,
    mounts: Sequence[BindMount],
    node_tar: bytes,
    own_engine: Path | None = None,
) -> LabNode:
    """Create a node's container and put its own files into it; return the node with the container's id.

    ``own_engine``: the directory of the engine's programs for a node that has docker itself.
    """
    from docker.types import Mount as EngineMount

    network = _resource_name(lab_id)
    endpoint = client.api.create_endpoint_config(ipv4_address=node.fabric_address)
    container = client.containers.create(
        image,
        ["/usr/sbin/sshd", "-D", "-e"] if own_engine is None else list(node_engine.COMMAND),
        name=_resource_name(lab_id, node.name),
        hostname=node.name,
        labels={LABEL: lab_id},
        extra_hosts={peer.name: peer.fabric_address for peer in peers if peer.name != node.name},
        network=network,
        networking_config={network: endpoint},
        # Ranks of one node read each other's memory directly (Open MPI's single-copy transfers).
        cap_add=["SYS_PTRACE", *(node_engine.CAPABILITIES if own_engine else ())],
        shm_size="1g",
        mounts=[
            EngineMount(mount.target, mount.source, type="bind", read_only=mount.read_only)
            for mount in mounts
        ]
        + (node_engine.mounts(own_engine) if own_engine else []),
        **(node_engine.FREEDOMS if own_engine else {}),
    )
    container.put_archive("/", node_tar)
    return replace(node, container_id=container.id)


def extra_files() -> tuple[NodeFile, ...]:
    """Return the directory that sshd needs and that an init system would create."""
    return (NodeFile("run/sshd", None, 0o755),)


def _container(client: docker.DockerClient, node: LabNode) -> Container:
    import docker

    try:
        return client.containers.get(node.container_id or "")
    except (docker.errors.NotFound, docker.errors.NullResource):
        raise LabError(f"{node.name}'s container is gone", hint="clusterctl lab down, then up") from None


def start(client: docker.DockerClient, node: LabNode) -> None:
    """Start a node's container. SSH answers a moment later."""
    _container(client, node).start()


def kill(client: docker.DockerClient, node: LabNode) -> None:
    """End every process of a node at once; its disk stays."""
    container = _container(client, node)
    if container.status == "running":
        container.kill()
        container.wait(timeout=60)


def is_running(client: docker.DockerClient, node: LabNode) -> bool:
    """Tell whether a node's container runs."""
    return any(
        container.id == node.container_id and container.status == "running"
        # A container of another lab may be removed at this moment.
        for container in client.containers.list(filters={"label": LABEL}, ignore_removed=True)
    )


def wait_engine(client: docker.DockerClient, node: LabNode) -> None:
    """Wait until the docker engine inside a node answers; raise LabError when it does not."""
    node_engine.wait(_container(client, node), node.name)


def prove_python(client: docker.DockerClient, node: LabNode, python: str) -> None:
    """Raise LabError unless the mounted Python runs on a node."""
    container = _container(client, node)
    # An interpreter's shared library in /usr/local/lib is found through the linker's cache alone.
    container.exec_run(["ldconfig"])
    result = container.exec_run([python, "-c", "import bz2, ctypes, lzma, sqlite3, ssl"])
    if result.exit_code != 0:
        output = result.output.decode(errors="replace").strip() if isinstance(result.output, bytes) else ""
        raise LabError(
            f"{python} does not run on {node.name}: {output}",
            hint="the nodes have Debian 12's glibc 2.36: use a Python that was built for it or an older one",
        )


def remove(client: docker.DockerClient, lab_id: str) -> None:
    """Remove every container and network of a lab, whether or not they were recorded."""
    label = f"{LABEL}={lab_id}"
    for container in client.containers.list(all=True, filters={"label": label}):
        container.remove(force=True, v=True)
    for network in client.networks.list(filters={"label": label}):
        network.remove()


def logs(client: docker.DockerClient, node: LabNode) -> str:
    """Return the end of the log of a node's SSH server, for an error message."""
    return _container(client, node).logs(tail=15).decode(errors="replace")


def purge_images() -> None:
    """Remove every image that a lab imported into the engine; do nothing without an engine."""
    try:
        with engine() as client:
            for image in client.images.list(filters={"label": f"{LABEL}=image"}):
                _remove_image(client, str(image.id), force=True)
    except LabError as error:
        _logger.info("the docker engine keeps its images: %s", error)
