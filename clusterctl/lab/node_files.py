"""Write the files that identify a node (keys, names, addresses) and those with which a user reaches it."""

from __future__ import annotations

import io
import os
import tarfile
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterctl.documents.lab import Driver, LabNode
from clusterctl.lab import host
from clusterctl.lab.recipe import USER, USER_ID
from clusterctl.text.openssh import writer
from clusterctl.text.openssh.known_hosts import host_name, line

_KEYGEN_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class NodeFile:
    """One file (or, with ``content`` None, directory) of a node; the path has no leading slash."""

    path: str
    content: str | None
    mode: int = 0o644
    owner_id: int = 0


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An ed25519 key pair in OpenSSH's formats."""

    private: str
    public: str


def make_key_pair(path: Path, comment: str) -> KeyPair:
    """Generate a key pair at ``path`` and ``path.pub``; the private half is readable by its owner alone."""
    host.run(
        ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)), _KEYGEN_TIMEOUT_S
    )
    return KeyPair(path.read_text("ascii"), path.with_name(f"{path.name}.pub").read_text("ascii"))


def known_hosts_between_nodes(nodes: Sequence[LabNode], host_keys: Sequence[KeyPair]) -> str:
    """Return the known_hosts file by which the nodes trust each other, by name and by fabric address."""
    return "".join(
        f"{line(key_words(key), node.name, node.fabric_address)}\n"
        for node, key in zip(nodes, host_keys, strict=True)
    )


def known_hosts_from_outside(nodes: Sequence[LabNode], host_keys: Sequence[KeyPair]) -> str:
    """Return the known_hosts file for this machine, which reaches a node by address and port."""
    return "".join(
        f"{line(key_words(key), host_name(node.address, node.port))}\n"
        for node, key in zip(nodes, host_keys, strict=True)
    )


def key_words(key: KeyPair) -> str:
    """Return the type and the base64 word of a public key, without its comment."""
    return " ".join(key.public.split()[:2])


def ssh_files(
    nodes: Sequence[LabNode], host_keys: Sequence[KeyPair], index: int, login: KeyPair, *, bare: bool = False
) -> tuple[NodeFile, ...]:
    """Return what SSH needs on node ``index``: its host key, the others' keys, and the lab's login key.

    A ``bare`` node accepts logins from this machine and has no keys of other nodes.
    """
    files = [
        NodeFile("etc/ssh/ssh_host_ed25519_key", host_keys[index].private, 0o600),
        NodeFile("etc/ssh/ssh_host_ed25519_key.pub", host_keys[index].public),
    ]
    if not bare:
        files.append(NodeFile("etc/ssh/ssh_known_hosts", known_hosts_between_nodes(nodes, host_keys)))
    for home, owner_id in (("root", 0), (f"home/{USER}", USER_ID)):
        files += [
            NodeFile(f"{home}/.ssh", None, 0o700, owner_id),
            NodeFile(f"{home}/.ssh/authorized_keys", login.public, 0o600, owner_id),
        ]
        if bare:
            continue
        files += [
            NodeFile(f"{home}/.ssh/id_ed25519", login.private, 0o600, owner_id),
            NodeFile(f"{home}/.ssh/id_ed25519.pub", login.public, 0o644, owner_id),
        ]
    return tuple(files)


def identity_files(nodes: Sequence[LabNode], index: int) -> tuple[NodeFile, ...]:
    """Return the files that identify a guest: host name, machine id, and the names of its peers."""
    hosts = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    hosts += [f"{node.fabric_address} {node.name}" for node in nodes]
    return (
        NodeFile("etc/hostname", f"{nodes[index].name}\n"),
        NodeFile("etc/hosts", "".join(f"{line}\n" for line in hosts)),
        machine_id(),
        patience(),
    )


def machine_id() -> NodeFile:
    """Return a machine id of the node's own (machine-id(5))."""
    return NodeFile("etc/machine-id", f"{uuid.uuid4().hex}\n", 0o444)


def patience() -> NodeFile:
    """Return the file that keeps systemd from giving up devices and units of a slow guest after 90 s."""
    settings = "[Manager]\nDefaultDeviceTimeoutSec=900\nDefaultTimeoutStartSec=900\n"
    return NodeFile("etc/systemd/system.conf.d/clusterctl-lab.conf", settings)


def to_tar(files: Iterable[NodeFile]) -> bytes:
    """Return the files as a tar archive with their modes and owners."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file in files:
            info = tarfile.TarInfo(file.path)
            info.mode = file.mode
            info.uid = info.gid = file.owner_id
            if file.content is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                data = file.content.encode()
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def ssh_config_text(nodes: Sequence[LabNode], identity_file: Path, known_hosts: Path) -> str:
    """Return an OpenSSH configuration with the nodes' names (ssh_config(5))."""
    sections = [
        writer.section(
            f"Host {node.name}", (("HostName", node.address), ("Port", str(node.port)), ("User", node.user))
        )
        for node in nodes
    ]
    common = (
        ("IdentityFile", writer.path(str(identity_file))),
        ("IdentitiesOnly", "yes"),
        ("UserKnownHostsFile", writer.path(str(known_hosts))),
        ("StrictHostKeyChecking", "yes"),
    )
    return "".join(f"{section}\n\n" for section in sections) + writer.section("Host *", common) + "\n"


def inventory_text(
    driver: Driver,
    nodes: Sequence[LabNode],
    identity_file: Path,
    known_hosts: Path,
    python: str | None,
    packages: Path | None = None,
    *,
    container: dict[str, object] | None = None,
) -> str:
    """Return the lab's inventory (YAML), with the devices that stand in for GPUs and NICs.

    ``packages``: the folder of packages that bare nodes can be made complete with; ``container``: settings of
    the containers on the nodes.
    """
    import yaml

    defaults: dict[str, object] = {
        "user": nodes[0].user,
        "identity_file": str(identity_file),
        "known_hosts": str(known_hosts),
        "gpus": 0,
        "slots": 1,
        "socket_ifname": nodes[0].fabric_interface,
    }
    if python is not None:
        defaults["python"] = python
    if driver == "docker":
        # Containers share this machine's cores, and each would start as many threads as there are.
        defaults["env"] = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // len(nodes)))}
    if driver == "qemu":
        defaults["rdma_devices"] = "=rxe0"
        requirements: dict[str, object] = {
            "acs": {"in_vm": "disable", "gpu_devices": ["1234:11e8"], "nic_devices": ["8086:10d3"]},
        }
        if packages is not None:
            requirements["packages"] = {"folder": str(packages)}
        defaults["requirements"] = requirements
    if container is not None:
        defaults["container"] = container
    document = {
        "version": 1,
        "defaults": defaults,
        "nodes": [{"name": node.name, "address": node.address, "port": node.port} for node in nodes],
    }
    return yaml.safe_dump(document, sort_keys=False)
