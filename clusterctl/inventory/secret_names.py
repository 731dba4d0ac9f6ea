"""Which variables hold secrets, by their names, and an inventory as run folders keep it: without their values."""

from __future__ import annotations

import re
from typing import Any

from clusterctl.inventory.model import Inventory

# HF_TOKEN, AWS_SECRET_ACCESS_KEY, PGPASSWORD, WANDB_API_KEY, REGISTRY_AUTH, SSHPASS, GPG_PASSPHRASE.
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|_PASS$|SSHPASS$|_PWD$|CREDENTIAL|AUTH|KEY$", re.IGNORECASE
)
# https_proxy=http://me:password@proxy:3128
_LOGIN = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
HIDDEN = "***"


def names_a_secret(name: str, value: str | None = None) -> bool:
    """Tell whether a variable's name, or a password in its URL, says that nothing may show its value."""
    return _SECRET.search(name) is not None or (value is not None and _LOGIN.search(value) is not None)


def recorded(inventory: Inventory) -> dict[str, Any]:
    """Return the inventory as values that JSON can hold; the values of secrets read ``***``."""
    document = inventory.model_dump(mode="json")
    for node in (*document["nodes"], *document["beyond"]):
        for variables in (node["env"], node["container"]["env"]):
            variables.update({n: HIDDEN for n, value in variables.items() if names_a_secret(n, value)})
    return document
