"""``image prove``: report which library each rank has mapped, and whether all use the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli.image import asking
from clusterctl.cli.options import (
    AcceptHostKeysOption,
    FanoutOption,
    InventoryOption,
    JsonOption,
    LimitOption,
)
from clusterctl.report.text.table import columns

if TYPE_CHECKING:
    from clusterctl.documents.image import ProvenNode
    from clusterctl.inventory.model import Node
    from clusterctl.transport.base import HostMap, Transport


def prove(
    *,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    library: Annotated[
        str | None,
        typer.Option(metavar="LIBRARY", help="Collective library; default: the one that the image declares."),
    ] = None,
    fanout: FanoutOption = None,
    accept_new_host_keys: AcceptHostKeysOption = False,
    json: JsonOption = False,
) -> None:
    """Prove that all ranks use the same library.

    Inspects the running ranks in the containers of 'clusterctl up'. Without running ranks, it starts one process
    per slot, which loads the library as a rank does.

    Exit code 0: all use the same library; 1: a rank uses another library, or a node failed; 5: all nodes unreachable;
    9: no docker engine answers.
    """
    from clusterctl.cli.session import open_session, say_failures
    from clusterctl.images import prove as proving

    session = open_session(inventory, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys)

    def work(node: Node, transport: Transport) -> ProvenNode:
        slots = node.slots or node.gpus or 1
        return proving.ask(node, transport, library=library, slots=slots, timeout_s=session.command_timeout_s)

    answers = asking.ask(session, work, "Inspecting containers", "Inspected containers on")
    against = proving.judge(answers)
    if json:
        console.emit_json(_document(answers, against))
    else:
        if answers.values_by_node:
            console.data(_table(answers.values_by_node))
        say_failures(answers.failures)
        for line in against:
            console.error(line)
    asking.require_an_answer(answers)
    if against or answers.failures:
        raise typer.Exit(1)


def _table(proofs: dict[str, ProvenNode]) -> str:
    rows = [
        (node, rank.rank, str(rank.pid), rank.sha256[:12], ", ".join(proof.versions) or "-", rank.path)
        for node, proof in proofs.items()
        for rank in sorted((*proof.ranks, *proof.beside), key=lambda one: (len(one.rank), one.rank, one.pid))
    ]
    return columns(("node", "rank", "pid", "sha256", "version", "path"), rows, left=(0, 1, 3, 4, 5))


def _document(answers: HostMap[ProvenNode], against: tuple[str, ...]) -> dict[str, object]:
    from clusterctl.documents.image import ImageProve, UnprovenNode
    from clusterctl.documents.words import Success

    unproven = [
        UnprovenNode(name=name, error=f"{failure.kind.value}: {failure.message}")
        for name, failure in answers.failures.items()
    ]
    return ImageProve(
        status=Success.OK if not against and not unproven else Success.FAILED,
        nodes=(*answers.values_by_node.values(), *unproven),
        findings=against,
    ).document()
