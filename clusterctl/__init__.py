"""Make bare GPU nodes reachable by SSH a proven training cluster."""

from __future__ import annotations

__version__ = "0.1.0"
