"""Group commands and options for the help, in the order in which a new user meets them."""

from __future__ import annotations

OF_COMMANDS = {
    "Prepare nodes": ("inventory", "check", "bootstrap", "undo", "requirements", "run"),
    "Measure": ("bench", "locate", "results", "explain", "runs"),
    "Containers and images": ("up", "exec", "down", "image"),
    "Launch by hand, rehearse": ("render", "lab"),
    "clusterctl itself": ("help", "version", "completion", "config"),
}
"""The commands under each heading; those that are not listed follow under "Commands"."""

OF_OPTIONS = {
    "Nodes": ("--inventory", "--limit", "--containers", "--local", "--fanout", "--accept-new-host-keys"),
    "Requirements": ("--only", "--skip"),
    "What to measure": ("--collective", "--model", "--datatype", "--op", "--compare", "--repeats"),
    "Ranks": ("--np", "--slots", "--scaling", "--library", "--launcher", "--map-by", "--oversubscribe"),
    "Sizes and iterations": ("--min-bytes", "--max-bytes", "--step-factor", "--iters", "--warmup"),
    "Training": (
        *("--windows", "--batch-size", "--image-size", "--precision", "--channels-last", "--learning-rate"),
        *("--compile", "--bucket-cap-mb", "--phase"),
    ),
    "Acceptance": ("--baseline", "--allow-slow-path", "--strict"),
    "Output": (
        *(
            "--all",
            "--html",
            "--hostfile-without",
            "--junit",
            "--prometheus",
            "--record",
            "--output",
            "--format",
        ),
        *("--runs", "--json"),
    ),
}
"""The options under each heading; those that are not listed stand under "Options"."""


def heading_of(spellings: tuple[str, ...]) -> str:
    """Return the heading of an option."""
    return next(
        (heading for heading, listed in OF_OPTIONS.items() if set(listed) & set(spellings)), "Options"
    )
