"""Let a caller follow the work on nodes while it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from clusterctl.apply.plan.model import NodePlan
from clusterctl.apply.records import JournalRecord


class StepWatch:
    """Ignore everything; a caller overrides what it shows. Methods are called from the threads of the nodes."""

    def batch(self, number: int, batches: int, nodes: Sequence[str]) -> None:
        """Note that the following rounds work on these nodes, the batch of this number."""

    def round(self, number: int, plans: Mapping[str, NodePlan]) -> AbstractContextManager[None]:
        """Return a context for one round; ``plans`` holds the steps of its nodes."""
        del number, plans
        return nullcontext()

    def begun(self, node: str) -> None:
        """Note that work on the node has begun: it is contacted now."""

    def doing(self, node: str, what: str) -> None:
        """Note what happens on the node now, besides steps."""

    def heard(self, node: str, plan: NodePlan, record: JournalRecord) -> None:
        """Note a record of the node's runner; ``plan`` holds the steps that the record's number counts."""

    def ended(self, node: str) -> None:
        """Note that the work on the node has ended, well or not."""


SILENT = StepWatch()
