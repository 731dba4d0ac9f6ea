"""The rows of tools that are called if a node has them: DCGM, nvbandwidth, nccl-tests, HPL."""

from __future__ import annotations

import shlex
from dataclasses import replace

from clusterctl.acceptance.model import AcceptRow, NodeProgram, RowCommand, RowPlace, RowTool, Tier
from clusterctl.acceptance.outputs import dcgm, hpl, nccl_tests, nvbandwidth
from clusterctl.acceptance.rows.gpu import gpu_name, without_gpu
from clusterctl.facts.model.node import NodeFacts

_DCGM = RowTool("dcgmi", "install NVIDIA's package datacenter-gpu-manager-4-cuda12")
_NVBANDWIDTH = RowTool("nvbandwidth", "build github.com/NVIDIA/nvbandwidth 0.3 or later", ("--help",))
_ALL_REDUCE = RowTool(
    "all_reduce_perf", "build nccl-tests, for example with the requirement `mpi`", ("--help",)
)
_HPL = RowTool("xhpl", "install HPL, for example NVIDIA's container hpc-benchmarks", ())
# dcgmi ends with a status other than 0 if a test failed; the document tells which one.
_DCGM_STATUSES = frozenset({0, 1, 226})
_BYTES = "4G"
# Without NVSwitch, a GPU maps the memory of at most eight peers, and CUDA fails beyond with error 711. Of more GPUs,
# groups are measured one after the other.
_MOST_GPUS = 8
_HPL_SHARE = 0.1
_HPL_SIZE = (2_000, 60_000)
_HPL_DAT = """\
HPLinpack benchmark input file
clusterctl
HPL.out      output file name (if any)
6            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{size}       Ns
1            # of NBs
192          NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
1            Ps
1            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
"""


def _gpus(facts: NodeFacts) -> int:
    return len(facts.gpu.devices.or_else(()))


def _several_gpus(facts: NodeFacts) -> str:
    return without_gpu(facts) or ("" if _gpus(facts) > 1 else "the node has one GPU")


def _dcgm(level: str) -> RowCommand:
    return RowCommand(("dcgmi", "diag", "-r", level, "--json"))


def _nvbandwidth(_: RowPlace) -> RowCommand:
    tests = [word for name in nvbandwidth.TESTS for word in ("-t", name)]
    return RowCommand(("nvbandwidth", "-j", *tests))


def _all_reduce(place: RowPlace) -> RowCommand:
    gpus = _gpus(place.facts)
    own = min(gpus, _MOST_GPUS)
    argv: tuple[str, ...] = (
        "all_reduce_perf",
        "-b",
        _BYTES,
        "-e",
        _BYTES,
        "-g",
        str(own),
        "-n",
        "20",
        "-c",
        "1",
    )
    if gpus > own:
        groups = (range(first, first + own) for first in (*range(0, gpus - own, own), gpus - own))
        runs = (f"CUDA_VISIBLE_DEVICES={','.join(map(str, group))} {shlex.join(argv)}" for group in groups)
        argv = ("sh", "-c", f" && echo '{nccl_tests.BETWEEN_GROUPS}' && ".join(runs))
    # NCCL reports why it fails in a line of its own.
    return RowCommand(argv, env={"NCCL_DEBUG": "WARN"})


def _over_nics(place: RowPlace) -> RowCommand:
    # Without peer access and shared memory, NCCL uses the NICs within the node.
    plain = _all_reduce(place)
    return replace(plain, env={**plain.env, "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"})


def _hpl(place: RowPlace) -> RowCommand:
    total = place.facts.memory.total_bytes.or_else(0)
    least, most = _HPL_SIZE
    # N x N numbers of 8 bytes in a tenth of the memory.
    size = max(least, min(most, int((_HPL_SHARE * total / 8) ** 0.5)))
    script = "cat > HPL.dat && exec xhpl"
    return RowCommand(("sh", "-c", script), stdin=_HPL_DAT.format(size=size).encode())


ROWS = (
    AcceptRow(
        "dcgm-diag", "DCGM's diagnostic, level 2", Tier.VALIDATION,
        NodeProgram(lambda _: _dcgm("2"), dcgm.parse, 900.0, (_DCGM,), statuses=_DCGM_STATUSES),
        without_gpu, gpu_name,
        also_measured_by="gpu-repeat",
    ),
    AcceptRow(
        "nvbandwidth", "copies of NVIDIA's nvbandwidth", Tier.PERFORMANCE,
        NodeProgram(_nvbandwidth, nvbandwidth.parse, 300.0, (_NVBANDWIDTH,), statuses=frozenset({0, 1})),
        without_gpu, gpu_name,
        also_measured_by="gpu-memory",
    ),
    AcceptRow(
        "nccl-node", "all_reduce of the GPUs of a node", Tier.PERFORMANCE,
        NodeProgram(_all_reduce, nccl_tests.parse, 180.0, (_ALL_REDUCE,)), _several_gpus, gpu_name,
        also_measured_by="gpu-pairs",
    ),
    AcceptRow(
        "nccl-nics", "all_reduce of the GPUs of a node over its NICs", Tier.PERFORMANCE,
        NodeProgram(_over_nics, nccl_tests.parse, 180.0, (_ALL_REDUCE,)),
        lambda facts: _several_gpus(facts) or ("" if facts.rdma.devices.or_else(()) else "the node has no RDMA NIC"),
        gpu_name,
        also_measured_by="rdma-bandwidth",
    ),
    AcceptRow(
        "hpl", "High-Performance Linpack on the CPU", Tier.PERFORMANCE,
        NodeProgram(_hpl, hpl.parse, 600.0, (_HPL,)),
        also_measured_by="cpu-memory",
    ),
    AcceptRow(
        "dcgm-stress", "DCGM's diagnostic, level 3", Tier.STRESS,
        NodeProgram(lambda _: _dcgm("3"), dcgm.parse, 3600.0, (_DCGM,), statuses=_DCGM_STATUSES),
        without_gpu, gpu_name,
        also_measured_by="gpu-heat",
    ),
)  # fmt: skip
