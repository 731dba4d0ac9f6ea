"""Plan the installation of docker: which packages, and from which repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from clusterctl.facts.vendors import tables
from clusterctl.requirements.packages import Repository, SigningKey, by_hand, install, manager, repository
from clusterctl.text.foreign import is_whole, whole

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.steps import Step

BASE = "https://download.docker.com/linux"
DOCKERS_OWN = ("docker-ce", "docker-ce-cli", "containerd.io")


def signing_key(manager: Literal["apt", "dnf"]) -> SigningKey:
    """Return the key of docker's repositories for a package manager."""
    key = tables.repository_key("docker-apt" if manager == "apt" else "docker-rpm")
    assert key is not None, "the table has a key for each package manager"
    url = None if key.file is None else f"{BASE}/{key.file}"
    return SigningKey(key.fingerprint, key.sha256, key.shipped, url)


def repository_for(facts: NodeFacts) -> Repository | None:
    """Return docker's repository for the node's distribution, or None if docker provides none."""
    system = facts.system.os.value
    if system is None:
        return None
    title = "docker's repository"
    if system.id in ("debian", "ubuntu") and system.codename:
        url = f"{BASE}/{system.id}"
        return Repository(
            "docker", title, url, signing_key("apt"), suite=system.codename, components=("stable",)
        )
    # RHEL has a directory of its own; rebuilds of RHEL use that of CentOS.
    folder = {"rhel": "rhel", "fedora": "fedora"}.get(system.id, "centos")
    major = system.version_id.partition(".")[0]
    if system.family == "rhel" and system.id != "amzn" and major.isdecimal():
        return Repository("docker", title, f"{BASE}/{folder}/{major}/$basearch/stable", signing_key("dnf"))
    return None


def names(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Return the packages to install; empty if neither the distribution nor the inventory provides one."""
    settings, system = node.requirements.docker, facts.system.os.value
    if settings.package is not None:
        return (settings.package,)
    if settings.source == "docker":
        return DOCKERS_OWN
    if manager(facts) == "apt":
        # Debian 13 moved the client into a package of its own, which docker.io only recommends.
        split = system is not None and system.id == "debian" and _major(system.version_id) >= 13
        return ("docker.io", "docker-cli") if split else ("docker.io",)
    own = {"fedora": ("moby-engine",), "amzn": ("docker",)}
    if system is not None and system.id in own:
        return own[system.id]
    if node.requirements.packages.folder is not None or facts.software.has_repository("download.docker.com"):
        return DOCKERS_OWN
    return ()


def beside(facts: NodeFacts, node: Node) -> str | None:
    """Return which container engine an installation would disturb, or None.

    docker.io needs Debian's containerd and runc, which conflict with docker's package containerd.io: apt would
    remove it, and with it the containers of kubelet or nerdctl. The operator permits the change with
    ``docker.package``, or with docker's own packages on a node that has their containerd.io and no kubelet.
    """
    settings = node.requirements.docker
    kubelet, containerd = (facts.services.unit(f"{name}.service") for name in ("kubelet", "containerd"))
    dockers_containerd = facts.software.package("containerd.io") is not None
    if settings.package is not None:
        return None
    if kubelet is not None and kubelet.load != "masked":
        return "Kubernetes runs this node's containers (kubelet.service)"
    if settings.source == "docker" and dockers_containerd:
        return None
    if containerd is not None and containerd.active in ("active", "activating", "reloading"):
        return "containerd.service runs this node's containers"
    if dockers_containerd and DOCKERS_OWN[-1] not in names(facts, node):
        return "the package containerd.io is installed for another use"
    return None


def hint(facts: NodeFacts, node: Node) -> str:
    """Return what the operator must do if bootstrap cannot install docker; empty if it can."""
    other = beside(facts, node)
    if other is not None:
        distributions = "docker.io" in names(facts, node)
        what = "replace its containerd (apt removes containerd.io)" if distributions else "disturb them"
        return (
            f", and {other}: installing docker would {what}. Set requirements.docker.require to false, or "
            "install docker by hand"
        )
    if manager(facts) is None:
        return by_hand(facts, "it")
    if not names(facts, node):
        return (
            "; this distribution provides no docker package: set requirements.docker.source to docker "
            "(or packages.folder, or docker.package)"
        )
    if node.requirements.docker.source == "docker" and not _has_source(facts, node):
        return "; docker provides no repository for this distribution: set requirements.packages.folder"
    return ""


def steps(facts: NodeFacts, node: Node) -> tuple[Step, ...]:
    """Return the steps that add docker's repository, if the inventory requests it, and install the packages."""
    if hint(facts, node):
        return ()
    found: list[Step] = []
    own = repository_for(facts)
    if node.requirements.docker.source == "docker" and own is not None:
        added = repository(facts, node, own)
        # Without CA certificates apt rejects https, and the key cannot be fetched.
        certificates = install(facts, node, "Install CA certificates", "ca-certificates")
        if added and certificates is not None:
            found.append(certificates)
        found += added
    wanted = names(facts, node)
    package = install(facts, node, f"Install {' '.join(wanted)}", *wanted)
    return (*found, package) if package is not None else ()


def _has_source(facts: NodeFacts, node: Node) -> bool:
    folder = node.requirements.packages.folder is not None
    return folder or repository_for(facts) is not None or facts.software.has_repository("download.docker.com")


def _major(version: str) -> int:
    first = version.partition(".")[0]
    return whole(first) if is_whole(first) and len(first) < 9 else 0
