"""Turn bare GPU nodes that answer SSH into a proven training cluster."""

from __future__ import annotations

__version__ = "0.1.0"
