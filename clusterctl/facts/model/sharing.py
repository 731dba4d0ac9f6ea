"""Facts of versions on disk, of the SSH mesh (how nodes log in to each other), and of NFS."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterctl.facts.base import Part, Reading, ReadStatus
from clusterctl.facts.model.host import ConfigLine
from clusterctl.facts.model.services import Mount


@dataclass(frozen=True, slots=True)
class FirmwareWord(Part):
    """One entry of the firmware's DMI table, with its name below /sys/class/dmi/id."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Versions(Part):
    """Versions from file names and firmware tables."""

    firmware: tuple[FirmwareWord, ...] = ()
    nccl_files: tuple[str, ...] = ()
    """Versions of NCCL, from the file names of its library and Python packages."""
    cuda: tuple[str, ...] = ()
    """Versions of CUDA below /usr/local."""
    cuda_compat: tuple[str, ...] = ()
    """Versions of the driver's libraries that CUDA's package for forward compatibility brought."""
    cudnn: tuple[str, ...] = ()
    """Versions of cuDNN, from the file names of its library."""
    libibverbs: tuple[str, ...] = ()
    """Versions in the file names of libibverbs: 1.14.39.0 of rdma-core 39, 1.0.0 of earlier ones."""
    ofed: str | None = None
    """The release that ``ofed_info`` names: MLNX_OFED_LINUX-5.4-3.1.0.0."""
    library: str | None = None
    """The collective library of an image of ``image build``, from its manifest."""

    def firmware_word(self, name: str) -> str | None:
        """Return an entry of the DMI table, or None."""
        return next((word.value for word in self.firmware if word.name == name), None)

    @property
    def nccl(self) -> str | None:
        """The NCCL versions on disk, or None without any."""
        return ", ".join(self.nccl_files) or None


_NOT_ASKED = "not probed"


@dataclass(frozen=True, slots=True)
class Login(Part):
    """The account that the controller logs in to."""

    user: str
    uid: int
    home: str


@dataclass(frozen=True, slots=True)
class PathMode(Part):
    """A path's owner, and its permissions as ``ls`` prints them (``drwxr-xr-x``)."""

    path: str
    mode: str
    uid: int
    gid: int | None = None

    def writable_by_others(self, own_group: int | None) -> bool:
        """Return whether other accounts may write to the path, which sshd's StrictModes rejects."""
        by_group = len(self.mode) > 5 and self.mode[5] == "w" and (own_group is None or self.gid != own_group)
        return by_group or (len(self.mode) > 8 and self.mode[8] == "w")


@dataclass(frozen=True, slots=True)
class OwnText(Part):
    """clusterctl's part of a file: its text, or only the SHA-256 of a long text."""

    path: str
    text: str | None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class SshMesh(Part):
    """The SSH settings for logins to the node's account, and for its logins to other nodes.

    Fields other than ``login`` and ``tools`` are read only on nodes that have a directory for mesh keys.
    """

    login: Reading[Login] = Reading(None, ReadStatus.ABSENT, _NOT_ASKED)  # noqa: RUF009
    tools: tuple[str, ...] = ()
    """Those of ssh, ssh-keygen and sshd that are installed."""
    keys: tuple[ConfigLine, ...] = ()
    """Public keys of the mesh: path and line."""
    host_keys: tuple[ConfigLine, ...] = ()
    """Public host keys of the node's SSH server: path and line."""
    sshd: Reading[tuple[ConfigLine, ...]] = Reading(None, ReadStatus.ABSENT, _NOT_ASKED)  # noqa: RUF009
    """Settings of the SSH server for this account (``sshd -T``): ``path`` is the keyword, ``text`` its value."""
    authorized_keys: str = ""
    """The first file that the server searches for this account's keys; ``none`` if it searches no file."""
    modes: tuple[PathMode, ...] = ()
    """Owner and mode of the home, of the directory of authorized_keys and of the file, of those that exist."""
    own: tuple[OwnText, ...] = ()
    """clusterctl's part of authorized_keys, and its known_hosts and ssh_config files."""
    client: tuple[ConfigLine, ...] = ()
    """Lines of ssh_config files that are read before or with clusterctl's and could take precedence over it."""
    own_group: int | None = None
    """The account's group if it has no other member and the SSH server lets such a group write (Debian)."""

    def own_texts(self, path: str, begin: str = "") -> tuple[OwnText, ...]:
        """Return clusterctl's parts of a file that begin with a text, and long ones, whose text is not known."""
        found = (own for own in self.own if own.path == path)
        return tuple(own for own in found if own.text is None or own.text.startswith(begin))

    def own_text(self, path: str, begin: str = "") -> OwnText | None:
        """Return clusterctl's part of a file, of several the one that begins with a text; None without any."""
        found = self.own_texts(path, begin)
        return next((own for own in found if own.text is not None), found[0] if found else None)

    def setting(self, name: str) -> str | None:
        """Return a setting of the SSH server by its lower-case name; None if unknown."""
        return next((line.text for line in self.sshd.or_else(()) if line.path == name), None)


@dataclass(frozen=True, slots=True)
class MountUnit(Part):
    """A systemd mount unit below /etc/systemd/system, and whether it starts at boot."""

    name: str
    text: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class MountHealth(Part):
    """Whether a network file system answers at a path: ``ok``, ``stale``, ``hung`` or ``failed``.

    ``denied``: it answers, but not to this account (Kerberos without a ticket).
    """

    path: str
    state: str


@dataclass(frozen=True, slots=True)
class Nfs(Part):
    """NFS exports and mounts of the node, and whether the mounts answer."""

    exports: tuple[ConfigLine, ...] = ()
    """Lines of /etc/exports and exports.d."""
    exported: tuple[ConfigLine, ...] = ()
    """Current exports (etab): ``path`` is the directory, ``text`` is ``client(options)``."""
    server_threads: int | None = None
    """Number of threads of the NFS server; None if the kernel's server is not loaded."""
    server_enabled: bool = False
    """Whether the server starts at boot."""
    mount_units: tuple[MountUnit, ...] = ()
    health: tuple[MountHealth, ...] = field(default=())
    automounts: tuple[Mount, ...] = ()
    """Automount points (type ``autofs``), each followed by the file system mounted there, if any."""

    def state_of(self, path: str) -> str | None:
        """Return the state of the network file system mounted at a path, or None without one."""
        return next((health.state for health in self.health if health.path == path), None)

    def unit(self, name: str) -> MountUnit | None:
        """Return a mount unit of /etc/systemd/system, or None."""
        return next((unit for unit in self.mount_units if unit.name == name), None)
