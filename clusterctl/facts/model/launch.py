"""Facts that starting programs or containers across nodes needs: the login session, programs, paths, GPU access."""

from __future__ import annotations

from dataclasses import dataclass

from clusterctl.facts.base import Part, Reading


@dataclass(frozen=True, slots=True)
class Accepted(Part):
    """The address and port on which the node accepted the controller's SSH connection.

    They are correct behind forwarded ports and jump hosts, too.
    """

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class LoginSession(Part):
    """The login session of the probe, and how other nodes reach the node."""

    accepted: Reading[Accepted]
    """``absent`` without SSH."""
    cpus: Reading[tuple[int, ...]]
    """The processors on which the session may run; some of them may be offline."""
    listening: Reading[tuple[int, ...]]
    """TCP ports on which a program listens."""
    host_keys: tuple[str, ...] = ()
    """Public host keys in /etc/ssh: type and key. The SSH server may use others."""

    def keys_to_pin(self, verified: str | None) -> tuple[str, ...]:
        """Return the host keys that other nodes shall expect: the one that the controller verified at its login.

        Without a login (``connection: local``) they are those of this machine's files.
        """
        return self.host_keys if verified is None else (verified,)


@dataclass(frozen=True, slots=True)
class Executable(Part):
    """A program that can run: its absolute path, and the first lines of its version output, joined by blanks."""

    path: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class MeshKey(Part):
    """A key of the requirement ``ssh-mesh`` on the node: the mesh's name, the account in its file name, and its use."""

    mesh: str
    account: str
    readable: bool
    """Whether the session may read the private half."""


@dataclass(frozen=True, slots=True)
class LaunchFacts(Part):
    """The programs and files that a launch uses, each None if it was not found."""

    mpirun: Executable | None = None
    hydra: Executable | None = None
    """MPICH's launcher, under the names that distributions give it beside another MPI."""
    srun: str | None = None
    slurm_nodes: tuple[str, ...] = ()
    """The names of Slurm's nodes, as sinfo prints them on this node."""
    pyxis: bool = False
    """Whether srun has the options of Pyxis, which starts ranks in images."""
    enroot: str | None = None
    perf: str | None = None
    """The path of the requested program of nccl-tests."""
    identity: str | None = None
    """The requested private key's file, if the session may read it."""
    known_hosts: str | None = None
    """The requested known_hosts file, if the session may read it."""
    mesh_keys: tuple[MeshKey, ...] = ()
    """The session account's keys for logins to other nodes."""


@dataclass(frozen=True, slots=True)
class ContainerFacts(Part):
    """What a container could use of the node."""

    absent: tuple[str, ...] = ()
    """Those of the requested paths that do not exist."""
    gpu_device: bool = False
    """Whether the NVIDIA driver's control device exists."""
    gpu_hook: bool = False
    """Whether the container toolkit's hook is installed: with it, docker serves --gpus without an nvidia runtime."""
    cdi_gpus: bool = False
    """Whether a specification in the requested CDI directories names NVIDIA's GPUs."""


@dataclass(frozen=True, slots=True)
class ImageDistributionFacts(Part):
    """What passing an image from node to node needs besides disks and addresses."""

    user: str
    """The account's name; empty if it is unknown."""
    has_zstd: bool
    """Whether zstd runs."""
