"""Render an ssh_config with one Host block per node: ports, users, keys and jump hosts for any launcher."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.errors import ArtifactError
from clusterctl.inventory.model import Node
from clusterctl.text.openssh import writer

_USE = "# With `ssh -F THIS_FILE NAME`, launchers need no settings for ports, keys and jump hosts."


def render(
    nodes: Sequence[Node],
    *,
    known_hosts: str | None = None,
    identity_file: str | None = None,
    strict_host_keys: bool = True,
    batch: bool = True,
    connect_timeout_s: int | None = None,
    include: str | None = None,
    title: str = "ssh_config written by clusterctl",
) -> str:
    """Return the text for the nodes that are reached by SSH.

    ``known_hosts`` and ``identity_file`` are paths on the machine where ssh will run, and replace those of every node.
    ``batch`` prevents password prompts. ``include`` is a further file with defaults, such as ``~/.ssh/config``, which
    ``ssh -F`` ignores otherwise.
    Raise ArtifactError if no node is reached by SSH, or for a path that ssh_config cannot hold.
    """
    remote = [node for node in nodes if node.connection == "ssh"]
    if not remote:
        raise ArtifactError("no node is reached by SSH", hint="select nodes with `connection: ssh`")
    common: list[tuple[str, str]] = []
    if known_hosts is not None:
        common.append(("UserKnownHostsFile", writer.path(known_hosts)))
    common.append(("StrictHostKeyChecking", "yes" if strict_host_keys else "no"))
    if batch:
        common.append(("BatchMode", "yes"))
    if connect_timeout_s is not None:
        common.append(("ConnectTimeout", str(connect_timeout_s)))
    if include is not None:
        common.append(("Include", writer.path(include)))
    sections = [_section(node, identity_file, known_hosts) for node in remote]
    sections.append(writer.section("Host *", common, indent=4))
    return f"# {title}\n{_USE}\n" + "".join(f"\n{section}\n" for section in sections)


def _section(node: Node, identity_file: str | None, known_hosts: str | None) -> str:
    settings = [("HostName", writer.escaped(node.address))]
    if known_hosts is None and node.known_hosts is not None:
        settings.append(("UserKnownHostsFile", writer.path(node.known_hosts)))
    if node.port is not None:
        settings.append(("Port", str(node.port)))
    if node.user is not None:
        settings.append(("User", node.user))
    key = identity_file or node.identity_file
    if key is not None:
        settings += [("IdentityFile", writer.path(key)), ("IdentitiesOnly", "yes")]
    if node.proxy_jump is not None:
        settings.append(("ProxyJump", node.proxy_jump))
    return writer.section(f"Host {node.name}", settings, indent=4)
