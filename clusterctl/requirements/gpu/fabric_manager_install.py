"""Plan the installation of the fabric manager in exactly the driver's version, pinned by an apt preference.

Package names: NVIDIA Fabric Manager user guide; packages.ubuntu.com (nvidia-fabricmanager-NNN); NVIDIA's repositories,
which renamed nvidia-fabric-manager (RPM) and nvidia-fabricmanager-NNN (Debian) to nvidia-fabricmanager with R580.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.vendors import tables
from clusterctl.requirements.gpu import nvidia_repository
from clusterctl.requirements.packages import manager
from clusterctl.requirements.steps import Command, InstallPackages, RestartUnit, Step, WriteFile
from clusterctl.text.foreign import whole

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.facts.model.services import Package
    from clusterctl.inventory.model import Node

UNIT = "nvidia-fabricmanager.service"
PIN = "/etc/apt/preferences.d/clusterctl-fabric-manager"
# The same options as the runner: keep changed configuration files without a prompt.
_APT_OPTIONS = ("-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Options::=--force-confold")

_DEB_VERSION = """\
case $(dpkg-query -W -f '${Version}' "$1" 2>/dev/null) in
"$2"-*) ;;
*) exit 1 ;;
esac
"""


def _package(facts: NodeFacts) -> Package | None:
    for package in facts.software.packages.or_else(()):
        if package.name.startswith(("nvidia-fabricmanager", "nvidia-fabric-manager")):
            return package
    return None


def installed_version(facts: NodeFacts) -> str | None:
    """Return the installed manager's version as it reports it, otherwise its package's version."""
    if facts.gpu.fabric_manager.value is not None:
        return facts.gpu.fabric_manager.value
    package = _package(facts)
    return package.version.rpartition(":")[2].partition("-")[0] if package is not None else None


def _from_nvidia(facts: NodeFacts, node: Node) -> bool:
    """Whether the driver comes from NVIDIA's repository, now or after the installation."""
    system = facts.system.os.value
    if node.requirements.gpu_driver.install == "nvidia" or (system is not None and system.id == "debian"):
        return True
    names = {package.name for package in facts.software.packages.or_else(())}
    from_there = facts.software.has_repository("developer.download.nvidia.com/compute/cuda")
    return from_there or bool(names & {"nvidia-open", "cuda-drivers"})


def package_name(facts: NodeFacts, node: Node, version: str) -> str:
    """Return the name of the fabric manager's package in the repository of the driver."""
    branch = version.partition(".")[0]
    renamed = whole(branch) >= tables.branch("fabric-manager-renamed")
    if facts.software.manager == "apt":
        return (
            "nvidia-fabricmanager"
            if renamed and _from_nvidia(facts, node)
            else f"nvidia-fabricmanager-{branch}"
        )
    return "nvidia-fabricmanager" if renamed else "nvidia-fabric-manager"


def _pin(version: str) -> WriteFile:
    text = (
        "# Written by clusterctl (requirement fabric-manager): it must be the driver's version to the last digit.\n"
        f"Package: nvidia-fabricmanager*\nPin: version {version}-*\nPin-Priority: 1001\n"
    )
    return WriteFile(f"Pin the fabric manager to {version}", PIN, text)


def subnet_manager(facts: NodeFacts, node: Node) -> tuple[InstallPackages, ...]:
    """Return the step that installs nvlsm, which the manager starts for NVLink 5; empty if it is installed."""
    found = manager(facts)
    if found is None or facts.software.package("nvlsm") is not None:
        return ()
    folder = node.requirements.packages.folder
    return (InstallPackages("Install the NVLink subnet manager", found, ("nvlsm",), folder),)


def change_to(facts: NodeFacts, node: Node, version: str, nvlink_5: bool) -> tuple[Step, ...]:
    """Return the steps that install this version, replacing an installed one; empty if that is impossible."""
    found = manager(facts)
    if found is None:
        return ()
    folder = node.requirements.packages.folder
    name = package_name(facts, node, version)
    repository = (
        nvidia_repository.cuda_repository(facts) if node.requirements.gpu_driver.install == "nvidia" else None
    )
    steps: list[Step] = [*nvidia_repository.steps(facts, node, repository)] if repository is not None else []
    if found == "apt":
        steps.append(_pin(version))
    wanted = name if found == "apt" else f"{name}-{version}"
    others = ("nvlsm",) if nvlink_5 and facts.software.package("nvlsm") is None else ()
    old = _package(facts)
    if old is None:
        if facts.gpu.fabric_manager.value is not None:
            return ()  # It was installed without a package (a runfile), so only the operator can change it.
        steps.append(InstallPackages(f"Install {wanted} {version}", found, (wanted, *others), folder))
        return tuple(steps)
    if folder is not None:
        return ()
    if nvlink_5:
        steps += subnet_manager(facts, node)
    do: tuple[str, ...]
    back: tuple[str, ...]
    guard: tuple[str, ...]
    about = f"Change the fabric manager from {old.version} to {version}"
    if found == "apt":
        get = ("apt-get", "-q", "-y", "--allow-downgrades", *_APT_OPTIONS, "install")
        do = (*get, name) if old.name == name else (*get, name, f"{old.name}-")
        back = (*get, f"{old.name}={old.version}") + (() if old.name == name else (f"{name}-",))
        guard = ("sh", "-c", _DEB_VERSION, "has-version", name, version)
    else:
        dnf = ("dnf", "-y", "--allowerasing", "install")
        do, back = (*dnf, wanted), (*dnf, f"{old.name}-{old.version}")
        guard = ("rpm", "-q", "--quiet", wanted)
    steps.append(Command(about, do, back, guard, timeout_s=1500.0))
    if facts.system.systemd_running:
        steps.append(RestartUnit(f"Restart {UNIT} with its new version", UNIT))
    return tuple(steps)
