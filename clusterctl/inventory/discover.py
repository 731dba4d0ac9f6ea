"""The default inventory without a file: this machine, without SSH."""

from __future__ import annotations

from clusterctl.inventory.model import Inventory, Node


def this_machine() -> Inventory:
    """Return an inventory with this machine as its only node, ``localhost``; GPUs and cores are detected later."""
    return Inventory(nodes=(Node(name="localhost", address="localhost", connection="local"),))
