"""Print the dependencies of clusterctl, one a line, for pip to install without clusterctl. collective_core has none."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).parents[1] / "pyproject.toml"

if __name__ == "__main__":
    print(*tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"], sep="\n")
