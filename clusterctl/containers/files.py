"""Build the files of a container (sshd's settings and keys, its peers, its environment); no side effects."""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterctl import resources
from clusterctl.artifacts import ssh_config
from clusterctl.artifacts.text_template import fill
from clusterctl.containers.keys import Ed25519KeyPair
from clusterctl.inventory.model import Node
from clusterctl.text.openssh.known_hosts import host_name, line

FOLDER = "/etc/ssh/clusterctl"
COMMAND = ("/usr/sbin/sshd", "-D", "-e", "-f", f"{FOLDER}/sshd_config")
_ENTER = f"{FOLDER}/enter"
# The shell that sshd starts sets these itself.
_NOT_PASSED = frozenset({"HOME", "HOSTNAME", "PWD", "SHLVL", "TERM", "_"})


@dataclass(frozen=True, slots=True)
class Peer:
    """Hold how the other containers reach a container."""

    name: str
    address: str
    port: int
    host_key: Ed25519KeyPair


def environment(image_env: Sequence[str], container_env: Mapping[str, str]) -> str:
    """Return sh text that sets the container's variables, which sshd does not pass to its sessions (sshd(8))."""
    found = {name: value for name, _, value in (item.partition("=") for item in image_env) if name}
    merged = {**found, **container_env}
    lines = [
        f"export {name}={shlex.quote(value)}\n"
        for name, value in merged.items()
        if name not in _NOT_PASSED and name.isidentifier()
    ]
    return "".join(lines)


def known_hosts(peers: Sequence[Peer], address: Mapping[str, str] | None = None) -> str:
    """Return known_hosts lines; ``address``, by name, replaces the addresses that containers use among themselves."""
    return "".join(
        f"{line(peer.host_key.public, host_name(address[peer.name] if address else peer.address, peer.port))}\n"
        for peer in peers
    )


def archive(own: Peer, peers: Sequence[Peer], login: Ed25519KeyPair, env: str) -> bytes:
    """Return the tar archive for ``docker cp``: all files belong to root, private ones with mode 0600."""
    nodes = [Node(name=peer.name, address=peer.address, port=peer.port, user="root") for peer in peers]
    config = ssh_config.render(
        nodes,
        known_hosts="/root/.ssh/known_hosts",
        identity_file="/root/.ssh/id_ed25519",
        connect_timeout_s=10,
        title="Containers of one clusterctl up",
    )
    sshd = fill("ssh", "container-sshd.j2", port=own.port, home=FOLDER, enter=_ENTER)
    host_key = "/etc/ssh/ssh_host_ed25519_key"
    files: list[tuple[str, bytes | None, int]] = [
        # sshd's directory for privilege separation is missing if no init system ran.
        ("/run/sshd", None, 0o755),
        (host_key, own.host_key.private, 0o600),
        (f"{host_key}.pub", f"{own.host_key.public}\n".encode(), 0o644),
        (FOLDER, None, 0o755),
        (f"{FOLDER}/sshd_config", sshd.encode(), 0o600),
        (f"{FOLDER}/authorized_keys", f"restrict,pty {login.public}\n".encode(), 0o600),
        (f"{FOLDER}/environment", env.encode(), 0o600),
        (_ENTER, resources.text("templates", "ssh", "container-enter.sh").encode(), 0o755),
        ("/root/.ssh", None, 0o700),
        ("/root/.ssh/id_ed25519", login.private, 0o600),
        ("/root/.ssh/known_hosts", known_hosts(peers).encode(), 0o600),
        ("/root/.ssh/config", config.encode(), 0o600),
    ]
    return _tar(files)


def _tar(files: Sequence[tuple[str, bytes | None, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, data, mode in files:
            info = tarfile.TarInfo(path.lstrip("/"))
            info.mode = mode
            if data is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
