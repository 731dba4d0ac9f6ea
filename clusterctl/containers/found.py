"""Derive from a node's facts what a container needs, and say which facts to gather for it; no side effects."""

from __future__ import annotations

from pydantic import TypeAdapter

from clusterctl.containers.fit import Found
from clusterctl.errors import LaunchError
from clusterctl.facts.base import malformed
from clusterctl.facts.catalog import is_complete
from clusterctl.facts.model.node import NodeFacts
from clusterctl.images.on_node import EngineInfo
from clusterctl.inventory.field_types import Address
from clusterctl.inventory.model import Node

READS = frozenset({"containers", "network", "python", "session", "system", "versions"})
"""The subjects of the facts that starting a container reads; a launch shows the versions beside the image's."""
_ADDRESS: TypeAdapter[str] = TypeAdapter(Address)


def values(node: Node, engine: EngineInfo) -> dict[str, str]:
    """Return the values of the request for the probe of one node: the paths that its container uses."""
    sources = [volume.split(":")[0] for volume in node.container.volumes]
    paths = [path for path in sources if path.startswith("/")]
    paths += [device.split(":")[0] for device in node.container.devices if device.startswith("/")]
    return {
        "PATHS": "\n".join([*paths, node.requirements.cluster_file.path]),
        "CDI_DIRS": "\n".join(engine.cdi_dirs),
    }


def of_facts(node: Node, facts: NodeFacts, taken: str | None) -> Found:
    """Return what a container needs of a node's facts of ``READS``; ``taken``: the container that has its name.

    Raise LaunchError for incomplete or malformed facts, ValueError for an address that is not one.
    """
    session, host = facts.session, facts.containers
    if session is None or host is None or not is_complete(facts, ("session", "containers")):
        raise LaunchError(f"{node.name} did not answer the container probe completely")
    if why := malformed(session.accepted, session.listening):
        raise LaunchError(f"{node.name} gave the container probe a malformed answer: {why:.120}")
    interface = (node.interfaces.first if node.interfaces else None) or ""
    accepted = session.accepted.value
    near = accepted.address if accepted is not None else node.address
    return Found(
        host=facts.system.hostname.value or node.name,
        # The address is written into all known_hosts files, where a pattern would match more than this node.
        address=_ADDRESS.validate_python(
            facts.network.ipv4(interface) or (node.address if near.startswith("127.") else near)
        ),
        ports=frozenset(session.listening.or_else(())),
        absent=frozenset(host.absent),
        cluster_file=node.requirements.cluster_file.path not in host.absent,
        gpus=host.gpu_device,
        cdi_spec=host.cdi_gpus,
        name_taken=taken,
        gpu_hook=host.gpu_hook,
    )
