"""The facts of what nodes share and of how they log in to each other: versions on disk, SSH mesh, NFS."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterctl.facts.base import Part, Reading, ReadStatus
from clusterctl.facts.model_host import ConfigLine
from clusterctl.facts.model_services import Mount


@dataclass(frozen=True, slots=True)
class FirmwareWord(Part):
    """One entry of the firmware's DMI table, by its name below /sys/class/dmi/id."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Versions(Part):
    """What file names and firmware tables tell of versions."""

    firmware: tuple[FirmwareWord, ...] = ()
    nccl_files: tuple[str, ...] = ()
    """Versions of NCCL by the names of its library and Python packages."""
    cuda: tuple[str, ...] = ()
    """Versions of CUDA below /usr/local."""

    def firmware_word(self, name: str) -> str | None:
        """Return an entry of the DMI table, or None."""
        return next((word.value for word in self.firmware if word.name == name), None)

    @property
    def nccl(self) -> str | None:
        """The NCCL versions on disk, or None where there is none."""
        return ", ".join(self.nccl_files) or None


_NOT_ASKED = "the probe did not ask for it"


@dataclass(frozen=True, slots=True)
class Login(Part):
    """The account that the controller logs in to."""

    user: str
    uid: int
    home: str


@dataclass(frozen=True, slots=True)
class PathMode(Part):
    """Who owns a path, and its permissions as ``ls`` writes them (``drwxr-xr-x``)."""

    path: str
    mode: str
    uid: int
    gid: int | None = None

    def writable_by_others(self, own_group: int | None) -> bool:
        """Whether somebody else may write to it, which sshd's StrictModes does not accept."""
        by_group = len(self.mode) > 5 and self.mode[5] == "w" and (own_group is None or self.gid != own_group)
        return by_group or (len(self.mode) > 8 and self.mode[8] == "w")


@dataclass(frozen=True, slots=True)
class OwnText(Part):
    """What clusterctl keeps in a file: the text, or of a long one its SHA-256 only."""

    path: str
    text: str | None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class SshMesh(Part):
    """How the node's account can be logged in to, and what it would use to log in elsewhere.

    All but ``login`` and ``tools`` is read only on nodes that have a folder for mesh keys.
    """

    login: Reading[Login] = Reading(None, ReadStatus.ABSENT, _NOT_ASKED)  # noqa: RUF009
    tools: tuple[str, ...] = ()
    """Which of ssh, ssh-keygen and sshd are there."""
    keys: tuple[ConfigLine, ...] = ()
    """Public halves of mesh keys: path and line."""
    host_keys: tuple[ConfigLine, ...] = ()
    """Public host keys of the node's SSH server: path and line."""
    sshd: Reading[tuple[ConfigLine, ...]] = Reading(None, ReadStatus.ABSENT, _NOT_ASKED)  # noqa: RUF009
    """Settings that hold for this account (``sshd -T``): ``path`` is the key word, ``text`` its value."""
    authorized_keys: str = ""
    """The first file that the server looks for keys in, for this account; ``none`` where it looks in no file."""
    modes: tuple[PathMode, ...] = ()
    """Home, the folder of authorized_keys and the file itself, as far as they are there."""
    own: tuple[OwnText, ...] = ()
    """clusterctl's part of authorized_keys, and its known_hosts and ssh_config files."""
    client: tuple[ConfigLine, ...] = ()
    """Lines of ssh_config files that are read before or beside clusterctl's and could overrule it."""
    own_group: int | None = None
    """The account's group, where it is in it alone and the SSH server lets such a group write (Debian's)."""

    def own_texts(self, path: str, begin: str = "") -> tuple[OwnText, ...]:
        """Return clusterctl's parts of a file that begin so, and long ones, whose beginning is not known."""
        found = (own for own in self.own if own.path == path)
        return tuple(own for own in found if own.text is None or own.text.startswith(begin))

    def own_text(self, path: str, begin: str = "") -> OwnText | None:
        """Return clusterctl's part of a file, of several the one that begins so; None where it has none."""
        found = self.own_texts(path, begin)
        return next((own for own in found if own.text is not None), found[0] if found else None)

    def setting(self, name: str) -> str | None:
        """Return a setting of the SSH server (lower case), or None where it is not known."""
        return next((line.text for line in self.sshd.or_else(()) if line.path == name), None)


@dataclass(frozen=True, slots=True)
class MountUnit(Part):
    """A systemd mount unit below /etc/systemd/system, and whether something starts it at boot."""

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
    """What the node exports by NFS, what it mounts, and whether that answers."""

    exports: tuple[ConfigLine, ...] = ()
    """Lines of /etc/exports and exports.d."""
    exported: tuple[ConfigLine, ...] = ()
    """What is exported now (etab): ``path`` is the folder, ``text`` is ``client(options)``."""
    server_threads: int | None = None
    """How many threads serve NFS; None where the kernel's server is not loaded."""
    server_enabled: bool = False
    """Whether something starts the server at boot."""
    mount_units: tuple[MountUnit, ...] = ()
    health: tuple[MountHealth, ...] = field(default=())
    automounts: tuple[Mount, ...] = ()
    """Paths at which an automount waits (type ``autofs``), each followed by what it has mounted there, if anything."""

    def state_of(self, path: str) -> str | None:
        """Return the state of a network file system mounted at a path, or None where none is."""
        return next((health.state for health in self.health if health.path == path), None)

    def unit(self, name: str) -> MountUnit | None:
        """Return a mount unit of /etc/systemd/system, or None."""
        return next((unit for unit in self.mount_units if unit.name == name), None)
