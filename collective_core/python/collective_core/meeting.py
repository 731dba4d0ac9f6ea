"""How the ranks of a job find each other: by the launcher's environment, a torch Store, or an MPI communicator.

Each function returns rank, size and the unique id for `Communicator`. The rules of the environment are those of the
perf programs (docs/environment.md), and both can meet in one job.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collective_core import environment, unique_id
from collective_core.errors import CollectiveCoreError, Result

_DEFAULT_PORT = 29555
_ID_BYTES = 128
_STORE_KEY = "collective_core_unique_id"


@dataclass(frozen=True, slots=True)
class _Launcher:
    rank: str
    size: str
    local_size: str
    jobs: tuple[str, ...]


# In this order: a job step of Slurm that runs mpirun has both sets, and the inner one is the truth.
_LAUNCHERS = (
    _Launcher(
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"),
    ),
    _Launcher("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", ("PMI_JOBID", "HYDRA_JOBID")),
    _Launcher("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", ("TORCHELASTIC_RUN_ID",)),
    _Launcher("SLURM_PROCID", "SLURM_NTASKS", "", ("SLURM_JOB_ID",)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launch:
    """What the launcher says. `local_size` is 0 when it does not say; `job` is empty when it has no name."""

    rank: int = 0
    size: int = 1
    local_size: int = 1
    job: str = ""


def launch(variables: Mapping[str, str] = os.environ) -> Launch:
    """Read rank and size of Open MPI, MPICH, torchrun or Slurm; one rank without any of them."""
    for launcher in _LAUNCHERS:
        if not variables.get(launcher.rank):
            continue
        if not variables.get(launcher.size):
            raise _unusable(
                f"{launcher.rank} is set but {launcher.size} is not: cannot tell how many ranks there are"
            )
        rank, size = _number(variables, launcher.rank, 0), _number(variables, launcher.size, 1)
        if rank >= size:
            raise _unusable(f"{launcher.rank}={rank} is not below {launcher.size}={size}")
        local = _number(variables, launcher.local_size, 1) if variables.get(launcher.local_size) else 0
        job = next((variables[name] for name in launcher.jobs if variables.get(name)), "")
        if launcher.rank.startswith("SLURM_") and variables.get("SLURM_STEP_ID"):
            job += f".{variables['SLURM_STEP_ID']}"
        if launcher.rank == "RANK" and job and variables.get("MASTER_PORT"):
            # torchrun calls every job "none" that was given no name; two on one host differ in this.
            job += f":{variables['MASTER_PORT']}"
        return Launch(rank, size, local, job)
    return Launch()


def by_environment(timeout_s: float) -> tuple[int, int, bytes]:
    """Meet as the launcher's environment says; raises CollectiveCoreError that says what to set."""
    found = launch()
    if found.size == 1:
        return 0, 1, unique_id.get_unique_id()

    def at(host: str, port: int) -> tuple[int, int, bytes]:
        secret = environment.text("CCORE_JOB_SECRET") or found.job
        if not secret:
            raise _unusable(
                "the launcher gives the job no name: set CCORE_JOB_SECRET to the same text on all ranks"
            )
        identity = unique_id.unique_id_from_address(host, port, secret, is_root=found.rank == 0)
        return found.rank, found.size, identity

    if root := environment.text("CCORE_ROOT_ADDR"):
        return at(root, environment.integer("CCORE_ROOT_PORT", _DEFAULT_PORT, 1, 65535))
    if found.local_size == found.size:
        # All local ranks are children of one launcher process, which names the job when nothing else does.
        return found.rank, found.size, _share_locally(found, found.job or f"parent {os.getppid()}", timeout_s)
    if os.environ.get("MASTER_ADDR") and os.environ.get("MASTER_PORT"):
        # torchrun's own store listens on MASTER_PORT.
        own_store = 1 if os.environ.get("TORCHELASTIC_RUN_ID") else 0
        return at(os.environ["MASTER_ADDR"], _number(os.environ, "MASTER_PORT", 1) + own_store)
    raise _unusable(
        "the ranks are on several hosts: set CCORE_ROOT_ADDR to an address of rank 0's host, and CCORE_ROOT_PORT and "
        "CCORE_JOB_SECRET, on all ranks (mpirun -x NAME=VALUE)"
    )


def by_store(store: Any, rank: int, size: int) -> tuple[int, int, bytes]:
    """Meet through a torch Store (or anything with its `set` and `get`); one communicator per store or prefix."""
    if rank == 0:
        identity = unique_id.get_unique_id()
        store.set(_STORE_KEY, identity)
        return rank, size, identity
    return rank, size, bytes(store.get(_STORE_KEY))


def by_mpi(comm: Any) -> tuple[int, int, bytes]:
    """Meet through a communicator of mpi4py, all of whose ranks call this."""
    rank, size = int(comm.Get_rank()), int(comm.Get_size())
    return rank, size, bytes(comm.bcast(unique_id.get_unique_id() if rank == 0 else None, root=0))


def _share_locally(found: Launch, job: str, timeout_s: float) -> bytes:
    """Hand the id around over an abstract unix socket, which only this user's processes are answered on."""
    name = f"\0collective_core-{os.getuid()}-{_fnv1a(job)}"
    deadline = time.monotonic() + min(timeout_s, 1e9)  # a socket takes no more
    return _serve(name, found.size, deadline) if found.rank == 0 else _ask(name, found.rank, deadline)


def _serve(name: str, size: int, deadline: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(name)
        except OSError as error:
            raise _unusable(f"another process of this job already is rank 0 ({error})") from error
        listener.listen()
        identity = unique_id.get_unique_id()
        missing = set(range(1, size))
        while missing:
            listener.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                client, _ = listener.accept()
            except TimeoutError:
                late = ", ".join(map(str, sorted(missing)))
                raise CollectiveCoreError(
                    Result.TIMEOUT, f"these ranks did not come in time: {late}"
                ) from None
            with client:
                client.settimeout(5)
                rank = _greeted_by(client)
                if rank in missing and _answered(client, identity):
                    missing.discard(rank)
        return identity


def _answered(client: socket.socket, identity: bytes) -> bool:
    """Send the id; false when the client has not waited for it: it was patient for a while and comes again."""
    try:
        client.sendall(identity)
    except OSError:
        return False
    return True


def _greeted_by(client: socket.socket) -> int:
    """Return the rank that a client of the same user says it is, or -1."""
    if not _same_user(client):
        return -1
    try:
        return int(struct.unpack("=i", _receive(client, 4))[0])
    except OSError:
        return -1


def _ask(name: str, rank: int, deadline: float) -> bytes:
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(5)
            try:
                asking.connect(name)
                if not _same_user(asking):
                    raise _unusable("the local rendezvous belongs to another user")
                asking.sendall(struct.pack("=i", rank))
                return _receive(asking, _ID_BYTES)
            except OSError:
                if time.monotonic() > deadline:
                    raise CollectiveCoreError(Result.TIMEOUT, "rank 0 did not come in time") from None
        time.sleep(0.005)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        some = connection.recv(size - len(data))
        if not some:
            raise ConnectionResetError("closed early")
        data += some
    return data


def _same_user(connection: socket.socket) -> bool:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("=iII"))
    return bool(struct.unpack("=iII", credentials)[1] == os.getuid())


def _fnv1a(text: str) -> int:
    """Job names are longer than the name of a socket may be."""
    value = 14695981039346656037
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


def _number(variables: Mapping[str, str], name: str, least: int) -> int:
    text = variables[name]
    if not text.isdecimal() or not least <= int(text) <= 1_000_000:
        raise _unusable(f"{name}={text}: expected a number of at least {least}")
    return int(text)


def _unusable(text: str) -> CollectiveCoreError:
    return CollectiveCoreError(Result.INVALID_ARGUMENT, text)
