"""Find NVIDIA's package repositories for a distribution, and the fingerprints of the keys that sign them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements import signing_key
from clusterctl.requirements.packages import Repository, SigningKey, manager, repository

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.steps import Step

CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"
TOOLKIT = "https://nvidia.github.io/libnvidia-container"

_CUDATOOLS_DEB = ("3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC")
_CUDATOOLS_RPM = ("D42D0685.pub", "610C7B14E068A878070DA4E99CD0A493D42D0685")
CUDA_KEYS = {
    "debian11": _CUDATOOLS_DEB,
    "debian12": _CUDATOOLS_DEB,
    "debian13": ("8793F200.pub", "02182E60104FCDC26EAE1B8597A5D4CB8793F200"),
    "ubuntu2004": _CUDATOOLS_DEB,
    "ubuntu2204": _CUDATOOLS_DEB,
    "ubuntu2404": _CUDATOOLS_DEB,
    "rhel8": _CUDATOOLS_RPM,
    "rhel9": _CUDATOOLS_RPM,
    "amzn2023": _CUDATOOLS_RPM,
}
"""Key file and fingerprint of the CUDA repository, by NVIDIA's name of the distribution."""
TOOLKIT_FINGERPRINT = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
"""The key of NVIDIA CORPORATION (Open Source Projects), from libnvidia-container's gpgkey."""


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
    if manager(facts) is None or arch is None or name not in CUDA_KEYS:
        return None
    file, fingerprint = CUDA_KEYS[name]
    url = f"{CUDA}/{name}/{arch}/"
    return Repository(
        "cuda", "NVIDIA's CUDA repository", url, SigningKey(fingerprint, None, url=f"{url}{file}")
    )


def toolkit_repository(facts: NodeFacts) -> Repository | None:
    """Return the container toolkit's repository; all distributions of a family share one."""
    found, machine = manager(facts), facts.system.machine.value or ""
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine)
    if found is None or arch is None:
        return None
    url = f"{TOOLKIT}/stable/deb/{arch}/" if found == "apt" else f"{TOOLKIT}/stable/rpm/{machine}/"
    key = SigningKey(TOOLKIT_FINGERPRINT, None, url=f"{TOOLKIT}/gpgkey")
    title = "NVIDIA's container toolkit repository"
    return Repository("nvidia-container-toolkit", title, url, key, signs="metadata")


def steps(facts: NodeFacts, node: Node, wanted: Repository) -> tuple[Step, ...]:
    """Return the steps that add a repository; empty when packages come from a directory or the site already has it."""
    found = repository(facts, node, wanted)
    return (*signing_key.tools(facts), *found) if found else ()
