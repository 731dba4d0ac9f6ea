"""Render an ssh_config with one Host block per node: ports, users, keys and jump hosts for any launcher."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterctl.artifacts.text_template import fill
from clusterctl.errors import ArtifactError
from clusterctl.inventory.model import Node

_UNWRITABLE = re.compile(r"""["\\\x00-\x1f\x7f]|\$\{""")
_PLAIN = re.compile(r"[A-Za-z0-9@%+:,./~_-]+")


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
    hosts = [
        {
            "name": node.name,
            "address": node.address.replace("%", "%%"),
            "options": _options(node, identity_file, known_hosts),
        }
        for node in remote
    ]
    common: list[tuple[str, str]] = []
    if known_hosts is not None:
        common.append(("UserKnownHostsFile", _path(known_hosts)))
    common.append(("StrictHostKeyChecking", "yes" if strict_host_keys else "no"))
    if batch:
        common.append(("BatchMode", "yes"))
    if connect_timeout_s is not None:
        common.append(("ConnectTimeout", str(connect_timeout_s)))
    if include is not None:
        common.append(("Include", _path(include)))
    return fill("ssh", "config.j2", hosts=hosts, common=common, title=title)


def _options(node: Node, identity_file: str | None, known_hosts: str | None) -> list[tuple[str, str]]:
    options = []
    if known_hosts is None and node.known_hosts is not None:
        options.append(("UserKnownHostsFile", _path(node.known_hosts)))
    if node.port is not None:
        options.append(("Port", str(node.port)))
    if node.user is not None:
        options.append(("User", node.user))
    key = identity_file or node.identity_file
    if key is not None:
        options += [("IdentityFile", _path(key)), ("IdentitiesOnly", "yes")]
    if node.proxy_jump is not None:
        options.append(("ProxyJump", node.proxy_jump))
    return options


def _path(path: str) -> str:
    """Quote a path for ssh_config: ssh expands '%' and ``${X}`` and splits at spaces.

    OpenSSH before 8.7 cannot quote a double quote or a backslash; no version can quote ``${``.
    """
    if not path:
        raise ArtifactError(
            "a path in an ssh_config cannot be empty", hint="set a path, or remove the setting"
        )
    if _UNWRITABLE.search(path):
        raise ArtifactError(
            f"ssh_config cannot hold the path {path!r}",
            hint="choose a path without double quotes, backslashes and '${'",
        )
    escaped = path.replace("%", "%%")
    return escaped if _PLAIN.fullmatch(escaped) else f'"{escaped}"'
