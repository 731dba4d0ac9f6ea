"""``image distribute``: copy one image to the docker engine of each node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.cli.image.name import image_of
from clusterctl.cli.terminal import interrupt
from clusterctl.cli.terminal.progress import Progress
from clusterctl.report.text.table import columns

if TYPE_CHECKING:
    from clusterctl.images.distribution.distribute import Distributed, DistributionOutcome


class MethodName(str, Enum):
    """Name the methods of distribution."""

    auto = "auto"
    registry = "registry"
    tree = "tree"


def distribute(
    image: Annotated[
        str | None,
        typer.Argument(
            metavar="IMAGE", help="Image to distribute; default: container.image of the inventory."
        ),
    ] = None,
    *,
    inventory: cli.InventoryOption = None,
    limit: cli.LimitOption = None,
    method: Annotated[
        MethodName,
        typer.Option(
            help="registry: each node pulls; tree: saved here once and copied from node to node; "
            "auto: registry, unless only this machine has the image."
        ),
    ] = MethodName.auto,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    as_json: cli.JsonOption = False,
) -> None:
    """Copy the image to each node that lacks it.

    Exit code 0: all nodes have it; 9: a node does not; 5: each node that failed is unreachable.
    """
    from clusterctl.cli.live_steps import LiveNodes
    from clusterctl.cli.session import open_session
    from clusterctl.images.distribution.distribute import Distribution

    name = image or image_of(inventory, limit)
    session = open_session(inventory, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys)
    left = "Nodes that have received the whole image keep it."
    with (
        interrupt.explained(left, "To continue"),
        Progress("Distributing the image", done="Distributed the image") as progress,
    ):
        done = Distribution(
            nodes=session.inventory.nodes,
            connect=session.connected(),
            name=name,
            talk=console.talk,
            progress=progress.say,
            watch=LiveNodes(progress, once=False),
            fanout=session.fanout,
        ).run(None if method is MethodName.auto else method.value)
    if as_json:
        console.emit_json(_document(done))
    else:
        console.data(_table(done))
    failed = [outcome for outcome in done.outcomes if outcome.status == "failed"]
    for names, reason in _reasons(failed):
        console.error(f"failed: {names}: {reason}")
    for hint in dict.fromkeys(outcome.hint for outcome in failed if outcome.hint):
        console.error(f"hint: {hint}")
    if done.controller_bytes:
        console.talk(
            f"this machine sent {_mib(done.controller_bytes)}; the archive has {_mib(done.archive_bytes)}"
        )
    unreachable = [outcome for outcome in failed if outcome.unreachable]
    raise typer.Exit(0 if not failed else 5 if len(unreachable) == len(failed) else 9)


def _reasons(failed: Sequence[DistributionOutcome]) -> Iterator[tuple[str, str]]:
    """Yield each reason once, with the nodes that have it."""
    from clusterctl.inventory import nodeset

    nodes: dict[str, list[str]] = {}
    for outcome in failed:
        reason = (outcome.reason or "").removeprefix(outcome.node).removeprefix(": ")
        nodes.setdefault(reason, []).append(outcome.node)
    for reason, names in nodes.items():
        yield nodeset.fold_counted(names), reason


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.1f} MiB"


def _table(done: Distributed) -> str:
    rows = [
        (o.node, o.status, o.source or "-", _mib(o.sent_bytes) if o.sent_bytes else "-")
        for o in done.outcomes
    ]
    return columns(("node", "image", "from", "moved"), rows, left=(0, 1, 2))


def _document(done: Distributed) -> dict[str, Any]:
    from clusterctl.documents.image import DistributedImage, DistributionStatus, ImageDistribute

    return ImageDistribute(
        image=done.image,
        id=done.id,
        method=done.method,
        archive_bytes=done.archive_bytes,
        controller_bytes=done.controller_bytes,
        nodes=tuple(
            DistributedImage(
                name=outcome.node,
                status=DistributionStatus(outcome.status),
                source=outcome.source,
                sent_bytes=outcome.sent_bytes,
                error=outcome.reason,
            )
            for outcome in done.outcomes
        ),
    ).document()
