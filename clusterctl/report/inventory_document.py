"""The document of ``inventory show``."""

from __future__ import annotations

from typing import Any

from clusterctl.documents.inventory import InventoryNode, InventoryNodes, InventorySetting
from clusterctl.inventory.model import Inventory
from clusterctl.inventory.provenance import NodeSetting, Provenance
from clusterctl.text.secret.scrub import names_a_secret

STARS = "***"


def document_of(inventory: Inventory, provenance: Provenance, *, defaults: bool) -> dict[str, Any]:
    """Return the nodes with the settings that the file sets; with ``defaults`` every setting."""
    nodes = tuple(
        InventoryNode(
            name=node.name, address=node.address, user=node.user, port=node.port, groups=node.groups,
            settings=tuple(
                InventorySetting(key=".".join(one.key), value=_shown(one), origin=one.origin)
                for one in provenance.settings(node)
                if defaults or not one.is_default
            ),
        )
        for node in inventory.nodes
    )  # fmt: skip
    return InventoryNodes(source=inventory.source, launcher=inventory.launcher.value, nodes=nodes).document()


def _shown(setting: NodeSetting) -> Any:
    """Return the value; stars for a variable with a secret name, and for any text that holds a secret."""
    if not isinstance(setting.value, str):
        return setting.value
    is_variable = "env" in setting.key[:-1]
    name = setting.key[-1] if is_variable else ""
    return STARS if names_a_secret(name, setting.value) else setting.value
