"""The inventory's JSON schema, by which editors complete the file; run as a module, it prints it."""

from __future__ import annotations

import json
import sys
from typing import Any

from clusterctl.inventory.model import InventoryFile


def schema() -> dict[str, Any]:
    """Return the schema (JSON Schema draft 2020-12) of what an inventory file may say."""
    generated = InventoryFile.model_json_schema(mode="validation")
    generated["title"] = "clusterctl inventory"
    generated["description"] = "The nodes of a GPU cluster, and their settings."
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **generated}


def text() -> str:
    """Return the schema as the file ``inventories/schema.json`` holds it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
