"""Define a row of ``accept``: what it needs, how it runs, and what its parser returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterctl.documents import accept
from clusterctl.transport.base import Failure

if TYPE_CHECKING:
    from pathlib import Path

    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.launch.run import Runner
    from clusterctl.transport.base import HostMap

RowStatus = accept.RowStatus
Tier = accept.Tier


MOST_VALUES = 10_000
"""Of one row on one node; a node with 64 GPUs has fewer. A parser stops here, before it makes more objects."""
MOST_JSON_BYTES = 2 << 20
"""Of the document of one program; that of a node with 64 GPUs is shorter."""


@dataclass(frozen=True, slots=True)
class RowMeasurement:
    """One value that a row measured: ``gpu-gemm``'s ``bf16_tflops`` of ``GPU 3``.

    ``device`` is empty for the node. ``hardware`` names what was measured, if it is not what the row measures as a
    whole ("PCIe 5 x16"): thresholds and the comparison with the fleet apply to equal hardware. ``samples`` are the
    repeats behind the value.
    """

    field: str
    value: float
    unit: str
    higher_is_better: bool
    device: str = ""
    hardware: str = ""
    samples: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class RowFingerprint:
    """A text that must be the same on all devices of the same hardware, such as the hash of a computed matrix."""

    field: str
    text: str
    device: str = ""
    hardware: str = ""


@dataclass(frozen=True, slots=True)
class RowFinding:
    """What the row itself found, without a threshold: a failed test of a tool, an Xid, a throttled clock."""

    status: RowStatus
    text: str
    device: str = ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the parser of a row read. ``not_run`` is the reason why the program measured nothing: not enough room."""

    measurements: tuple[RowMeasurement, ...] = ()
    fingerprints: tuple[RowFingerprint, ...] = ()
    findings: tuple[RowFinding, ...] = ()
    version: str = ""
    not_run: str = ""


@dataclass(frozen=True, slots=True)
class RowTool:
    """A program that a row needs on the node, how it prints its version, and how it is installed."""

    program: str
    install: str
    version: tuple[str, ...] = ("--version",)


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where a row runs. ``directory`` is empty, belongs to the row, and is removed with all that it holds."""

    node: Node
    facts: NodeFacts
    directory: str
    python: str = "python3"
    archive: str = ""
    """The path of the workloads on the node, for rows with ``torch``: ``[python, archive, "device-perf", ..]``."""
    peer: str = ""
    """The address of the other node, for the client of a row between two nodes."""


@dataclass(frozen=True, slots=True)
class RowCommand:
    """A command for a node; its working directory is ``RowPlace.directory``."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FromFacts:
    """A row that only reads the facts of a node."""

    read: Callable[[RowPlace], Parsed]


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """A row that runs one command on every node at the same time.

    ``parse`` is pure: it reads the standard output of a command that ended with one of ``statuses``, and raises
    ``foreign.NotUnderstood`` for output that it cannot read. The command is ended after ``deadline_s`` seconds.
    """

    command: Callable[[RowPlace], RowCommand]
    parse: Callable[[str], Parsed]
    deadline_s: float
    tools: tuple[RowTool, ...] = ()
    torch: bool = False
    as_root: bool = False
    statuses: frozenset[int] = frozenset({0})


@dataclass(frozen=True, slots=True)
class PairProgram:
    """A row that runs a server on one node and a client on another, all pairs at the same time.

    The client's command may start before the server listens, and must retry. ``parse`` reads the client's output; the
    result belongs to both nodes. With one node, server and client run on it, unless the row takes two.
    """

    server: Callable[[RowPlace], RowCommand]
    client: Callable[[RowPlace], RowCommand]
    parse: Callable[[str], Parsed]
    deadline_s: float
    tools: tuple[RowTool, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetPlace:
    """Where a row over all nodes runs; ``say`` shows a line of progress.

    ``facts`` are those of this part of the run, ``before`` those of its first start, which a resumed run reads from the
    run folder. ``gather`` reads subjects of the facts again.
    """

    nodes: tuple[Node, ...]
    runner: Callable[[], Runner]
    logs: Path
    say: Callable[[str], None]
    facts: Mapping[str, NodeFacts]
    before: Mapping[str, NodeFacts]
    gather: Callable[[frozenset[str]], HostMap[NodeFacts]]
    on_gpus: bool = False
    """Whether every node has a GPU."""

    def judge_each(self, after: HostMap[NodeFacts], judge: Callable[[str], Parsed]) -> FleetAnswer:
        """Return what ``judge`` says of each node by its name; a node whose facts could not be read was not run."""
        parsed: dict[str, Parsed] = {}
        for node in self.nodes:
            outcome = after.get(node.name)
            parsed[node.name] = (
                Parsed(not_run=outcome.message) if isinstance(outcome, Failure) else judge(node.name)
            )
        return FleetAnswer(parsed)


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """What a row over all nodes returned: of each node, and why it failed or did not run as a whole."""

    parsed: Mapping[str, Parsed]
    failed: str = ""
    not_run: str = ""


@dataclass(frozen=True, slots=True)
class FleetProgram:
    """A row that needs all nodes at once; such rows run one after the other."""

    run: Callable[[FleetPlace], FleetAnswer]


def _cpu(facts: NodeFacts) -> str:
    topology = facts.cpu.topology.value
    return "" if topology is None else topology.model_name


@dataclass(frozen=True, slots=True)
class AcceptRow:
    """One row: its stable name, what it measures, and how it runs.

    ``applies`` returns why the row does not apply to a node ("the node has no GPU"), or an empty text; ``hardware``
    returns the name of what it measures, for thresholds and for the comparison with nodes of equal hardware.
    """

    name: str
    title: str
    tier: Tier
    work: FromFacts | NodeProgram | PairProgram | FleetProgram
    applies: Callable[[NodeFacts], str] = lambda _: ""
    hardware: Callable[[NodeFacts], str] = _cpu
    least_nodes: int = 1
    at_the_end: bool = False
    """Whether the row runs after all others and their repeats, each time that the run goes on."""
    also_measured_by: str = ""
    """The row that measures the same without the tools of this one: if it ran, a missing tool does no harm."""

    @property
    def tools(self) -> tuple[RowTool, ...]:
        """Return the programs that the row needs on the node."""
        return self.work.tools if isinstance(self.work, (NodeProgram, PairProgram)) else ()

    def too_few(self, nodes: int) -> str:
        """Return why the row does not apply to a run of so few nodes, or an empty text."""
        return f"it takes {self.least_nodes} nodes" if nodes < self.least_nodes else ""


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """What became of one row on one node in one repeat.

    ``failed`` is the reason why the program gave no valid result (it hung, was killed, printed rubbish), ``not_run``
    why it was not started or measured nothing, ``not_applicable`` why the node has nothing to measure; all three are
    empty for a row that measured. ``again`` has the values of a second measurement, of a node whose first one differed
    from the fleet.
    """

    node: str
    row: str
    hardware: str = ""
    repeat: int = 0
    parsed: Parsed = Parsed()
    failed: str = ""
    not_run: str = ""
    not_applicable: str = ""
    again: tuple[RowMeasurement, ...] = ()
    tool: str = ""
    command: str = ""
    log: str = ""
    seconds: float = 0.0
    votes: tuple[RowMeasurement, ...] | None = None
    """In a row of pairs, what the node itself printed: its vote, also where ``parsed`` is what a partner printed."""
