"""NCCL's settings as a node's ranks get them: the inventory's environments, the account's own file, ``/etc/nccl.conf``.

Source: NCCL user guide, environment variables and configuration files; NCCL's src/misc/param.cc: what is set already
is not set again, and ``NCCL_CONF_FILE`` names another file in place of the account's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clusterctl.facts.limits import NCCL_HOME_FILE
from clusterctl.foreign import NotUnderstood, whole

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node

FILE = "/etc/nccl.conf"
FILES = (NCCL_HOME_FILE, FILE)
"""In the order in which NCCL reads them."""
ANOTHER_FILE = "NCCL_CONF_FILE"
TOPOLOGY = "NCCL_TOPO_FILE"


def lines(facts: NodeFacts, file: str) -> tuple[str, ...]:
    """Return the lines of one of the files; none where there is no such file."""
    return tuple(line.text for line in facts.host_config if line.path == file)


def given(facts: NodeFacts, node: Node, variable: str) -> Iterator[tuple[str, str]]:
    """Yield every place that sets a variable, with its text; the first of them counts."""
    for place, values in (("the inventory's env", node.env), ("the container's env", node.container.env)):
        if values.get(variable):
            yield place, values[variable]
    elsewhere = node.env.get(ANOTHER_FILE) or node.container.env.get(ANOTHER_FILE)
    for file in (FILE,) if elsewhere else FILES:
        for line in lines(facts, file):
            name, equals, value = line.partition("=")
            # With a blank before the sign it is a variable of another name, which NCCL never asks for.
            if equals and name == variable:
                yield file, value.strip()


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


def _number(text: str) -> int | None:
    """Return a number as NCCL reads it (strtoll); of what is none it takes the default."""
    try:
        return whole(text, 16 if "0x" in text.lower() else 10)
    except NotUnderstood:
        return None


def turns_rdma_off(facts: NodeFacts, node: Node) -> str | None:
    """Say which setting keeps NCCL from using RDMA devices at all; None where none does."""
    place, text = next(given(facts, node, "NCCL_IB_DISABLE"), ("", ""))
    if _number(text):
        return f"{place} sets NCCL_IB_DISABLE={text}"
    place, text = next(given(facts, node, "NCCL_NET"), ("", ""))
    return f"{place} sets NCCL_NET={text}" if text.strip().lower() == "socket" else None


def turns_dma_buf_off(facts: NodeFacts, node: Node) -> str | None:
    """Say which setting keeps NCCL from DMA-BUF; None where none does."""
    place, text = next(given(facts, node, "NCCL_DMABUF_ENABLE"), ("", ""))
    return f"{place} sets NCCL_DMABUF_ENABLE={text}" if _number(text) == 0 else None


def turns_gpudirect_off(facts: NodeFacts, node: Node) -> str | None:
    """Say which setting lets NICs reach no GPU, however near; None where none does."""
    place, text = next(given(facts, node, "NCCL_NET_GDR_LEVEL"), ("", ""))
    return f"{place} sets NCCL_NET_GDR_LEVEL={text}" if text.strip().upper() in ("LOC", "0") else None
