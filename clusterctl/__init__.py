"""Turn bare GPU nodes that answer SSH into a proven training cluster."""

from __future__ import annotations

__version__ = "0.1.0"
DOCUMENTATION = "docs/README.md in the source tree"
"""Where the guides are, as the help states it."""
