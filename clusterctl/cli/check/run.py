"""Carry out ``check``: contact the nodes or replay a recording, and judge the facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterctl.cli import console
from clusterctl.cli.terminal import interrupt
from clusterctl.report.check_document import document_of

if TYPE_CHECKING:
    from clusterctl.documents.check import Check
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.facts.recording.record import Recorder
    from clusterctl.inventory.model import Inventory
    from clusterctl.requirements.base import Decision
    from clusterctl.transport.base import HostMap


@dataclass(frozen=True, slots=True)
class Judged:
    """Hold a fleet's facts and verdicts, and the verdicts and the drift as a document, typed and as JSON."""

    facts: HostMap[NodeFacts]
    verdicts: HostMap[tuple[Decision, ...]]
    checked: Check
    document: dict[str, Any]
    this_machine: bool = False
    """Whether no inventory was given or found, so that the only node is this machine."""
    run: str | None = None
    """The id of the run; None for a replay."""


def judge_fleet(
    facts: HostMap[NodeFacts],
    inventory: Inventory,
    only: tuple[str, ...] | None,
    skip: tuple[str, ...],
    earlier: Mapping[str, NodeFacts],
) -> Judged:
    """Judge each node as part of its fleet, and compare the nodes with each other; pure."""
    from clusterctl import core_wheel
    from clusterctl.facts.comparable import comparable
    from clusterctl.facts.drift import drift
    from clusterctl.requirements import judge
    from clusterctl.requirements.fleet.view import Fleet
    from clusterctl.transport.answers import map_understood

    everyone = (*inventory.nodes, *inventory.beyond)
    fleet = Fleet(everyone, facts.values_by_node, earlier, inventory.launcher, core_wheel.carried())
    # An error in one node's facts must not end the check of the other nodes.
    compared = map_understood(facts, "its facts", lambda _name, found: comparable(found))
    verdicts = map_understood(
        compared,
        "its facts",
        lambda name, _: judge.judge_node(fleet.facts[name], inventory.node(name), only, skip, fleet=fleet),
    )
    checked = document_of(verdicts, drift(facts.values_by_node, inventory.nodes, compared.values_by_node))
    return Judged(facts, verdicts, checked, checked.document(), inventory.source is None)


@dataclass(frozen=True, slots=True)
class Contact:
    """Check the nodes of an inventory by contacting them."""

    inventory: Path | None
    limit: Sequence[str] | None
    fanout: int | None
    accept_new_host_keys: bool
    runs: Path | None
    label: str | None = None

    def check(self, only: tuple[str, ...] | None, skip: tuple[str, ...], record: Path | None) -> Judged:
        from clusterctl.cli.session import open_session
        from clusterctl.inventory.recorded import recorded
        from clusterctl.rundir import RunDir

        session = open_session(
            self.inventory,
            limit=self.limit,
            fanout=self.fanout,
            accept_new_host_keys=self.accept_new_host_keys,
            action="checking",
        )
        # A recording holds all subjects, because a replay may check other requirements.
        asked = _subjects_read(only, skip, session.inventory)
        subjects = asked if record is None else None
        recorder = _recorder(record, session.inventory)
        try:
            run = RunDir.create("check", self.runs, self.label)
            with interrupt.changes_nothing():
                facts = session.gather(
                    None if recorder is None else recorder.heard,
                    subjects,
                    meanwhile=lambda: run.write("inventory", recorded(session.inventory)),
                )
            # Imported here so that the time of these imports does not delay the contact with the nodes.
            from clusterctl.facts import document
            from clusterctl.facts.earlier import EarlierFacts

            run.write("facts", document.fleet_to_document(facts, subjects))
            everybody = (*session.inventory.nodes, *session.inventory.beyond)
            earlier = EarlierFacts(run.path.parent, everybody, present=run.id, subjects=subjects)
            judged = judge_fleet(facts, session.inventory, only, skip, earlier)
            run.write("report", judged.document)
            if recorder is not None and record is not None:
                found = recorder.finish(
                    facts, earlier=dict(earlier.used), only=only, skip=skip, result=judged.document
                )
                _say_recorded(record, sum(found.values()), judged)
        except BaseException:
            if recorder is not None:
                recorder.discard()
            raise
        return replace(judged, run=run.id)


def _subjects_read(
    only: tuple[str, ...] | None, skip: tuple[str, ...], inventory: Inventory
) -> frozenset[str] | None:
    if only is None and not skip and not any(node.requirements.skip for node in inventory.nodes):
        # All subjects are read; the judges are imported while the nodes answer.
        return None
    from clusterctl.requirements import judge

    judge.refuse_nothing_to_judge(inventory.nodes, only, skip)
    return judge.subjects_read(only, skip)


def _recorder(record: Path | None, inventory: Inventory) -> Recorder | None:
    if record is None:
        return None
    from clusterctl.facts.recording.record import Recorder

    return Recorder(record, inventory)


def _say_recorded(record: Path, scrubbed: int, judged: Judged) -> None:
    """Print the path of the recording; compare its verdicts with those of this check."""
    from clusterctl.facts.recording.model import SCRUBBED

    console.talk(f"recorded in {record}; {scrubbed} secrets were removed, listed in its {SCRUBBED}")
    if replayed(record, None, None, None).document != judged.document:
        console.talk("warning: a replay of the recording, without its secrets, gives different verdicts")


def replayed(
    replay: Path, limit: Sequence[str] | None, only: tuple[str, ...] | None, skip: tuple[str, ...] | None
) -> Judged:
    from clusterctl.facts.recording import replay as recordings
    from clusterctl.inventory.limit import limited
    from clusterctl.transport.base import HostMap

    recording = recordings.read(replay)
    inventory = limited(recording.inventory, limit)
    facts = HostMap({node.name: recording.facts[node.name] for node in inventory.nodes})
    judged = judge_fleet(
        facts,
        inventory,
        recording.only if only is None else only,
        recording.skip if skip is None else skip,
        recording.earlier,
    )
    as_recorded = limit is None and only is None and skip is None
    if as_recorded and judged.document != recording.result:
        console.talk(
            f"note: clusterctl {recording.version}, which made this recording, gave different verdicts"
        )
    return judged
