"""Find NVIDIA's package repositories for a distribution, and the fingerprints of the keys that sign them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.vendors import tables
from clusterctl.requirements import signing_key
from clusterctl.requirements.packages import Repository, SigningKey, manager, repository

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.steps import Step

CUDA_PATH = "compute/cuda/repos"
"""The part of the address that mirrors keep."""
CUDA = f"https://developer.download.nvidia.com/{CUDA_PATH}"
TOOLKIT = "https://nvidia.github.io/libnvidia-container"


def distribution(facts: NodeFacts) -> str | None:
    """Return NVIDIA's name for a distribution and its version (``ubuntu2204``, ``rhel9``)."""
    system = facts.system.os.value
    if system is None:
        return None
    major = system.version_id.partition(".")[0]
    if system.id == "ubuntu":
        return "ubuntu" + system.version_id.replace(".", "")
    if system.id in ("rhel", "rocky", "almalinux", "ol", "centos"):
        return f"rhel{major}"
    return f"{system.id}{major}"


def cuda_repository(facts: NodeFacts) -> Repository | None:
    """Return the CUDA repository, which has drivers and the fabric manager; None without a known key."""
    name = distribution(facts)
    arch = {"x86_64": "x86_64", "aarch64": "sbsa"}.get(facts.system.machine.value or "")
    key = tables.repository_key("cuda", name)
    if manager(facts) is None or arch is None or key is None:
        return None
    url = f"{CUDA}/{name}/{arch}/"
    return Repository(
        "cuda", "NVIDIA's CUDA repository", url, SigningKey(key.fingerprint, None, url=f"{url}{key.file}")
    )


def toolkit_repository(facts: NodeFacts) -> Repository | None:
    """Return the container toolkit's repository; all distributions of a family share one."""
    found, machine = manager(facts), facts.system.machine.value or ""
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine)
    known = tables.repository_key("container-toolkit")
    if found is None or arch is None or known is None:
        return None
    url = f"{TOOLKIT}/stable/deb/{arch}/" if found == "apt" else f"{TOOLKIT}/stable/rpm/{machine}/"
    key = SigningKey(known.fingerprint, None, url=f"{TOOLKIT}/{known.file}")
    title = "NVIDIA's container toolkit repository"
    return Repository("nvidia-container-toolkit", title, url, key, signs="metadata")


def steps(facts: NodeFacts, node: Node, wanted: Repository) -> tuple[Step, ...]:
    """Return the steps that add a repository; empty when packages come from a directory or the site already has it."""
    found = repository(facts, node, wanted)
    return (*signing_key.tools(facts), *found) if found else ()
