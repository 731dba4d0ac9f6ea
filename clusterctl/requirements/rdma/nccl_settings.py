"""Read NCCL's settings as ranks get them: the inventory's environments, the account's file, ``/etc/nccl.conf``.

Source: NCCL user guide, environment variables and configuration files; NCCL's src/misc/param.cc: a variable that is
already set is not overwritten, and ``NCCL_CONF_FILE`` names a file to read instead of the account's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clusterctl.facts.subjects.limits import NCCL_HOME_FILE
from clusterctl.text.foreign import NotUnderstood, whole

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node

FILE = "/etc/nccl.conf"
FILES = (NCCL_HOME_FILE, FILE)
"""The files in the order in which NCCL reads them."""
ANOTHER_FILE = "NCCL_CONF_FILE"
TOPOLOGY = "NCCL_TOPO_FILE"


def lines(facts: NodeFacts, file: str) -> tuple[str, ...]:
    """Return the lines of one of the files; empty when the file does not exist."""
    return tuple(line.text for line in facts.host_config if line.path == file)


def given(facts: NodeFacts, node: Node, variable: str) -> Iterator[tuple[str, str]]:
    """Yield each place that sets a variable, with its text; the first one takes effect."""
    for place, values in (("the inventory's env", node.env), ("the container's env", node.container.env)):
        if values.get(variable):
            yield place, values[variable]
    elsewhere = node.env.get(ANOTHER_FILE) or node.container.env.get(ANOTHER_FILE)
    for file in (FILE,) if elsewhere else FILES:
        for line in lines(facts, file):
            name, equals, value = line.partition("=")
            # NCCL does not strip a blank before "=": the blank becomes part of a name that it never looks up.
            if equals and name == variable:
                yield file, value.strip()


def topology_warnings(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Warn of a topology file on bare metal, where NCCL detects the topology; on a virtual machine it may be needed."""
    found = next(given(facts, node, TOPOLOGY), None)
    if found is None or facts.in_vm is not False:
        return ()
    place, path = found
    said = (
        f"{place} sets {TOPOLOGY}={path}; on bare metal NCCL detects the topology, and a file made for another "
        "machine costs most of the bandwidth (AzNHC #142): unset it"
    )
    return (said,)


def _number(text: str) -> int | None:
    """Return a number as NCCL reads it (strtoll); None for other text, where NCCL uses its default."""
    try:
        return whole(text, 16 if "0x" in text.lower() else 10)
    except NotUnderstood:
        return None


def turns_rdma_off(facts: NodeFacts, node: Node) -> str | None:
    """Return the setting that keeps NCCL from using RDMA devices, with its place; None when no setting does."""
    place, text = next(given(facts, node, "NCCL_IB_DISABLE"), ("", ""))
    if _number(text):
        return f"{place} sets NCCL_IB_DISABLE={text}"
    place, text = next(given(facts, node, "NCCL_NET"), ("", ""))
    return f"{place} sets NCCL_NET={text}" if text.strip().lower() == "socket" else None


def turns_dma_buf_off(facts: NodeFacts, node: Node) -> str | None:
    """Return the setting that keeps NCCL from using DMA-BUF, with its place; None when no setting does."""
    place, text = next(given(facts, node, "NCCL_DMABUF_ENABLE"), ("", ""))
    return f"{place} sets NCCL_DMABUF_ENABLE={text}" if _number(text) == 0 else None


def turns_gpudirect_off(facts: NodeFacts, node: Node) -> str | None:
    """Return the setting that turns GPUDirect RDMA off at any distance, with its place; None when no setting does."""
    place, text = next(given(facts, node, "NCCL_NET_GDR_LEVEL"), ("", ""))
    return f"{place} sets NCCL_NET_GDR_LEVEL={text}" if text.strip().upper() in ("LOC", "0") else None
