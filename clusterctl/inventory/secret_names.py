"""Which variables hold secrets, by their names, and an inventory as run folders keep it: without their values."""

from __future__ import annotations

import re
from typing import Any

from clusterctl.inventory.model import Inventory

# HF_TOKEN, AWS_SECRET_ACCESS_KEY, PGPASSWORD, WANDB_API_KEY, REGISTRY_AUTH.
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|KEY$", re.IGNORECASE)
HIDDEN = "***"


def names_a_secret(name: str) -> bool:
    """Tell whether a variable's name says that no command line and no document may show its value."""
    return _SECRET.search(name) is not None


def recorded(inventory: Inventory) -> dict[str, Any]:
    """Return the inventory as values that JSON can hold; the values of secrets read ``***``."""
    document = inventory.model_dump(mode="json")
    for node in document["nodes"]:
        for variables in (node["env"], node["container"]["env"]):
            variables.update({name: HIDDEN for name in variables if names_a_secret(name)})
    return document
