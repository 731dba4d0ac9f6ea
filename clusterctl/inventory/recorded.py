"""Inventories without secrets, as run folders and recordings store them."""

from __future__ import annotations

from typing import Any

from clusterctl.inventory.model import Inventory
from clusterctl.text.secret.scrub import names_a_secret, scrubbed_value

HIDDEN = "***"


def recorded(inventory: Inventory) -> dict[str, Any]:
    """Return the inventory without secrets, as values that JSON can represent and that form a valid inventory.

    Variables with secrets become ``***``; in all other texts (a container's command, an image reference) each byte
    of a secret becomes a star.
    """
    document = inventory.model_dump(mode="json")
    for node in (*document["nodes"], *document["beyond"]):
        for variables in (node["env"], node["container"]["env"]):
            variables.update({n: HIDDEN for n, value in variables.items() if names_a_secret(n, value)})
    return {name: scrubbed_value(value) for name, value in document.items()}
