"""Render a health check for Slurm's Prolog and HealthCheckProgram: ``accept`` on the node itself."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl import resources
from clusterctl.artifacts import shell


def script(words: Sequence[str]) -> str:
    """Return the script; ``words`` are the options of ``accept``."""
    return resources.text("templates", "slurm", "healthcheck.sh").replace("@WORDS@", shell.line(tuple(words)))
