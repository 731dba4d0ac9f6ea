"""Have NCCL write its topology and graphs on every node of a launch, and read these files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.preflight import Readiness
from clusterctl.trust.topology.nccl_dump import LARGEST_BYTES
from clusterctl.workloads.archive import ARCHIVE

WRAPPER = "nccl_dump.sh"
_FILES = {"NCCL_TOPO_DUMP_FILE": "nccl-topo.xml", "NCCL_GRAPH_DUMP_FILE": "nccl-graph.xml"}
_GRAPHS = "NCCL_GRAPH_DUMP_FILE"
_SINCE, _SINCE_TORCH = (2, 21, 5), (2, 5)
"""The first NCCL in which any rank can write the graphs, and the first torch that brings it."""
_MARK = "clusterctl-file "
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class NcclDump:
    """Hold the two files of one node, and the rank that wrote them; a missing file is empty."""

    rank: int
    topology: str
    graphs: str


def staged() -> dict[str, bytes]:
    """Return the script that runs ranks, for the launch directory of every node."""
    return {WRAPPER: Path(__file__).with_name(WRAPPER).read_bytes()}


def variables(directory: str, *, graphs: bool = True) -> dict[str, str]:
    """Return the variables by which NCCL writes its files into the launch directory."""
    return {name: f"{directory}/{file}" for name, file in _FILES.items() if graphs or name != _GRAPHS}


def writes_graphs(members: Sequence[Readiness], program: Sequence[str]) -> bool:
    """Tell whether NCCL can write its graphs in any rank; where it cannot, it ends the run.

    Before 2.21.5 it looks for the GPUs of NVLS in the wrong place on every node except that of rank 0
    (ncclTopoGetXmlFromChannel). The graphs of nodes that NVLink joins exceed its limit (NCCL_GRAPH_XML_MAX_NODES).
    """
    torch = any(word.endswith(ARCHIVE) for word in program)
    return all(
        not member.imex
        and (torch or bool(member.nccl))
        and all(_numbers(version) >= _SINCE for version in member.nccl)
        and (member.torch is None or _numbers(member.torch) >= _SINCE_TORCH)
        for member in members
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d{1,6}", version.partition("+")[0])[:3]))


def wrapped(program: tuple[str, ...], directory: str) -> tuple[str, ...]:
    """Return the command of a rank with which NCCL writes on every node; without it, only rank 0 writes."""
    return ("sh", f"{directory}/{WRAPPER}", *program)


def ranks_of(plan: LaunchPlan) -> dict[str, int]:
    """Return the rank of each node that writes the files; empty if this launch writes none that can be collected."""
    env = dict(plan.env)
    if not any(env.get(name) == path for name, path in variables(plan.directory).items()):
        return {}
    ranks = {node: rank for rank, node in reversed(list(enumerate(plan.node_of_rank)))}
    return {placement.node: ranks[placement.node] for placement in plan.placements}


def collecting(directory: str) -> bytes:
    """Return sh text that prints the files and removes the launch directory."""
    names = " ".join(f"{file}*" for file in _FILES.values())
    return f"""cd {shlex.quote(directory)} && for f in {names}; do
  [ ! -f "$f" ] || {{ echo '{_MARK}'"$f"; head -c {LARGEST_BYTES} "$f"; echo; }}
done | head -c {_MOST_BYTES}
rm -rf {shlex.quote(directory)} 2>/dev/null || {{
  # A program of the user may have made directories that it cannot write to.
  chmod -R u+rwX {shlex.quote(directory)}
  rm -rf {shlex.quote(directory)}
}}
""".encode()


def collected(text: str) -> dict[str, str]:
    """Return the files in the output of ``collecting`` by name."""
    parts = f"\n{text}".split(f"\n{_MARK}")[1:]
    named = (part.partition("\n") for part in parts)
    return {name: content.strip() for name, _, content in named if content.strip()}


def by_node(ranks: Mapping[str, int], files: Mapping[str, Mapping[str, str]]) -> dict[str, NcclDump]:
    """Return each node's dump from the files that the nodes printed.

    Nodes may share the directory: then the first of them prints the files of all, and removes them.
    """
    everywhere = {name: text for found in files.values() for name, text in found.items()}
    dumps = {}
    for node, rank in ranks.items():
        own = {**everywhere, **files.get(node, {})}
        topology, graphs = (own.get(f"{file}.{rank}") or own.get(file, "") for file in _FILES.values())
        if topology:
            dumps[node] = NcclDump(rank, topology, graphs)
    return dumps
