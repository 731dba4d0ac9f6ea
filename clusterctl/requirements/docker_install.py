"""How docker gets onto a node: whose packages they are, and the repository that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.foreign import is_whole, whole
from clusterctl.requirements.packages import Repository, SigningKey, by_hand, install, manager, repository

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.base import Step

# docs.docker.com, "Install Docker Engine": the repositories' addresses and the fingerprints of their keys.
BASE = "https://download.docker.com/linux"
APT_KEY = SigningKey(
    "9DC858229FC7DD38854AE2D88D81803C0EBFCD88",
    "1500c1f56fa9e26b9b8f42452a553675796ade0807cdce11975eb98170b3a570",
    url=f"{BASE}/debian/gpg",
)
RPM_KEY = SigningKey(
    "060A61C51B558A7F742B77AAC52FEB6B621E9F35",
    "e6c650e0700b1bf4868b693b30761b926844befc8a0acb7ac0dd9b1faf1b7423",
    shipped="docker-rpm.asc",
)
DOCKERS_OWN = ("docker-ce", "docker-ce-cli", "containerd.io")


def repository_for(facts: NodeFacts) -> Repository | None:
    """Return docker's repository for a distribution, or None where docker keeps none."""
    system = facts.system.os.value
    if system is None:
        return None
    title = "docker's repository"
    if system.id in ("debian", "ubuntu") and system.codename:
        url = f"{BASE}/{system.id}"
        return Repository("docker", title, url, APT_KEY, suite=system.codename, components=("stable",))
    # Red Hat's own system has a folder to itself; those rebuilt from it use CentOS's.
    folder = {"rhel": "rhel", "fedora": "fedora"}.get(system.id, "centos")
    major = system.version_id.partition(".")[0]
    if system.family == "rhel" and system.id != "amzn" and major.isdecimal():
        return Repository("docker", title, f"{BASE}/{folder}/{major}/$basearch/stable", RPM_KEY)
    return None


def names(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Return the packages to install; empty where neither the distribution nor the inventory has one."""
    settings, system = node.requirements.docker, facts.system.os.value
    if settings.package is not None:
        return (settings.package,)
    if settings.source == "docker":
        return DOCKERS_OWN
    if manager(facts) == "apt":
        # Debian 13 made the program a package of its own, which docker.io only recommends.
        split = system is not None and system.id == "debian" and _major(system.version_id) >= 13
        return ("docker.io", "docker-cli") if split else ("docker.io",)
    own = {"fedora": ("moby-engine",), "amzn": ("docker",)}
    if system is not None and system.id in own:
        return own[system.id]
    if node.requirements.packages.folder is not None or facts.software.has_repository("download.docker.com"):
        return DOCKERS_OWN
    return ()


def beside(facts: NodeFacts, node: Node) -> str | None:
    """Say which container engine an installation would disturb; None where there is none.

    docker.io needs Debian's containerd and runc, with which docker's package containerd.io conflicts: apt would
    remove it, and with it what runs kubelet's or nerdctl's containers. ``docker.package``, and docker's own
    packages on a node that has its containerd.io and no kubelet, are the operator's word that it may be.
    """
    settings = node.requirements.docker
    kubelet, containerd = (facts.services.unit(f"{name}.service") for name in ("kubelet", "containerd"))
    dockers_containerd = facts.software.package("containerd.io") is not None
    if settings.package is not None:
        return None
    if kubelet is not None and kubelet.load != "masked":
        return "this node's containers are Kubernetes' (kubelet.service)"
    if settings.source == "docker" and dockers_containerd:
        return None
    if containerd is not None and containerd.active in ("active", "activating", "reloading"):
        return "containerd.service runs this node's containers"
    if dockers_containerd and DOCKERS_OWN[-1] not in names(facts, node):
        return "the package containerd.io is there for another use"
    return None


def hint(facts: NodeFacts, node: Node) -> str:
    """Say what the operator can do where nothing can be installed; empty where bootstrap can."""
    other = beside(facts, node)
    if other is not None:
        distributions = "docker.io" in names(facts, node)
        what = "replace its containerd (apt removes containerd.io)" if distributions else "disturb them"
        return (
            f", and {other}: installing docker would {what}. Set requirements.docker.require to false, or "
            "install docker beside it by hand"
        )
    if manager(facts) is None:
        return by_hand(facts, "it")
    if not names(facts, node):
        return (
            "; this distribution has no docker of its own: set requirements.docker.source to docker "
            "(or packages.folder, or docker.package)"
        )
    if node.requirements.docker.source == "docker" and not _has_source(facts, node):
        return "; docker keeps no repository for this distribution: set requirements.packages.folder"
    return ""


def steps(facts: NodeFacts, node: Node) -> tuple[Step, ...]:
    """Return the steps that add the repository where it is asked for, and install the packages."""
    if hint(facts, node):
        return ()
    found: list[Step] = []
    own = repository_for(facts)
    if node.requirements.docker.source == "docker" and own is not None:
        added = repository(facts, node, own)
        # Without these apt refuses https, and the key cannot be fetched.
        certificates = install(facts, node, "Install the certificates of authorities", "ca-certificates")
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
