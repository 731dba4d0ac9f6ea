"""The inventory of a person who has none: this machine, reached without SSH."""

from __future__ import annotations

from clusterctl.inventory.model import Inventory, Node


def this_machine() -> Inventory:
    """Return this machine as the one node ``localhost``; its GPUs or cores count as found later."""
    return Inventory(nodes=(Node(name="localhost", address="localhost", connection="local"),))
