"""A rank that reduces by its own choice and through slots, then prints as JSON what was used and what came of it.

argv: what this rank's kernel refuses, and with which error, as in `process_vm_readv:EPERM`; for rank 1 alone.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import struct
import sys

import numpy
from collective_core.communicator import Communicator, Dtype

CALLS = {
    "x86_64": {"process_vm_readv": 310, "process_vm_writev": 311, "pidfd_open": 434},
    "aarch64": {"process_vm_readv": 270, "process_vm_writev": 271, "pidfd_open": 434},
}
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06


def refuse(call: str, error: int) -> None:
    """Have the kernel answer that system call of this process with an error, as a container's profile does."""
    program = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (LOAD_NUMBER, 0, 0, 0),
            (JUMP_IF_EQUAL, 0, 1, CALLS[platform.machine()][call]),
            (RETURN, 0, 0, SECCOMP_RET_ERRNO | error),
            (RETURN, 0, 0, SECCOMP_RET_ALLOW),
        )
    )
    instructions = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(instructions)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header)):
        if libc.prctl(*arguments, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


rank = int(os.environ["RANK"])
if len(sys.argv) > 1 and rank == 1:
    refused, _, name = sys.argv[1].partition(":")
    refuse(refused, getattr(errno, name))
same: list[bool] = []
with Communicator.from_environment() as comm:
    (setting,) = (line for line in comm.dump_config().splitlines() if line.startswith("CCORE_CMA="))
    algorithms: list[str] = []
    counts = (1 << 20, (1 << 20) + 3, 700_001)
    values = [numpy.random.default_rng(rank).normal(size=count).astype("f4") for count in counts]

    def reduced() -> list[bytes]:
        """All of them, apart and in place."""
        results = []
        for one in values:
            apart, in_place = numpy.empty_like(one), one.copy()
            comm.all_reduce(one, apart)
            comm.all_reduce(in_place, in_place)
            algorithms.append(comm.trace()[-1].algorithm)
            results += [apart.tobytes(), in_place.tobytes()]
        return results

    chosen = reduced()
    for size_bytes in (1 << 21, 1 << 22):
        comm.tuner_set("all_reduce", size_bytes, Dtype.FLOAT32, "twoshot")
    same = [one == other for one, other in zip(chosen, reduced(), strict=True)]
print(json.dumps({"setting": setting, "algorithms": algorithms, "same": same}))
