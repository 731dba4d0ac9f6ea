"""Facts of services, software, docker, storage, clock and kernel parameters."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from clusterctl.facts.base import Part, Reading, ReadStatus
from clusterctl.facts.model.host import ConfigLine


@dataclass(frozen=True, slots=True)
class Unit(Part):
    """A systemd unit: ``load`` (loaded, not-found, masked), ``active`` (active, failed, ..), ``enabled``."""

    name: str
    load: str
    active: str
    enabled: str
    memlock: str = ""


@dataclass(frozen=True, slots=True)
class Services(Part):
    """Units that requirements use; ``absent`` if systemd does not run the node."""

    units: Reading[tuple[Unit, ...]]

    def unit(self, name: str) -> Unit | None:
        """Return the unit with this name (including its suffix); None if systemd does not find it."""
        for unit in self.units.or_else(()):
            if unit.name == name and unit.load != "not-found":
                return unit
        return None


@dataclass(frozen=True, slots=True)
class Tool(Part):
    """A program and its path on the node."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Package(Part):
    """An installed package."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Software(Part):
    """Programs on the PATH (including system directories) and packages, of those that requirements use."""

    manager: str | None  # apt | dnf | yum (without dnf) | zypper
    tools: tuple[Tool, ...]
    packages: Reading[tuple[Package, ...]]
    repositories: tuple[ConfigLine, ...] = ()
    """Lines with an address in the sources of apt and dnf."""

    def tool(self, name: str) -> str | None:
        """Return the program's path, or None."""
        return next((tool.path for tool in self.tools if tool.name == name), None)

    def package(self, name: str) -> str | None:
        """Return the installed version of a package, or None."""
        return next((p.version for p in self.packages.or_else(()) if p.name == name), None)

    def has_repository(self, address: str) -> bool:
        """Return whether a package source has an address with this text in it (``download.docker.com``)."""
        return any(address in line.text for line in self.repositories)


@dataclass(frozen=True, slots=True)
class ManagedFile(Part):
    """A file that clusterctl wrote on the node (recognized by its name), with its text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class FileSum(Part):
    """A file and the SHA-256 of its content (hexadecimal)."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class DockerEngine(Part):
    """The engine's own report (``docker info``)."""

    server_version: str
    runtimes: tuple[str, ...]
    default_runtime: str
    cdi_spec_dirs: tuple[str, ...]
    cgroup_driver: str
    storage_driver: str
    root_dir: str
    warnings: tuple[str, ...] = ()
    containers_running: int | None = None
    live_restore: bool = False
    """Whether containers keep running when the engine restarts."""


@dataclass(frozen=True, slots=True)
class Docker(Part):
    """Docker: its program and engine (absent: not installed; failed: not running; denied: no permission)."""

    binary: str | None
    socket: bool
    user_access: bool
    engine: Reading[DockerEngine]
    daemon_config: Reading[str]
    """The text of /etc/docker/daemon.json."""
    cdi_specs: tuple[str, ...]
    cdi_kinds: tuple[str, ...]
    cdi_drivers: tuple[tuple[str, str], ...] = ()
    """Pairs of CDI specification and the version of the driver library that it names."""
    toolkit: Reading[str] = Reading(None, ReadStatus.ABSENT, "not probed")  # noqa: RUF009
    """The version of the NVIDIA Container Toolkit (``nvidia-ctk``)."""
    rootless: tuple[str, ...] = ()
    """Sockets of rootless engines that the login user can see."""
    cdi_unseen: str = ""
    """Why CDI specifications may exist that the probe did not see; empty if it saw all."""
    daemon_mode: int | None = None
    """The permission bits of /etc/docker/daemon.json."""
    hook_came_later: bool = False
    """Whether the toolkit's hook is newer than the engine's process, which looks for the hook only at its start."""
    cdi_majors: tuple[tuple[str, str, int], ...] = ()
    """CDI specification, path and major of each device node in it that has a major."""
    kernel_majors: tuple[tuple[str, int], ...] = ()
    """Name and major of NVIDIA's devices in /proc/devices whose majors the kernel chooses."""


@dataclass(frozen=True, slots=True)
class Mount(Part):
    """One line of /proc/mounts."""

    source: str
    target: str
    fstype: str
    options: tuple[str, ...]


def mount_target(path: str) -> str:
    """Return a path as the kernel lists it, without doubled or trailing slashes and dots."""
    return "/" + posixpath.normpath(path).lstrip("/")


@dataclass(frozen=True, slots=True)
class Space(Part):
    """A file system's size and free bytes, at one path."""

    path: str
    mounted_on: str
    size_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Inodes(Part):
    """A file system's number of inodes and of free ones, at one path."""

    path: str
    mounted_on: str
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Storage(Part):
    """Mounts (without those of kernel and containers), and free space at some paths (/tmp, those of a request).

    ``inodes`` lacks the paths whose file system has no fixed number of them.
    """

    mounts: Reading[tuple[Mount, ...]]
    space: Reading[tuple[Space, ...]]
    inodes: Reading[tuple[Inodes, ...]] = Reading(None, ReadStatus.ABSENT, "not probed")  # noqa: RUF009

    def at(self, path: str) -> Space | None:
        """Return the space at one of the probed paths."""
        return next((space for space in self.space.or_else(()) if space.path == path), None)

    def device_at(self, path: str) -> str | None:
        """Return the source of the file system at one of the probed paths, or its mount point if that is unknown."""
        space = self.at(path)
        if space is None:
            return None
        sources = {mount.target: mount.source for mount in self.mounts.or_else(())}
        return sources.get(space.mounted_on, space.mounted_on)


@dataclass(frozen=True, slots=True)
class Clock(Part):
    """The node's offset from the controller's clock (s, positive: the node is ahead), and its time service."""

    offset_s: float | None
    uncertainty_s: float | None
    source: str  # chrony | ptp | timesyncd | ntpd | none
    synchronized: Reading[bool]


@dataclass(frozen=True, slots=True)
class Sysctl(Part):
    """One kernel parameter by its dotted name."""

    name: str
    value: str
