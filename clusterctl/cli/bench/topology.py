"""Keep the topology and graphs that NCCL wrote on each node in the run folder, and describe them in the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clusterctl import rundir

if TYPE_CHECKING:
    from clusterctl.documents.bench import BenchResult
    from clusterctl.launch.run import Runner
    from clusterctl.rundir import RunDir

FOLDER = "nccl"


def kept(
    run: RunDir, runner: Runner, result: BenchResult, launches: Sequence[Mapping[str, Any]]
) -> BenchResult:
    """Return the result with ``proof.topology`` of the nodes that took part; write NCCL's files to the run folder."""
    from clusterctl.launch import topologies

    for node, dump in runner.dumps.items():
        for kind, text in (("topo", dump.topology), ("graph", dump.graphs)):
            if not text:
                continue
            path = run.folder(FOLDER) / f"{node}-{kind}.xml"
            with rundir.own_file(path):
                rundir.write_atomically(path, f"{text}\n".encode())
    nodes = dict.fromkeys(place["node"] for launch in launches for place in launch["placements"])
    found = topologies.part(list(nodes), runner.dumps, runner.facts)
    if found is None:
        return result
    return result.model_copy(update={"proof": result.proof.model_copy(update={"topology": found})})
