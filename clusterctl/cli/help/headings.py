"""Group the commands for the top-level help, in the order in which a new user meets them."""

from __future__ import annotations

HEADINGS = {
    "Prepare nodes": ("inventory", "check", "bootstrap", "undo", "requirements", "run"),
    "Measure": ("bench", "results", "explain", "runs"),
    "Containers and images": ("up", "exec", "down", "image"),
    "Launch by hand, rehearse": ("render", "lab"),
    "clusterctl itself": ("help", "version", "completion", "config"),
}
"""The commands under each heading; those that are not listed follow under "Commands"."""
