"""``image show``: the versions in the image and on the nodes, side by side, and what does not fit together."""

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

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.transport.base import Transport


def show(
    image: Annotated[
        str | None,
        typer.Argument(
            metavar="IMAGE", help="Image on the nodes; default: container.image of the inventory."
        ),
    ] = None,
    *,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    fanout: FanoutOption = None,
    accept_new_host_keys: AcceptHostKeysOption = False,
    json: JsonOption = False,
) -> None:
    """Show the versions in the image and on the nodes side by side.

    Reports whether CUDA in the image fits the driver of the nodes, and the image's RDMA libraries their RDMA driver.
    Each node starts a container of its image without network, which is removed.

    Exit code 0: everything fits; 1: something does not fit, or a node failed; 5: all nodes unreachable;
    9: no docker engine answers, or none has the image.
    """
    from clusterctl.cli.session import open_session, say_failures
    from clusterctl.documents.image import ImageShow
    from clusterctl.documents.kinds import Compatibility
    from clusterctl.documents.words import Success
    from clusterctl.errors import ImageError
    from clusterctl.facts.gather import gather
    from clusterctl.images import inside
    from clusterctl.images.on_node import open_engine
    from clusterctl.report.view import View
    from clusterctl.trust import versions
    from clusterctl.views import versions as versions_view

    session = open_session(inventory, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys)
    nodes = session.inventory.nodes
    names = {node.name: image or node.container.image for node in nodes}
    lacking = [name for name, wanted in names.items() if wanted is None]
    if lacking:
        raise ImageError(
            f"no image was given, and {lacking[0]} has none in the inventory",
            hint="name it: clusterctl image show IMAGE, or set container.image",
        )

    def work(node: Node, transport: Transport) -> tuple[NodeFacts, NodeFacts]:
        timeout_s = session.command_timeout_s
        engine = open_engine(transport)
        inner = inside.facts_of(engine, node, names[node.name] or "", versions.READS, timeout_s)
        return gather(transport, node, timeout_s, subjects=versions.READS, sudo=False), inner

    answers = asking.ask(session, work, "Reading versions", "Read versions of")
    both = answers.values_by_node
    found = versions.side_by_side(
        {name: host for name, (host, _) in both.items()}, {name: inner for name, (_, inner) in both.items()}
    )
    misfits = any(one.judgement is Compatibility.REFUSED for one in found.findings)
    if json:
        console.emit_json(
            ImageShow(
                status=Success.FAILED if misfits or answers.failures else Success.OK,
                images=tuple(dict.fromkeys(filter(None, names.values()))),
                versions=found,
                errors={n: f"{why.kind.value}: {why.message}" for n, why in answers.failures.items()},
            ).document()
        )
    else:
        if both:
            console.show(View("", (versions_view.block(found),)))
        say_failures(answers.failures)
    asking.require_an_answer(answers)
    if misfits or answers.failures:
        raise typer.Exit(1)
