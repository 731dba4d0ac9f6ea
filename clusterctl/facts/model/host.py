"""Facts of the host itself: system, processors, memory, and the limits of its SSH sessions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterctl.facts.base import Part, Reading

UNLIMITED = -1
"""The value of a resource limit that is ``unlimited``."""


@dataclass(frozen=True, slots=True)
class RootAccess(Part):
    """How the probe ran the sections that need root: ``root``, passwordless ``sudo``, or ``none`` (not at all)."""

    uid: int
    way: str  # root | sudo | none
    detail: str = ""

    @property
    def available(self) -> bool:
        """Whether root-only sections could be read."""
        return self.way != "none"


@dataclass(frozen=True, slots=True)
class OsRelease(Part):
    """``/etc/os-release``."""

    id: str
    like: tuple[str, ...]
    version_id: str
    pretty_name: str
    codename: str = ""
    """The release's name in repositories (bookworm, jammy); empty outside Debian and Ubuntu."""

    @property
    def family(self) -> str:
        """``debian``, ``rhel``, ``suse`` or the distribution's own id."""
        names = (self.id, *self.like)
        for family, members in (
            ("debian", {"debian", "ubuntu"}),
            ("rhel", {"rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn"}),
            ("suse", {"suse", "opensuse", "sles"}),
        ):
            if members.intersection(names):
                return family
        return self.id

    def is_rhel(self, first: int) -> bool:
        """Return whether it is RHEL or a rebuild of it (Rocky, Alma, Oracle, CentOS) of this major release or later."""
        major = self.version_id.partition(".")[0]
        return (
            self.id in ("rhel", "rocky", "almalinux", "ol", "centos")
            and major.isdecimal() and len(major) < 4 and int(major) >= first
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Virtualization(Part):
    """Virtualization of the node: ``vm`` and ``container`` hold systemd-detect-virt's word, or ``none``."""

    vm: str
    container: str
    source: str

    @property
    def is_vm(self) -> bool:
        return self.vm != "none"

    @property
    def is_container(self) -> bool:
        return self.container != "none"


@dataclass(frozen=True, slots=True)
class System(Part):
    """Operating system, kernel and virtualization."""

    hostname: Reading[str]
    os: Reading[OsRelease]
    kernel: Reading[str]
    machine: Reading[str]
    cmdline: Reading[tuple[str, ...]]
    boot_id: Reading[str]
    uptime_s: Reading[float]
    virtualization: Reading[Virtualization]
    init: Reading[str]
    systemd_running: bool
    secure_boot: Reading[bool]
    lockdown: str = ""
    """The kernel's lockdown: ``none``, ``integrity`` or ``confidentiality``; empty if the kernel has none."""

    @property
    def is_locked_down(self) -> bool:
        """Whether even root may not change PCI registers or load unsigned modules (man 7 kernel_lockdown)."""
        return self.lockdown in ("integrity", "confidentiality")

    @property
    def rejects_unsigned_modules(self) -> bool:
        """Whether the kernel loads signed modules only, as far as it can be read."""
        return self.is_locked_down or self.secure_boot.value is True

    @property
    def kernel_version(self) -> tuple[int, int] | None:
        """(major, minor) of the running kernel; None if unknown."""
        found = re.match(r"(\d{1,9})\.(\d{1,9})", self.kernel.value or "")
        return (int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True, slots=True)
class NumaNode(Part):
    """One NUMA node and its processors."""

    index: int
    cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Governor(Part):
    """The processors that share one frequency governor, and the governors that are available for them."""

    name: str
    available: tuple[str, ...]
    cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CpuTopology(Part):
    """Online processors: hardware threads, and total cores and sockets."""

    model_name: str
    online: tuple[int, ...]
    cores: int
    sockets: int
    hypervisor: bool

    @property
    def threads(self) -> int:
        return len(self.online)


@dataclass(frozen=True, slots=True)
class Frequency(Part):
    """Limits of CPU frequencies besides the governor (kernel, admin-guide/pm: intel_pstate, amd-pstate)."""

    driver: str
    preference: str | None = None
    """energy_performance_preference of the first processor."""
    max_performance_percent: int | None = None
    turbo: bool | None = None


@dataclass(frozen=True, slots=True)
class Cpu(Part):
    """Processors; governors are ``absent`` if the kernel offers no frequency scaling, as in most VMs."""

    topology: Reading[CpuTopology]
    numa_nodes: Reading[tuple[NumaNode, ...]]
    governors: Reading[tuple[Governor, ...]]
    numa_balancing: Reading[int]
    frequency: Frequency | None = None


@dataclass(frozen=True, slots=True)
class HugePages(Part):
    """Huge pages of one size in bytes: total and free count."""

    size_bytes: int
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Memory(Part):
    """Memory in bytes."""

    total_bytes: Reading[int]
    available_bytes: Reading[int]
    hugepages: tuple[HugePages, ...]
    transparent_hugepages: Reading[str]


@dataclass(frozen=True, slots=True)
class Limit(Part):
    """A resource limit in the kernel's unit (bytes or a count); ``UNLIMITED`` is -1."""

    soft: int
    hard: int


@dataclass(frozen=True, slots=True)
class ConfigLine(Part):
    """One line of a configuration file that is neither blank nor a comment."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Limits(Part):
    """Limits of the process that a non-interactive SSH session starts, before any sudo.

    ``memlock`` and ``stack`` are in bytes (``ulimit -l`` and ``-s`` print KiB), ``nofile`` is a count.
    """

    memlock: Reading[Limit]
    nofile: Reading[Limit]
    stack: Reading[Limit]
    nproc: Reading[Limit]
    configured: tuple[ConfigLine, ...]
    """/etc/security/limits.conf and limits.d, and pam_limits lines of the PAM services."""
    sshd: tuple[ConfigLine, ...]
    """UsePAM, Include and similar lines of sshd's configuration."""
    shells: tuple[ConfigLine, ...] = ()
    """``ulimit`` and ``limit`` lines of the shells' start-up files."""
    login_shell: str = ""
