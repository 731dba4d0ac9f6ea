"""What a script that knows nothing of collective_core gets in a process of CCORE_RUN, at the end of `import torch`.

torch's own functions are wrapped, so that calls of the script pass through here. Nothing is wrapped without CCORE_RUN.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed import device_mesh, distributed_c10d

from collective_core import __version__, affinity, environment, log, nccl_plugins
from collective_core.errors import LibraryNotFoundError
from collective_core.locations import NCCL_LIBRARY_NAME
from collective_core.torch import BACKEND_NAME, unasked_buckets

_LOCAL = (
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)
"""The variables of torchrun, Open MPI and MPICH for a rank's place among those of its host, and how many these are."""
_UNDEFINED = "undefined"
"""torch's name of the backend of a call without one."""
_RDMA = Path("/sys/class/infiniband")
_logger = logging.getLogger("collective_core")


@functools.cache
def serve() -> None:
    """Wrap what this process needs, once, before the script can call anything of torch."""
    if not environment.text("CCORE_DEBUG"):
        # Of every communicator, the line that shows its ranks and transports.
        os.environ["CCORE_DEBUG"] = "VERSION"
    log.show_on_stderr()
    _offer_plugins()
    unasked_buckets.serve()
    _replace("init_process_group", _init_process_group)
    _replace("monitored_barrier", _monitored_barrier)


def _offer_plugins() -> None:
    """Have NCCL load the plugins, as far as the job has not chosen others: NCCL reads the variables when it starts.

    The net plugin is for nodes without RDMA devices, whose network NCCL serves better itself.
    """
    try:
        offered = nccl_plugins.plugin_environment(net=not (_RDMA.is_dir() and any(_RDMA.iterdir())))
    except LibraryNotFoundError as error:
        _logger.warning("NCCL runs without collective_core's plugins: %s", error)
        return
    for name, value in offered.items():
        os.environ.setdefault(name, value)


def _replace(name: str, wrap: Callable[..., Any]) -> None:
    original = getattr(distributed_c10d, name)
    replacement = functools.wraps(original)(functools.partial(wrap, original))
    # init_device_mesh() makes the default group through a name of its own module.
    for module in (distributed_c10d, dist, device_mesh):
        if getattr(module, name, None) is original:
            setattr(module, name, replacement)


def _init_process_group(original: Callable[..., Any], *given: Any, **named: Any) -> None:
    """Make the default group, and log which library serves its calls."""
    call = inspect.signature(original).bind(*given, **named)
    asked = str(call.arguments.get("backend") or _UNDEFINED).lower()
    if environment.flag("CCORE_FOR_GLOO", fallback=False) and _serves(asked) == {"gloo"}:
        call.arguments["backend"] = BACKEND_NAME
    original(*call.args, **call.kwargs)
    used = _backends(dist.get_backend_config())
    where = f"rank {dist.get_rank()}/{dist.get_world_size()} host {socket.gethostname()}"
    if "nccl" in used:
        _logger.info("collective_core %s nccl init %s: %s", __version__, where, _nccl_line())
    elif not hasattr(dist.group.WORLD, "describe"):  # a group of ccore has logged its own line
        hint = "; --for-gloo or CCORE_FOR_GLOO=1 serves it" if used == {"gloo"} else ""
        names = ",".join(sorted(used))
        _logger.info("collective_core %s does not serve backend %s %s%s", __version__, names, where, hint)
    # So has it bound its ranks.
    if environment.flag("CCORE_CPU_BINDING", fallback=False) and not hasattr(dist.group.WORLD, "describe"):
        _bind_cpus()


def _serves(asked: str) -> set[str]:
    """Return the backends of a call; without a name, torch chooses by the accelerator of this machine."""
    return (
        _backends(str(distributed_c10d.BackendConfig(dist.Backend(asked))))
        if asked == _UNDEFINED
        else {asked}
    )


def _backends(config: str) -> set[str]:
    """Return the backends of a configuration, such as ``cpu:gloo,cuda:nccl``."""
    return {one.rpartition(":")[2] for one in config.split(",")}


def _bind_cpus() -> None:
    """Bind this rank, if the launcher gives its place on the host."""
    for rank, size in _LOCAL:
        if os.environ.get(rank, "").isdigit() and os.environ.get(size, "").isdigit():
            store = distributed_c10d._get_default_store()
            affinity.bind_by_store(store, dist.get_rank(), int(os.environ[rank]), int(os.environ[size]))
            return
    _logger.warning("CPUs are not bound: neither torchrun, Open MPI nor MPICH has set the local rank")


def _nccl_line() -> str:
    """Return what of collective_core is in this process beside NCCL; has the calls counted at its end."""
    net, tuner = (_short(os.environ.get(name, "NCCL's")) for name in ("NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN"))
    plugins = f"net plugin {net}, tuner plugin {tuner}"
    report = _report_of_library()
    if report is None:
        return (
            f"NCCL alone, start with `python -m collective_core.run` to put its library in front; {plugins}"
        )
    atexit.register(_log_counts, dist.get_rank(), report)
    return f"{NCCL_LIBRARY_NAME} in front of NCCL; {plugins}"


def _report_of_library() -> Callable[[], dict[str, Any]] | None:
    """Return what reports the calls; None if the library is not in front of NCCL in this process."""
    try:
        from collective_core import nccl_shim
    except ImportError:
        return None
    return nccl_shim.report


def _log_counts(rank: int, report: Callable[[], dict[str, Any]]) -> None:
    functions = report()["functions"].values()
    taken, passed = (sum(one[kind] for one in functions) for kind in ("taken", "passed"))
    absent = "" if taken + passed else "; none came through: torch has an NCCL of its own inside"
    _logger.info(
        "collective_core %s nccl end rank %d: %d calls taken, %d passed to NCCL%s",
        __version__, rank, taken, passed, absent,
    )  # fmt: skip


def _short(plugin: str) -> str:
    return "ccore" if Path(plugin).name == nccl_plugins.LIBRARY_NAME else plugin


def _monitored_barrier(
    original: Callable[..., Any], group: Any = None, timeout: Any = None, wait_all_ranks: bool = False
) -> None:
    """Serve a group of ccore too, which torch refuses by its name."""
    own: Any = dist.group.WORLD if group is None else group
    if hasattr(own, "monitored_barrier") and dist.get_backend(own) == BACKEND_NAME:
        own.monitored_barrier(timeout, wait_all_ranks)
    else:
        original(group, timeout, wait_all_ranks)
