"""Process one node in one round: copy packages, apply steps, and follow a reboot to its end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace

from clusterctl.apply import carry, reboot, script
from clusterctl.apply.engine import Engine
from clusterctl.apply.execute import NodeOutcome, StepOutcome, apply_plan
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.apply.records import JournalRecord
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.inventory import nodeset
from clusterctl.inventory.model import Node
from clusterctl.requirements.steps import Reboot
from clusterctl.transport.base import Failure, FailureKind, Transport

NEEDS_REBOOT = "needs a reboot: allow it with --reboot"
OWN_MACHINE = (
    "needs a reboot, but clusterctl runs on this machine: reboot it by hand, then continue with --resume"
)

_TRIES_AFTER_BOOT = 5
_OF_THE_LINE = (FailureKind.LOST, FailureKind.REFUSED, FailureKind.UNREACHABLE, FailureKind.TIMEOUT)

Recorder = Callable[[str, JournalRecord], None]
"""Takes a step's key (empty: the run) and a record of it."""


def left_out(plan: NodePlan, status: AppliedStatus, reason: str) -> tuple[StepOutcome, ...]:
    """Return the outcome of a plan whose steps were all omitted for the same reason."""
    return tuple(
        StepOutcome(p.requirement, p.step.description, status, script.step_key(p), reason) for p in plan.steps
    )


class OnNode:
    """One node's round. ``deadline`` is the time (monotonic, in seconds) by which all work on the node must end.

    ``behind`` are the nodes of the same round that use this node as a jump host.
    """

    def __init__(
        self,
        engine: Engine,
        node: Node,
        header: script.Header,
        deadline: float,
        record: Recorder,
        behind: tuple[str, ...] = (),
    ) -> None:
        self._engine = engine
        self._node = node
        self._header = header
        self._deadline = deadline
        self._record = record
        self._behind = behind

    def run(self, transport: Transport, plan: NodePlan) -> NodeOutcome:
        """Apply the plan and return how it ended; raise TransportError or CommandError if it could not begin."""
        boots = tuple(p for p in plan.steps if isinstance(p.step, Reboot))
        refused = "" if not boots else self._why_no_reboot()
        steps = tuple(p for p in plan.steps if not (refused and isinstance(p.step, Reboot)))
        outcome = NodeOutcome(())
        if steps:
            folders = carry.folders_of(plan)
            if folders:
                place = f"{self._header.state_dir}/carried/{self._header.run}"
                carry.carry(transport, folders, place, self._copying)
            names = {folder: read.name for folder, read in folders.items()}
            outcome = self._apply(transport, NodePlan(plan.node, steps), names)
        if outcome.rebooting:
            outcome = self._follow_reboot(transport, outcome, boots[0])
        elif outcome.failure is not None and outcome.failure.kind is FailureKind.LOST and outcome.boot_id:
            outcome = self._explain_loss(transport, outcome)
        if refused:
            skipped = left_out(NodePlan(plan.node, boots), AppliedStatus.SKIPPED, refused)
            boots_left = tuple(replace(step, needs_reboot=True) for step in skipped)
            outcome = replace(outcome, steps=(*outcome.steps, *boots_left))
        return outcome

    def _copying(self, sent: int, total: int) -> None:
        of = f"{sent >> 20} of {total >> 20} MiB" if total >= 1 << 20 else f"{total} bytes"
        self._engine.watch.doing(self._node.name, f"copying packages to the node: {of}")

    def _why_no_reboot(self) -> str:
        if self._node.connection == "local":
            return OWN_MACHINE
        if not self._engine.reboot:
            return NEEDS_REBOOT
        if self._behind:
            behind = f"{nodeset.fold(self._behind)} of this run can be reached only through it"
            return f"needs a reboot, but {behind}: reboot it in a separate run with --limit {self._node.name}"
        return ""

    def _left_s(self) -> float:
        return max(1.0, min(self._engine.timeout_s, self._deadline - time.monotonic()))

    def _apply(
        self, transport: Transport, plan: NodePlan, carried: dict[str, str], booted_from: str = ""
    ) -> NodeOutcome:
        keys = [script.step_key(planned) for planned in plan.steps]

        def record(event: JournalRecord) -> None:
            self._record(keys[event.number - 1] if 0 < event.number <= len(keys) else "", event)
            self._engine.watch.heard(self._node.name, plan, event)

        header = replace(self._header, booted_from=booted_from)
        return apply_plan(transport, plan, header, timeout_s=self._left_s(), record=record, carried=carried)

    def _follow_reboot(self, transport: Transport, outcome: NodeOutcome, boot: PlannedStep) -> NodeOutcome:
        assert isinstance(boot.step, Reboot)
        self._engine.watch.doing(self._node.name, "rebooting")
        transport.close()
        deadline = min(self._deadline, time.monotonic() + boot.step.timeout_s)
        old = outcome.boot_id
        back = reboot.wait(self._engine.connect, self._node, lambda found: found != old, deadline)
        if back.boot_id is None or back.boot_id == old:
            if back.failure is not None:
                message = f"the node did not come back from its reboot in time; last attempt: {back.failure.message}"
            else:
                message = "the reboot was requested, but the boot ID has not changed"
            hint = "look at the node's console, then continue with: clusterctl bootstrap --resume"
            failure = Failure(FailureKind.DEADLINE, f"{self._node.name}: {message}", hint)
            return self._rebooted(outcome, AppliedStatus.FAILED, failure.message, failure)
        tries = 0
        while True:
            tries += 1
            with contextlib.closing(self._engine.connect(self._node)) as again:
                reboot.settle(again, deadline)
                # The reboot's entry in the node's journal can be closed only after the new boot.
                closed = self._apply(again, NodePlan(self._node.name, (boot,)), {}, booted_from=old)
            lost = closed.failure is not None and closed.failure.kind in _OF_THE_LINE
            if not lost or tries == _TRIES_AFTER_BOOT or time.monotonic() >= deadline:
                break
            # The node may answer early in its boot and then lose its network again.
            reboot.wait(self._engine.connect, self._node, bool, deadline)
        if closed.failure is not None:
            return self._rebooted(outcome, AppliedStatus.FAILED, closed.failure.message, closed.failure)
        status = closed.steps[0].status
        return self._rebooted(
            outcome,
            AppliedStatus.CHANGED if status is AppliedStatus.UNCHANGED else status,
            closed.steps[0].reason,
            None,
        )

    @staticmethod
    def _rebooted(
        outcome: NodeOutcome, status: AppliedStatus, reason: str, failure: Failure | None
    ) -> NodeOutcome:
        last = replace(outcome.steps[-1], status=status, reason=reason)
        return replace(outcome, steps=(*outcome.steps[:-1], last), failure=failure, rebooting=False)

    def _explain_loss(self, transport: Transport, outcome: NodeOutcome) -> NodeOutcome:
        """Replace the failure of a lost node if the node has rebooted unexpectedly; else return it unchanged."""
        transport.close()
        deadline = min(self._deadline, time.monotonic() + self._engine.return_wait_s)
        back = reboot.wait(self._engine.connect, self._node, bool, deadline)
        if not back.boot_id or back.boot_id == outcome.boot_id:
            return outcome
        message = f"{self._node.name}: the node rebooted unexpectedly during the run"
        hint = "find out why (journalctl -b -1), then continue with: clusterctl bootstrap --resume"
        # The node is reachable again, so the failure must not count as a connection failure.
        failure = Failure(FailureKind.ERROR, message, hint)
        steps = tuple(
            replace(step, reason=f"interrupted: {message}") if step.interrupted else step
            for step in outcome.steps
        )
        return replace(outcome, steps=steps, failure=failure)
