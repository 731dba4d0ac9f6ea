"""Descriptions of valid texts in the inventory, for error messages and for the reference."""

from __future__ import annotations

_LETTERS = "letters (a-z, A-Z)"
_NAME = f"{_LETTERS}, digits, '.', '_' and '-', beginning and ending with a letter or digit"
NODE_NAME = f"a node name: {_NAME}"
ADDRESS = f"a host name or address: {_LETTERS}, digits, '.', '_', '-', ':' and '%', not beginning with '-', '.' or '%'"
_PROGRAM = "a program's path; it may not begin with '-' or '%'"
_FILE = "the path of a file; it may not begin with '-'"
_FOLDER = f"an absolute path: {_LETTERS}, digits, '.', '_', '-' and '/'"
_PCI = "or a PCI address such as 0000:1b:00.0"

# By key, or by key and parent key if keys with the same name have different meanings.
_SHAPES = {
    "user": f"a user name: {_LETTERS}, digits, '_', '-', '.', '@', '+' and '\\', beginning with a letter, digit or '_'",
    "identity_file": _FILE,
    "known_hosts": _FILE,
    "proxy_jump": "[user@]host[:port], several separated by commas",
    "socket_ifname": "interface names separated by commas, such as eth0 or ^docker0,lo",
    "rdma_devices": "NCCL_IB_HCA's form: mlx5_0, =mlx5_0:1,mlx5_1:1 or ^mlx5_2",
    "env": f"a variable's name: {_LETTERS}, digits and '_', not beginning with a digit",
    "groups": f"a group's name: {_NAME}",
    "python": _PROGRAM,
    "mpirun": _PROGRAM,
    "all_reduce_perf": _PROGRAM,
    "container.name": f"a container's name: {_LETTERS}, digits, '.', '_' and '-', beginning with a letter or digit",
    "container.image": "an image's name; it may not begin with '-' or hold spaces",
    "container.network": "a network's name; it may not begin with '-' or hold spaces",
    "container.ipc": "a namespace such as host or private; it may not begin with '-' or hold spaces",
    "devices": "a device's path; it may not begin with '-' or hold spaces",
    "volumes": "/on/the/host:/in/the/container[:ro], without spaces",
    "shm_size": "a size such as 32g",
    "memlock": "bytes, or -1 for no limit",
    "stack": "bytes",
    "cap_add": "capabilities such as IPC_LOCK",
    "gpu_devices": f"class:0302, 10de:* {_PCI}",
    "nic_devices": f"class:0207, 15b3:* {_PCI}",
    "module": f"a kernel module's name: {_LETTERS}, digits and '_'",
    "package": "the name of a package; it may not begin with '-'",
    "version": "a version such as 570 or 570.124.06",
    "sysctls": "the name of a network setting, such as net.core.rmem_max",
    "cluster_file.path": "a file in the directory /etc/sysconfig/rdma, such as /etc/sysconfig/rdma/cluster",
    "cluster_file.source": _FILE,
    "mpi.mpich": _FILE,
    "mpi.nccl": _FILE,
    "mpi.nccl_tests": _FILE,
    "content": "text without NUL characters",
    "shared_dir.path": _FOLDER,
    "shared_dir.folder": _FOLDER,
    "shared_dir.server": NODE_NAME,
    "export": "host:/path, an existing export",
    "options": "a mount option, such as nconnect=8",
    "ssh_mesh.name": "a name of up to 31 lower-case letters (a-z), digits and '-', beginning with a letter or digit",
    "also_from": "an address or a network such as 10.1.0.0/16",
    "servers": ADDRESS,
    "packages.folder": "the path of a directory; it may not begin with '-'",
    "python.packages": "a requirement of pip: a name and versions, such as torch==2.11.*",
    "index_url": "the URL of a package index, http or https, without user and password",
    "peermem.git": "https://, ssh:// or a path without user and password, then # and a tag, branch or commit",
    "mirror": "a base URL, http or https, without user and password",
    "cpu_governor": "a governor's name, such as performance",
}


def shape_of(path: tuple[str, ...], *, is_key: bool = False) -> str | None:
    """Return the description of the text at a path of keys and indices (``is_key``: of the last key), or None."""
    names = [part for part in (path[:-1] if is_key else path) if not part.isdigit()]
    return next(
        (shape for tail in (names[-2:], names[-1:]) if (shape := _SHAPES.get(".".join(tail))) is not None),
        None,
    )
