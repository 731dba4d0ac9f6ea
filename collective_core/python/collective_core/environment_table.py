"""Every environment variable of collective_core, as data: the one place where a name, a default and an alias live.

`collective_core/scripts/generate_environment.py` makes docs/environment.md and src/common/env_table.inc of it.
Sorted by subject, not by name: the page is read from top to bottom.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """How the text of a variable is understood. The value is what the page says."""

    TEXT = "text"
    CHOICE = "one of"
    FLAG = "0 or 1"
    COUNT = "whole number"
    BYTES = "bytes"
    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    RATIO = "number"


class Reader(Enum):
    """Which part reads a variable."""

    LIBRARY = "library"
    PERF = "perf programs"
    PYTHON = "Python"
    HOROVOD = "Horovod API"
    NCCL = "NCCL symbols"
    PLUGINS = "NCCL plugins"
    CUDA = "CUDA library"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable. An alias has the same values and units as the own name, which beats it."""

    name: str
    kind: Kind
    default: str
    meaning: str
    readers: tuple[Reader, ...]
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


_LIBRARY = (Reader.LIBRARY,)
_PYTHON = (Reader.PYTHON,)
_PLUGINS = (Reader.PLUGINS,)
_CUDA = (Reader.CUDA,)

VARIABLES: tuple[Variable, ...] = (
    Variable(
        "CCORE_TIMEOUT_S", Kind.SECONDS, "300", "deadline of every operation",
        (Reader.LIBRARY, Reader.HOROVOD, Reader.NCCL),
    ),
    Variable(
        "CCORE_INIT_TIMEOUT_S", Kind.SECONDS, "120", "deadline of the initialisation",
        (Reader.LIBRARY, Reader.NCCL, Reader.PLUGINS), aliases=("HOROVOD_GLOO_TIMEOUT_SECONDS",),
    ),
    Variable(
        "CCORE_TRANSPORT", Kind.CHOICE, "auto", "`shm` fails if impossible; `tcp` also inside a node",
        _LIBRARY, choices=("auto", "shm", "tcp"),
    ),
    Variable(
        "CCORE_NODE_ID", Kind.TEXT, "host name and boot id", "ranks with equal text are one node", _LIBRARY,
    ),
    Variable(
        "CCORE_INTRA_SIZE", Kind.COUNT, "0",
        "cut every node into nodes of that many consecutive ranks, to try several nodes on one machine; 0: no "
        "cut; rank 0's holds for all", _LIBRARY, aliases=("LIGHT_INTRA_SIZE",),
    ),
    Variable(
        "CCORE_2D", Kind.FLAG, "1",
        "whether all_reduce goes first within the nodes and then between them, where there are several nodes and "
        "one of them has several ranks; rank 0's holds for all", _LIBRARY,
        aliases=("LIGHT_2D_ALLREDUCE", "HOROVOD_HIERARCHICAL_ALLREDUCE", "HOROVOD_TORUS_ALLREDUCE"),
    ),
    Variable(
        "CCORE_2D_BETWEEN", Kind.CHOICE, "the cost model's",
        "algorithm of all_reduce between nodes, in 2D and where each node has one rank: parameter servers (`direct`), "
        "two trees (`double_tree`), butterfly (`halving`), see [algorithms](algorithms.md); rank 0's holds for all",
        _LIBRARY, choices=("ring", "ps", "tree", "butterfly"),
    ),
    Variable(
        "CCORE_HIERARCHICAL_THRESHOLD", Kind.BYTES, "65536",
        "all_reduce of less does not; rank 0's holds for all", _LIBRARY,
    ),
    Variable(
        "CCORE_2D_LIMIT", Kind.BYTES, "none", "nor does all_reduce of more; rank 0's holds for all", _LIBRARY,
        aliases=("LIGHT_HIERARCHICAL_THRESHOLD",),
    ),
    Variable(
        "CCORE_ALGO", Kind.TEXT, "the cost model's",
        "algorithms, as in `all_reduce:ring,broadcast:tree` (names: [algorithms](algorithms.md)); one that the "
        "ranks' places rule out is passed over; rank 0's holds for all", _LIBRARY,
    ),
    Variable(
        "CCORE_LINK_MATRIX", Kind.TEXT, "none",
        "file that says what the links between the ranks carry; all_reduce then goes over trees that use them all, see "
        "[algorithms](algorithms.md#as-many-trees-as-the-links-hold); rank 0's holds for all",
        _LIBRARY,
    ),
    Variable(
        "CCORE_TOPK_ALLREDUCE", Kind.FLAG, "0",
        "`ddp_hooks.from_environment` and the Horovod API's `DistributedOptimizer` reduce gradients by top-k "
        "all_reduce with error feedback",
        (Reader.PYTHON, Reader.HOROVOD),
        aliases=("LIGHT_TOPK_ALLREDUCE",),
    ),
    Variable(
        "CCORE_TOPK_RATIO", Kind.RATIO, "0.01", "top-k all_reduce: elements sent of each shard, above 0, at most 1",
        _LIBRARY, aliases=("LIGHT_TOPK_RATIO",),
    ),
    Variable(
        "CCORE_TOPK_THRESHOLD", Kind.BYTES, "1048576", "top-k all_reduce: smaller data is reduced densely",
        _LIBRARY, aliases=("LIGHT_TOPK_THRESHOLD",),
    ),
    Variable(
        "CCORE_TOPK_FP16", Kind.FLAG, "0", "top-k all_reduce: send the values as f16, 6 instead of 8 bytes each",
        _LIBRARY, aliases=("LIGHT_TOPK_FP16",),
    ),
    Variable(
        "CCORE_CUDA_PATH", Kind.CHOICE, "auto",
        "how CUDA memory moves between ranks of a node: [cuda](cuda.md#paths); `staged`, of torch and the Horovod API "
        "alone, copies it through host memory ([pytorch](pytorch.md#paths)); on several nodes the GPUs take part in "
        "dense all_reduce only if this is set to `auto`, `stream` or `kernel`; equal on all ranks",
        (Reader.PYTHON, Reader.CUDA), choices=("auto", "staged", "stream", "kernel", "host"),
    ),
    Variable(
        "CCORE_CUDA_BLOCKING_WAIT", Kind.FLAG, "0",
        "torch: on the paths on the device, `wait()` blocks the host until the operation has ended, and raises if it "
        "failed",
        _PYTHON,
    ),
    Variable(
        "CCORE_CUDA_ERROR", Kind.CHOICE, "raise",
        "torch: how a rank ends that has not called its group for 10 s after a failure on the device: an exception in "
        "its main thread, or `abort` of the process, see [pytorch](pytorch.md#failures-on-the-paths-on-the-device)",
        _PYTHON, choices=("raise", "abort"),
    ),
    Variable(
        "CCORE_CUDA_STAGING_BYTES", Kind.BYTES, "268435456",
        "largest staging buffer of a rank on its GPU, from 65536; equal on all ranks", _CUDA,
    ),
    Variable(
        "CCORE_CUDA_PACKET_BYTES", Kind.BYTES, "by links and ranks",
        "largest message that kernels send as packets; equal on all ranks, see [cuda](cuda.md#kernel)", _CUDA,
    ),
    Variable(
        "CCORE_CUDA_DESCRIPTORS", Kind.FLAG, "1",
        "0 on any rank: memory of cuMemCreate (torch's expandable segments) is staged instead of exported, see "
        "[cuda](cuda.md#buffers)", _CUDA,
    ),
    Variable(
        "CCORE_CUDA_BLOCKS", Kind.COUNT, "64", "most blocks of a kernel that waits for other ranks, at most 64", _CUDA,
    ),
    Variable(
        "CCORE_NCCL", Kind.CHOICE, "1",
        "0: libcollective_core_nccl.so leaves every call to NCCL; `all`: it also takes what is not proven, see "
        "[NCCL](nccl.md#what-it-takes); equal on all ranks",
        (Reader.NCCL, Reader.PYTHON), choices=("0", "1", "all"),
    ),
    Variable(
        "CCORE_NCCL_REPORT", Kind.TEXT, "none",
        "where a process adds a line of JSON at its end: the calls taken and passed; a file, or `fd:2`", (Reader.NCCL,),
    ),
    Variable(
        "CCORE_NCCL_PATH", Kind.TEXT, "libnccl.so.2",
        "the NCCL behind libcollective_core_nccl.so, if the process has loaded none", (Reader.NCCL,),
    ),
    Variable(
        "CCORE_CPU_REDUCE_CHUNK_BYTES", Kind.BYTES, "4194304",
        "cpu_reduce: data that is copied, reduced and copied back at a time; equal on all ranks", _LIBRARY,
    ),
    Variable(
        "CCORE_MEASURE", Kind.FLAG, "1",
        "measure the algorithms of a collective before its first operation of a size, see "
        "[algorithms](algorithms.md#measured-times); 0: the built-in figures decide; rank 0's holds for all", _LIBRARY,
    ),
    Variable(
        "CCORE_MEASURE_CACHE", Kind.FLAG, "1",
        "what was measured is kept for other jobs on this machine; rank 0's holds for all", _LIBRARY,
    ),
    Variable(
        "CCORE_AUTOTUNE", Kind.FLAG, "0",
        "measure the algorithms and take the fastest, see [tuner](tuner.md); rank 0's holds for all",
        (Reader.LIBRARY, Reader.CUDA, Reader.NCCL),
        aliases=("HOROVOD_AUTOTUNE",),
    ),
    Variable(
        "CCORE_AUTOTUNE_PERF_MODE", Kind.CHOICE, "time",
        "what is measured: from one operation to the next, the same without outliers, or the operation itself; rank "
        "0's holds for all",
        _LIBRARY, aliases=("AIACC_AUTOTUNE_PERF_MODE",), choices=("time", "filter", "profile"),
    ),
    Variable(
        "CCORE_AUTOTUNE_WARMUP_CALLS", Kind.COUNT, "3",
        "operations of a kind before any is measured; of CUDA tensors the default is 20; rank 0's holds for all",
        (Reader.LIBRARY, Reader.CUDA),
        aliases=("HOROVOD_AUTOTUNE_WARMUP_SAMPLES",),
    ),
    Variable(
        "CCORE_AUTOTUNE_PROFILE_CALLS", Kind.COUNT, "32",
        "measured operations of each algorithm that is left after the first look; of CUDA tensors the default is 16, "
        "and at most 64 count; rank 0's holds for all",
        (Reader.LIBRARY, Reader.CUDA),
        aliases=("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",),
    ),
    Variable(
        "CCORE_AUTOTUNE_LOG", Kind.TEXT, "none", "file to which rank 0 writes at the end what the tuner found",
        (Reader.HOROVOD,), aliases=("HOROVOD_AUTOTUNE_LOG",),
    ),
    Variable(
        "CCORE_AUTOTUNE_WINDOW_CALLS", Kind.COUNT, "128",
        "operations from one look for drift to the next; rank 0's holds for all", _LIBRARY,
    ),
    Variable(
        "CCORE_CACHE_DISABLE", Kind.FLAG, "1",
        "0: choices are kept from job to job, see [tuner](tuner.md); rank 0's holds for all",
        (Reader.LIBRARY, Reader.CUDA),
        aliases=("AIACC_CONFIG_CACHE_DISABLE",),
    ),
    Variable(
        "CCORE_CACHE_UPDATE_DISABLE", Kind.FLAG, "1", "0: choices that are already kept for a model are updated",
        (Reader.LIBRARY, Reader.CUDA),
        aliases=("AIACC_CONFIG_CACHE_UPDATE_DISABLE",),
    ),
    Variable(
        "CCORE_CACHE_MODEL", Kind.TEXT, "none",
        "what the job trains, such as `resnet50`: choices of others are not taken", _LIBRARY,
    ),
    Variable(
        "CCORE_CACHE_MODEL_BYTES", Kind.BYTES, "none",
        "its size, such as `102228128`: choices for others are not taken", _LIBRARY,
    ),
    Variable(
        "CCORE_CACHE_DIR", Kind.TEXT, "`$XDG_CACHE_HOME/collective_core`, else `~/.cache/collective_core`",
        "where choices and measured times are kept from job to job", _LIBRARY,
    ),
    Variable(
        "CCORE_SOCKET_IFNAME", Kind.TEXT, "the way to rank 0",
        "interfaces for TCP: name prefixes `eth,ib`, exact names `=eth0`, all but `^docker`; of several names each is "
        "a rail, see below; of the NCCL plugins a device, and the default is `NCCL_SOCKET_IFNAME`",
        (Reader.LIBRARY, Reader.PLUGINS),
        aliases=("HOROVOD_GLOO_IFACE",),
    ),
    Variable(
        "CCORE_SOCKET_ADDR", Kind.TEXT, "none", "numeric address to bind and announce; beats the interface",
        _LIBRARY,
    ),
    Variable(
        "CCORE_SHM_RING_BYTES", Kind.BYTES, "262144", "buffer from each rank to each other rank of its node",
        _LIBRARY,
    ),
    Variable(
        "CCORE_SHM_SLOT_BYTES", Kind.BYTES, "1048576",
        "each of two areas in which a rank shows its data to the others of its node; 0: all goes through buffers",
        _LIBRARY,
    ),
    Variable(
        "CCORE_CMA", Kind.FLAG, "1",
        "large all_reduce in memory that is not registered: one copy by the kernel from rank to rank "
        "(`process_vm_readv`), if all ranks may, see [algorithms](algorithms.md#by-the-kernel); 0 on any rank: through "
        "the areas above", _LIBRARY,
    ),
    Variable(
        "CCORE_NET", Kind.CHOICE, "tcp",
        "what ranks without common memory use; `rdma`: InfiniBand or RoCE, else the start fails; `auto`: RDMA if it "
        "has moved bytes between all of them, else TCP, and rank 0 prints why; rank 0's value counts for all",
        _LIBRARY, (), ("tcp", "rdma", "auto"),
    ),
    Variable(
        "CCORE_RDMA_DEVICE", Kind.TEXT, "the port with this rank's address, else by local rank",
        "the RDMA device, with a port if needed: `mlx5_0:1`; up to 4, separated by commas, share each connection",
        _LIBRARY,
    ),
    Variable(
        "CCORE_RDMA_GID_INDEX", Kind.COUNT, "-1",
        "the entry of the port's GID table; -1: the RoCE v2 GID with this rank's address, else with any", _LIBRARY,
    ),
    Variable(
        "CCORE_RDMA_QPS", Kind.COUNT, "1",
        "RDMA queue pairs per peer and device, to 8 in all, for paths that are chosen by flow; the smaller value of "
        "two ranks counts", _LIBRARY,
    ),
    Variable(
        "CCORE_RDMA_TRAFFIC_CLASS", Kind.COUNT, "106", "the traffic class of RoCE packets: 4 times the DSCP, and ECN",
        _LIBRARY,
    ),
    Variable(
        "CCORE_IBVERBS_LIBRARY", Kind.TEXT, "libibverbs.so.1", "the library that RDMA is used by", _LIBRARY,
    ),
    Variable(
        "CCORE_TCP_STREAMS", Kind.COUNT, "0",
        "connections between two ranks, to 16, see below; 0: as many as pay; rank 0's value counts for all", _LIBRARY,
    ),
    Variable(
        "CCORE_TCP_FRAME_BYTES", Kind.BYTES, "131072",
        "with several connections: the most that one takes at a time; rank 0's value counts for all", _LIBRARY,
    ),
    Variable(
        "CCORE_TCP_USER_TIMEOUT_MS", Kind.MILLISECONDS, "20000",
        "a peer whose host stopped answering is dead after this long; one that is late and does not read is not",
        _LIBRARY,
    ),
    Variable(
        "CCORE_SIMD", Kind.CHOICE, "the CPU's best",
        "vector instructions of reductions and selections; results do not depend on it; one that the CPU lacks is an "
        "error", _LIBRARY, choices=("scalar", "avx2", "avx512", "neon"),
    ),
    Variable(
        "CCORE_DEBUG", Kind.CHOICE, "none",
        "what is said on stderr; `VERSION`: a line per communicator with its transports, and one of torch's backend; "
        "of Horovod's levels `debug` and `trace` are `INFO`, `error` and `fatal` are nothing",
        (Reader.LIBRARY, Reader.PYTHON), aliases=("HOROVOD_LOG_LEVEL", "ACCL_LOG_LEVEL"),
        choices=("WARN", "VERSION", "INFO"),
    ),
    Variable(
        "CCORE_FAULT_SEED", Kind.COUNT, "0",
        "for tests: links move bytes in random small pieces; 0 for none", _LIBRARY,
    ),
    Variable("CCORE_LIBRARY", Kind.TEXT, "the package's own", "another libcollective_core.so", _PYTHON),
    Variable(
        "CCORE_ROOT_ADDR", Kind.TEXT, "see below", "address of rank 0's host, on which rank 0 listens",
        _LIBRARY,
    ),
    Variable("CCORE_ROOT_PORT", Kind.COUNT, "29555", "its port", _LIBRARY),
    Variable(
        "CCORE_JOB_SECRET", Kind.TEXT, "the job's name", "a text that only this job knows; authenticates its ranks",
        _LIBRARY,
    ),
    Variable(
        "CCORE_CPU_BINDING", Kind.FLAG, "0", "bind each rank to its share of the allowed CPUs, near its GPU",
        (Reader.PYTHON,), aliases=("AIACC_CPU_BINDING_ENABLE",),
    ),
    Variable(
        "CCORE_BUCKET_TUNE_DISABLE", Kind.FLAG, "0",
        "keep torch's default buckets: `tuned_ddp` returns at once, and `CCORE_RUN` tunes none",
        (Reader.PYTHON,), aliases=("AIACC_BUCKET_TUNE_DISABLE",),
    ),
    Variable(
        "CCORE_RUN", Kind.FLAG, "0",
        "after `import torch`, serve a script that knows nothing of collective_core, see "
        "[unchanged scripts](unchanged-scripts.md); `collective_core.run` sets it",
        (Reader.PYTHON,),
    ),
    Variable(
        "CCORE_FOR_GLOO", Kind.FLAG, "0", "with `CCORE_RUN`: `init_process_group(\"gloo\")` makes a group of `ccore`",
        (Reader.PYTHON,),
    ),
    Variable(
        "CCORE_ALIAS", Kind.CHOICE, "that of `CCORE_RUN`",
        "after `import torch`, `horovod.torch`, `torch_accl` and the backend `accl` are collective_core's; `force`: "
        "also where these packages are installed", (Reader.PYTHON,), choices=("0", "1", "force"),
    ),
    Variable(
        "CCORE_FUSION_BYTES", Kind.BYTES, "26214400",
        "gradients that DistributedOptimizer reduces together; 0: each alone", (Reader.HOROVOD,),
        aliases=("HOROVOD_FUSION_THRESHOLD",),
    ),
    Variable(
        "CCORE_CYCLE_MS", Kind.MILLISECONDS, "1",
        "how often the ranks compare their calls while no call was made by all of them", (Reader.HOROVOD,),
        aliases=("HOROVOD_CYCLE_TIME",),
    ),
    Variable(
        "CCORE_TIMELINE", Kind.TEXT, "none",
        "file for a Chrome trace of the collectives, by rank 0; `DYNAMIC`: none before `start_timeline`",
        (Reader.HOROVOD,), aliases=("HOROVOD_TIMELINE",),
    ),
    Variable(
        "CCORE_STALL_WARNING_S", Kind.SECONDS, "60",
        "warn when ranks have waited this long for a call of another one; 0: only at the deadline",
        (Reader.HOROVOD,), aliases=("HOROVOD_STALL_CHECK_TIME_SECONDS",),
    ),
    Variable(
        "CCORE_STALL_CHECK_DISABLE", Kind.FLAG, "0", "1: no such warning", (Reader.HOROVOD,),
        aliases=("HOROVOD_STALL_CHECK_DISABLE",),
    ),
    Variable(
        "CCORE_STALL_SHUTDOWN_S", Kind.SECONDS, "0",
        "end the job with an error when other ranks have waited this long; 0: only at the deadline",
        (Reader.HOROVOD,), aliases=("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",),
    ),
    Variable(
        "CCORE_THREAD_AFFINITY", Kind.TEXT, "none",
        "CPUs with commas, one for each rank of the node: that of the thread which runs the collectives",
        (Reader.HOROVOD,), aliases=("HOROVOD_THREAD_AFFINITY",),
    ),
    Variable(
        "CCORE_NCCL_STREAMS", Kind.COUNT, "`CCORE_NCCL_THREADS`",
        "sockets of a connection besides the lead socket, 0 to 15; the receiving rank's holds", _PLUGINS,
    ),
    Variable(
        "CCORE_NCCL_THREADS", Kind.COUNT, "a quarter of the CPUs, 1 to 4",
        "threads of a process that serve these sockets", _PLUGINS,
    ),
    Variable(
        "CCORE_NCCL_INLINE_BYTES", Kind.BYTES, "16384",
        "a message of up to this size is sent as a whole on the lead socket by NCCL's own thread", _PLUGINS,
    ),
    Variable(
        "CCORE_NCCL_CHUNK_BYTES", Kind.BYTES, "131072", "the most that a socket takes at once of a larger message",
        _PLUGINS,
    ),
    Variable(
        "CCORE_NCCL_SPIN_US", Kind.COUNT, "200 with 8 CPUs or more, else 0",
        "microseconds for which an idle thread polls before it sleeps", _PLUGINS,
    ),
    Variable(
        "CCORE_NCCL_SPEED_MBPS", Kind.COUNT, "what the kernel reports, else 10000",
        "the speed of every interface, as NCCL sees it", _PLUGINS,
    ),
    Variable("CCORE_NCCL_TUNER", Kind.FLAG, "1", "0: the tuner plugin uses no table", _PLUGINS),
    Variable(
        "CCORE_NCCL_TABLE", Kind.TEXT, "a file of the directory of `CCORE_CACHE_DIR`",
        "the file of the tuner plugin's table", _PLUGINS,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unused:
    """A documented variable of a library whose place this one takes, which has no effect here, and why."""

    name: str
    reason: str


_NO_MODEL = "the tuner measures every algorithm that may win, see [tuner](tuner.md), and has no model to fit"

UNUSED: tuple[Unused, ...] = (
    Unused("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", _NO_MODEL),
    Unused("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", _NO_MODEL),
    Unused("HOROVOD_CACHE_CAPACITY", "there is no cache of responses: the ranks agree by one small exchange"),
    Unused("HOROVOD_DYNAMIC_PROCESS_SETS", "process sets can always be added"),
    Unused("HOROVOD_TIMELINE_MARK_CYCLES", "a cycle runs only while no call was made by all ranks"),
    Unused("HOROVOD_HIERARCHICAL_ALLGATHER", "the library chooses the algorithm, see `CCORE_ALGO`"),
    Unused("HOROVOD_CPU_OPERATIONS", "collective_core is the only one"),
    Unused("HOROVOD_CONTROLLER", "collective_core is the only one"),
)
