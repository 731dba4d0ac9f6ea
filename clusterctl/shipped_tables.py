"""Read the YAML tables that clusterctl ships beside its code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read(path: Path) -> Any:
    """Return the contents of a shipped table."""
    # The loader of libyaml, where PyYAML has it, takes a tenth of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return loader(path.read_text(encoding="utf-8")).get_single_data()
