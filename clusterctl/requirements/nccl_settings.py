"""NCCL's settings as a node's ranks get them: the inventory's environments beat ``/etc/nccl.conf``.

Source: NCCL user guide, environment variables and configuration files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node

FILE = "/etc/nccl.conf"
TOPOLOGY = "NCCL_TOPO_FILE"


def given(facts: NodeFacts, node: Node, variable: str) -> Iterator[tuple[str, str]]:
    """Yield every place that sets a variable, with its text; the first of them counts."""
    for place, values in (("the inventory's env", node.env), ("the container's env", node.container.env)):
        if values.get(variable):
            yield place, values[variable]
    for line in facts.host_config:
        name, equals, value = line.text.partition("=")
        if line.path == FILE and equals and name.strip() == variable:
            yield FILE, value.strip()


def topology_warnings(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Say that a topology is prescribed where NCCL sees the machine's own; a virtual machine's host may hide it."""
    found = next(given(facts, node, TOPOLOGY), None)
    if found is None or facts.in_vm is not False:
        return ()
    place, path = found
    said = (
        f"{place} sets {TOPOLOGY}={path}; on bare metal NCCL finds the topology by itself, and that of another "
        "machine costs most of the bandwidth (AzNHC #142): unset it"
    )
    return (said,)
