"""How the ranks that a launcher has started find each other; docs/environment.md has the rules.

The same rules as those of the perf programs, so that a job may be started by mpirun, torchrun or srun alike.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass

from collective_core import environment
from collective_core.communicator import Communicator, get_unique_id, unique_id_from_address
from collective_core.errors import CollectiveCoreError, Result

_DEFAULT_PORT = 29555
_ID_BYTES = 128
_RETRY_S = 0.02
_ANSWER_S = 5.0
_RANK = struct.Struct("i")


@dataclass(frozen=True, slots=True)
class _Launcher:
    rank: str
    size: str
    local_size: str | None
    job: tuple[str, ...]  # the first that is set names the job


# In this order: a job step of Slurm that runs mpirun has both sets, and the inner one is the truth.
_LAUNCHERS = (
    _Launcher(
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"),
    ),
    _Launcher("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", ("PMI_JOBID", "HYDRA_JOBID")),
    _Launcher("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", ("TORCHELASTIC_RUN_ID",)),
    _Launcher("SLURM_PROCID", "SLURM_NTASKS", None, ("SLURM_JOB_ID",)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launch:
    """What the launcher says of this process; `local_size` is None when it does not say."""

    rank: int
    size: int
    local_size: int | None
    job: str


def detect(variables: Mapping[str, str]) -> Launch:
    """Read the environment of Open MPI, MPICH, torchrun or Slurm; without any, this is a single rank.

    Raises CollectiveCoreError when a variable is missing or is no number that fits.
    """
    for launcher in _LAUNCHERS:
        if launcher.rank not in variables:
            continue
        if launcher.size not in variables:
            raise _refuse(
                f"{launcher.rank} is set but {launcher.size} is not: cannot tell how many ranks there are"
            )
        size = _number(variables, launcher.size, 1)
        rank = _number(variables, launcher.rank, 0)
        if rank >= size:
            raise _refuse(f"{launcher.rank}={rank} is not below {launcher.size}={size}")
        has_local = launcher.local_size is not None and bool(variables.get(launcher.local_size))
        local = _number(variables, launcher.local_size, 1) if launcher.local_size and has_local else None
        job = next((variables[name] for name in launcher.job if variables.get(name)), "")
        # torchrun names all jobs "none" unless told; the step counts in a job of Slurm.
        more = (variables.get(name, "") for name in ("MASTER_PORT", "SLURM_STEP_ID"))
        return Launch(rank, size, local, ".".join(filter(None, (job, *more))))
    return Launch(0, 1, 1, "")


def connect() -> Communicator:
    """Make the communicator of all ranks of the job. Raises CollectiveCoreError when they do not meet."""
    launch = detect(os.environ)
    return Communicator(launch.rank, launch.size, _unique_id(launch))


def _unique_id(launch: Launch) -> bytes:
    if launch.size == 1:
        return get_unique_id()
    root = environment.text("CCORE_ROOT_ADDR")
    if root:
        port = environment.integer("CCORE_ROOT_PORT", _DEFAULT_PORT, 1, 65535)
        return _id_at(launch, root, port)
    if launch.local_size == launch.size:
        # All are children of one launcher process, which names the job when nothing else does.
        return _share_locally(launch, launch.job or f"parent {os.getppid()}")
    master, port_text = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if master and port_text:
        # torchrun's own store listens on MASTER_PORT.
        own_store = 1 if os.environ.get("TORCHELASTIC_RUN_ID") else 0
        return _id_at(launch, master, _number(os.environ, "MASTER_PORT", 1) + own_store)
    raise _refuse(
        "the ranks are on several hosts: set CCORE_ROOT_ADDR to an address of rank 0's host, and CCORE_ROOT_PORT "
        "and CCORE_JOB_SECRET, on all ranks (mpirun -x NAME=VALUE)"
    )


def _id_at(launch: Launch, address: str, port: int) -> bytes:
    secret = environment.text("CCORE_JOB_SECRET") or launch.job
    if not secret:
        raise _refuse(
            "the launcher gives the job no name: set CCORE_JOB_SECRET to the same text on all ranks"
        )
    return unique_id_from_address(address, port, secret, is_root=launch.rank == 0)


def _share_locally(launch: Launch, job: str) -> bytes:
    """Bring rank 0's id to the others of this host, over an abstract unix socket named after user and job."""
    deadline = time.monotonic() + environment.number("CCORE_INIT_TIMEOUT_S", 120, 1e-3, 1e9)
    name = b"\0collective_core.python." + hashlib.sha256(f"{os.getuid()} {job}".encode()).hexdigest().encode()
    return _serve(name, launch.size, deadline) if launch.rank == 0 else _ask(name, launch.rank, deadline)


def _serve(name: bytes, size: int, deadline: float) -> bytes:
    unique_id = get_unique_id()
    missing = set(range(1, size))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            server.bind(name)
        except OSError as error:
            raise _refuse(f"another process of this job already is rank 0 ({error.strerror})") from error
        server.listen(size)
        while missing:
            server.settimeout(_left(deadline, f"ranks {sorted(missing)} did not come"))
            try:
                client, _ = server.accept()
            except TimeoutError:
                continue  # the deadline says so
            with client:
                client.settimeout(_ANSWER_S)
                try:
                    _check_same_user(client)
                    (rank,) = _RANK.unpack(client.recv(_RANK.size, socket.MSG_WAITALL))
                    client.sendall(unique_id)
                except (CollectiveCoreError, OSError, struct.error):
                    continue  # a stranger, or one that went away: the ranks still come
                missing.discard(rank)
    return unique_id


def _ask(name: bytes, rank: int, deadline: float) -> bytes:
    while True:
        _left(deadline, "rank 0 of this host did not come")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(_ANSWER_S)
            try:
                client.connect(name)
                _check_same_user(client)
                client.sendall(_RANK.pack(rank))
                unique_id = client.recv(_ID_BYTES, socket.MSG_WAITALL)
            except OSError:
                unique_id = b""  # rank 0 is not there yet, or not ready
        if len(unique_id) == _ID_BYTES:
            return unique_id
        time.sleep(_RETRY_S)


def _check_same_user(peer: socket.socket) -> None:
    """The id holds a secret, and any user can make a socket of any abstract name."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    if user != os.getuid():
        raise _refuse(f"user {user} has taken the place where the ranks of this host meet")


def _left(deadline: float, missing: str) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise CollectiveCoreError(Result.TIMEOUT, f"{missing} in time (CCORE_INIT_TIMEOUT_S)")
    return left


def _number(variables: Mapping[str, str], name: str, least: int) -> int:
    text = variables.get(name, "")
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= 1_000_000:
        raise _refuse(f"{name}={text}: expected a number of at least {least}")
    return int(text)


def _refuse(text: str) -> CollectiveCoreError:
    return CollectiveCoreError(Result.INVALID_ARGUMENT, text)
