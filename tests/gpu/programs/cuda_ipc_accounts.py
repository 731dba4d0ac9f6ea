"""Memory of cudaMalloc and another process that has its IPC handle: ``cuda_ipc_accounts.py [UID]``.

Prints what the other process, of the account UID, read there (or the driver's error), and what it left there.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

BYTES, OWN, OTHER = 2 << 20, 42, 7
HANDLE_BYTES, LAZY_PEER_ACCESS = 64, 1

cuda = ctypes.CDLL("libcuda.so.1")


class Handle(ctypes.Structure):
    """CUipcMemHandle, which the driver takes by value."""

    _fields_ = (("reserved", ctypes.c_ubyte * HANDLE_BYTES),)


def call(name: str, *arguments: object) -> None:
    """Call a function of the driver; end with its error code if it fails."""
    code = getattr(cuda, name)(*arguments)
    if code != 0:
        print(f"{name} failed with {code}", flush=True)
        raise SystemExit(0)


def use_device() -> None:
    """Make the primary context of device 0 current."""
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)


def first_byte(memory: ctypes.c_uint64) -> int:
    """Return the first byte of memory on the device."""
    found = ctypes.c_ubyte()
    call("cuMemcpyDtoH_v2", ctypes.byref(found), memory, ctypes.c_size_t(1))
    return found.value


def open_handle(handle: bytes, account: int) -> None:
    """As an account, map the memory of another process, read it and write to it."""
    if account != os.geteuid():  # after the start: the account may not be able to read Python
        os.setgroups([])
        os.setresgid(account, account, account)
        os.setresuid(account, account, account)
    use_device()
    memory = ctypes.c_uint64()
    call("cuIpcOpenMemHandle_v2", ctypes.byref(memory), Handle.from_buffer_copy(handle), LAZY_PEER_ACCESS)
    print(f"read {first_byte(memory)}", flush=True)
    call("cuMemsetD8_v2", memory, ctypes.c_ubyte(OTHER), ctypes.c_size_t(BYTES))
    call("cuCtxSynchronize")


def main() -> None:
    """Make memory, let a process of an account open its handle, and print what it finds there afterwards."""
    account = int(sys.argv[1]) if len(sys.argv) > 1 else os.geteuid()
    use_device()
    memory, handle = ctypes.c_uint64(), Handle()
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(BYTES))
    call("cuMemsetD8_v2", memory, ctypes.c_ubyte(OWN), ctypes.c_size_t(BYTES))
    call("cuCtxSynchronize")
    call("cuIpcGetMemHandle", ctypes.byref(handle), memory)
    found = subprocess.run(
        (sys.executable, __file__, "--open", bytes(handle).hex(), str(account)),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    print(f"uid {account}: {found.stdout.strip()}")
    print(f"left {first_byte(memory)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--open"]:
        open_handle(bytes.fromhex(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
