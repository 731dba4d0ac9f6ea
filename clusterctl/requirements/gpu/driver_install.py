"""Plan the installation of an NVIDIA driver: packages by distribution and source, nouveau disabled, version pins.

Package names: NVIDIA Driver Installation Guide (kernel modules, version locking), packages.ubuntu.com and
packages.debian.org.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl.facts.subjects.gpu_models import is_joined_to_its_cpu
from clusterctl.facts.vendors import tables
from clusterctl.requirements import packages
from clusterctl.requirements.gpu import nvidia_repository
from clusterctl.requirements.gpus import own_gpus
from clusterctl.requirements.steps import Command, InstallPackages, Step, WriteFile
from clusterctl.requirements.wording import ENROLL

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node

PIN = "/etc/apt/preferences.d/clusterctl-nvidia-driver"
NO_NOUVEAU = "/etc/modprobe.d/clusterctl-no-nouveau.conf"
STREAM = "/etc/dnf/modules.d/nvidia-driver.module"
"""The file in which dnf records the enabled stream."""
LOCKS = "/etc/dnf/plugins/versionlock.list"
"""The file in which dnf's plugin records locked versions."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The steps that install a driver, or the reason why it cannot be installed."""

    steps: tuple[Step, ...] = ()
    why_not: str = ""
    warnings: tuple[str, ...] = ()


def without_nouveau(facts: NodeFacts) -> tuple[Step, ...]:
    """Return the steps that keep nouveau from being loaded at the next boot, from the initramfs as well."""
    dracut = ("dracut", "--force")
    rebuild = {"apt": ("update-initramfs", "-u"), "dnf": dracut, "yum": dracut}.get(
        facts.software.manager or ""
    )
    text = "# Written by clusterctl (requirement gpu-driver).\nblacklist nouveau\noptions nouveau modeset=0\n"
    file = WriteFile("Keep nouveau from being loaded", NO_NOUVEAU, text)
    if rebuild is None:
        return (file,)
    return (
        # Undo runs in reverse order, so the rebuild that must follow the removal comes before the file.
        Command("Let undo rebuild the initramfs after it removes the file", ("true",), rebuild),
        file,
        Command("Rebuild the initramfs without nouveau", rebuild, None),
    )


def _pin(version: str) -> WriteFile:
    text = (
        "# Written by clusterctl (requirement gpu-driver).\n"
        "Package: *nvidia* libcuda* cuda-drivers*\n"
        f"Pin: version {version}.*\nPin-Priority: 1001\n\n"
        "Package: *nvidia* libcuda* cuda-drivers*\n"
        f"Pin: version {version}-*\nPin-Priority: 1001\n"
    )
    return WriteFile(f"Pin the driver's packages to {version}", PIN, text)


def _headers(facts: NodeFacts) -> tuple[str, ...]:
    name = packages.kernel_headers(facts)
    return (name,) if facts.modules.headers.value is None and name is not None else ()


def _is_before_turing(facts: NodeFacts) -> bool:
    """Whether all GPUs are older than Turing; an old display card next to newer GPUs does not matter."""
    return all(int(gpu.device, 16) < tables.first_device("turing") for gpu in own_gpus(facts))


def _takes_proprietary(facts: NodeFacts, node: Node) -> bool:
    return node.requirements.gpu_driver.flavour == "proprietary" or _is_before_turing(facts)


def _unfit(facts: NodeFacts, node: Node) -> str:
    """Return why no driver that the inventory allows supports these GPUs; empty if one does."""
    settings = node.requirements.gpu_driver
    named = ", ".join(sorted({f"{gpu.vendor}:{gpu.device}" for gpu in own_gpus(facts)}))
    # The open modules support GPUs from Turing on, the proprietary ones neither Grace Hopper nor Blackwell.
    blackwell = tables.first_device("blackwell")
    new = any(int(gpu.device, 16) >= blackwell or is_joined_to_its_cpu(gpu) for gpu in own_gpus(facts))
    if settings.flavour == "proprietary" and new:
        return f"only the open kernel modules support these GPUs ({named}): set gpu_driver.flavour to open or any"
    if not _is_before_turing(facts):
        return ""
    if settings.flavour == "open":
        return f"the open kernel modules do not support GPUs before Turing ({named}): set gpu_driver.flavour to any"
    branch = None if settings.version is None else int(settings.version.partition(".")[0])
    last = tables.branch("last-before-turing")
    latest = branch is None and settings.install == "nvidia"
    if latest or (branch or 0) > last:
        return (
            f"{last} is the last branch that supports GPUs before Turing ({named}): set "
            f"gpu_driver.version to '{last}' or older"
        )
    return ""


def _from_distribution(facts: NodeFacts, node: Node) -> Offer:
    system = facts.system.os.value
    settings = node.requirements.gpu_driver
    folder = node.requirements.packages.folder
    proprietary = _takes_proprietary(facts, node)
    if system is not None and system.id == "ubuntu":
        if settings.version is None:
            return Offer(
                why_not="Ubuntu offers several driver branches: choose one (requirements.gpu_driver.version: '570')"
            )
        branch = settings.version.partition(".")[0]
        name = f"nvidia-driver-{branch}-server" + ("" if proprietary else "-open")
        names = (*_headers(facts), name)
        return Offer((InstallPackages(f"Install {name}", "apt", names, folder),))
    if system is not None and system.id == "debian":
        kernel = "nvidia-kernel-dkms" if proprietary else "nvidia-open-kernel-dkms"
        # Without a display: the module, nvidia-smi, and the library that CUDA programs load.
        names = (*_headers(facts), kernel, "nvidia-smi", "libcuda1", "nvidia-persistenced")
        note = "Debian has these packages in contrib, non-free and non-free-firmware: enable them in apt's sources"
        return Offer((InstallPackages(f"Install {kernel}", "apt", names, folder),), warnings=(note,))
    name = system.pretty_name if system is not None else "this distribution"
    return Offer(why_not=f"{name} provides no NVIDIA driver (set gpu_driver.install: nvidia)")


def choose_stream(stream: str) -> Command:
    """Return the step that enables a branch's stream; undo resets it only if this step enabled it."""
    enabled = 'grep -qsFx "stream=$1" "$2" && grep -qsFx state=enabled "$2"'
    words = ("stream", stream, STREAM)
    return Command(
        f"Choose the driver branch {stream}",
        ("dnf", "-y", "module", "enable", f"nvidia-driver:{stream}"),
        undo=("sh", "-c", f"! {{ {enabled}; }} || dnf -y module reset nvidia-driver", *words),
        guard=("sh", "-c", enabled, *words),
    )


def lock_version(version: str, package: str) -> Command:
    """Return the step that keeps dnf to one version of the driver where it has no module streams.

    dnf locks each available package that matches a pattern; undo removes the locks that the patterns match.
    """
    patterns = (f"*nvidia*{version}*", *([f"{package}*{version}*"] if "nvidia" not in package else []))
    locked = 'grep -qsE "^[^#]*nvidia.*[-:]$1[.-]" "$2"'
    words = ("lock", version.replace(".", "[.]"), LOCKS)
    return Command(
        f"Lock the driver's packages to {version}",
        # dnf accepts patterns that match nothing, and would then install the newest driver.
        (
            "sh",
            "-c",
            f'list=$2 v=$1; shift 2; dnf -y versionlock add "$@" && set -- "$v" "$list" && {locked}',
            *words,
            *patterns,
        ),
        undo=(
            "sh",
            "-c",
            f'! {{ {locked}; }} || {{ shift 2; dnf -y versionlock delete "$@"; }}',
            *words,
            *patterns,
        ),
        guard=("sh", "-c", locked, *words),
    )


def _branches(facts: NodeFacts, node: Node, package: str, *, proprietary: bool) -> tuple[Step, ...]:
    """Return the steps that choose a branch of the driver in NVIDIA's repository for dnf.

    Up to RHEL 9 a branch is a module stream. RHEL 10 has no streams, and NVIDIA's guide locks the versions.
    """
    settings, system = node.requirements.gpu_driver, facts.system.os.value
    if system is not None and system.is_rhel(10):
        if settings.version is None:
            return ()
        plugin = InstallPackages("Install dnf's versionlock", "dnf", ("python3-dnf-plugin-versionlock",))
        return (plugin, lock_version(settings.version, package))
    branch = settings.version.partition(".")[0] if settings.version is not None else None
    open_stream = f"{branch}-open" if branch else "open-dkms"
    return (choose_stream(f"{branch or 'latest'}-dkms" if proprietary else open_stream),)


def _epel(facts: NodeFacts) -> tuple[str, str]:
    """Return the package that adds EPEL, which provides dkms; or why there is none. Both empty: not needed."""
    system = facts.system.os.value
    ready = facts.software.package("dkms") is not None or facts.software.has_repository("epel")
    if system is None or ready or not system.is_rhel(8):
        return "", ""
    if system.id in ("rocky", "almalinux", "centos"):
        return "epel-release", ""
    major = system.version_id.partition(".")[0]
    if system.id == "ol":
        return f"oracle-epel-release-el{major}", ""
    address = f"https://dl.fedoraproject.org/pub/epel/epel-release-latest-{major}.noarch.rpm"
    return "", (
        f"the driver needs dkms, which is in EPEL: run dnf install {address}, install dkms from the site's mirror, or "
        "set packages.folder"
    )


def _from_nvidia(facts: NodeFacts, node: Node) -> Offer:
    settings = node.requirements.gpu_driver
    folder = node.requirements.packages.folder
    repository = nvidia_repository.cuda_repository(facts)
    manager = packages.manager(facts)
    of_site = facts.software.has_repository(nvidia_repository.CUDA_PATH)
    if manager is None or (repository is None and folder is None and not of_site):
        where = nvidia_repository.distribution(facts) or "this distribution"
        return Offer(
            why_not=f"clusterctl has no signing key for NVIDIA's repository of {where}: add that repository by hand, "
            "or set packages.folder"
        )
    proprietary = _takes_proprietary(facts, node)
    package = "cuda-drivers" if proprietary else "nvidia-open"
    found: list[Step] = [] if repository is None else [*nvidia_repository.steps(facts, node, repository)]
    if manager == "apt":
        if settings.version is not None:
            found.append(_pin(settings.version))
        names = (*_headers(facts), package)
        found.append(InstallPackages(f"Install {package}", "apt", names, folder))
        return Offer(tuple(found))
    if folder is None:
        epel, why_not = _epel(facts)
        if why_not:
            return Offer(why_not=why_not)
        if epel:
            found.append(InstallPackages(f"Install {epel}, which provides dkms", "dnf", (epel,)))
        found += _branches(facts, node, package, proprietary=proprietary)
    exact = settings.version if settings.version is not None and "." in settings.version else None
    name = package if exact is None else f"{package}-{exact}"
    found.append(InstallPackages(f"Install {name}", "dnf", (*_headers(facts), name), folder))
    return Offer(tuple(found))


def offer(facts: NodeFacts, node: Node) -> Offer:
    """Return the steps that install a driver, according to ``gpu_driver.install``."""
    source = node.requirements.gpu_driver.install
    if source == "never":
        return Offer(why_not="the inventory does not request it")
    unfit = packages.refused(facts) or _unfit(facts, node)
    if unfit:
        return Offer(why_not=unfit)
    offered = _from_distribution(facts, node) if source == "distribution" else _from_nvidia(facts, node)
    if offered.steps and facts.system.rejects_unsigned_modules:
        note = f"Secure Boot is on, or the kernel is locked down: {ENROLL}"
        return Offer(offered.steps, warnings=(*offered.warnings, note))
    return offered
