"""The facts of what runs on a host: services, software, docker, storage, clock, kernel parameters."""

from __future__ import annotations

from dataclasses import dataclass

from clusterctl.facts.base import Part, Reading, ReadStatus
from clusterctl.facts.model_host import ConfigLine


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
    """Units that requirements care about; ``absent`` where systemd does not run the node."""

    units: Reading[tuple[Unit, ...]]

    def unit(self, name: str) -> Unit | None:
        """Return the unit of this name (with its suffix) if systemd knows it."""
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
    """Programs found on the PATH (system folders included) and packages, of those that matter here."""

    manager: str | None  # apt | dnf | yum (without dnf) | zypper
    tools: tuple[Tool, ...]
    packages: Reading[tuple[Package, ...]]
    repositories: tuple[ConfigLine, ...] = ()
    """Lines of apt's and dnf's sources that name an address."""

    def tool(self, name: str) -> str | None:
        """Return the program's path, or None."""
        return next((tool.path for tool in self.tools if tool.name == name), None)

    def package(self, name: str) -> str | None:
        """Return the installed version of a package, or None."""
        return next((p.version for p in self.packages.or_else(()) if p.name == name), None)

    def has_repository(self, address: str) -> bool:
        """Whether some source file names an address that holds this text (``download.docker.com``)."""
        return any(address in line.text for line in self.repositories)


@dataclass(frozen=True, slots=True)
class ManagedFile(Part):
    """A file that clusterctl put on the node (its name says so), with its lines."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class FileSum(Part):
    """A file and the SHA-256 of its content, in hex."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class DockerEngine(Part):
    """The engine's own account (``docker info``)."""

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
    """Whether containers outlive a restart of the engine."""


@dataclass(frozen=True, slots=True)
class Docker(Part):
    """Docker: its program and engine (absent: not installed; failed: not running; denied: no right)."""

    binary: str | None
    socket: bool
    user_access: bool
    engine: Reading[DockerEngine]
    daemon_config: Reading[str]
    """The text of /etc/docker/daemon.json."""
    cdi_specs: tuple[str, ...]
    cdi_kinds: tuple[str, ...]
    cdi_drivers: tuple[tuple[str, str], ...] = ()
    """CDI specification and the version of the driver library that it names."""
    toolkit: Reading[str] = Reading(None, ReadStatus.ABSENT, "the probe did not ask for it")  # noqa: RUF009
    """The version of the NVIDIA Container Toolkit (``nvidia-ctk``)."""
    rootless: tuple[str, ...] = ()
    """Sockets of engines that users run for themselves, as far as the login user may see them."""
    cdi_unseen: str = ""
    """Why there may be CDI specifications that were not seen; empty where all were."""
    daemon_mode: int | None = None
    """The permissions of /etc/docker/daemon.json."""
    hook_came_later: bool = False
    """Whether the toolkit's hook is newer than the engine's process, which looked for it when it started."""


@dataclass(frozen=True, slots=True)
class Mount(Part):
    """One line of /proc/mounts."""

    source: str
    target: str
    fstype: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Space(Part):
    """A file system's size and free bytes, at one path."""

    path: str
    mounted_on: str
    size_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Storage(Part):
    """Mounts (without kernel and container ones) and free space at /, /dev/shm, /tmp and /var/lib/docker."""

    mounts: Reading[tuple[Mount, ...]]
    space: Reading[tuple[Space, ...]]

    def at(self, path: str) -> Space | None:
        """Return the space at one of the probed paths."""
        return next((space for space in self.space.or_else(()) if space.path == path), None)


@dataclass(frozen=True, slots=True)
class Clock(Part):
    """The node's clock against the controller's (positive: the node is ahead), and who keeps it."""

    offset_s: float | None
    uncertainty_s: float | None
    source: str  # chrony | ptp | timesyncd | ntpd | none
    synchronized: Reading[bool]


@dataclass(frozen=True, slots=True)
class Sysctl(Part):
    """One kernel parameter by its dotted name."""

    name: str
    value: str
