"""Group commands and options for the help, in the order in which a new user meets them."""

from __future__ import annotations

OF_COMMANDS: dict[str, dict[str, str]] = {
    "Prepare nodes": {
        "inventory": "Write, check, show and import inventories.",
        "check": "Check every node against every requirement; change nothing.",
        "bootstrap": "Plan the missing changes, ask, apply them, and check again.",
        "undo": "Restore the state of the nodes before bootstrap changed them.",
        "requirements": "Describe the requirements: what is checked, why, and the fix.",
        "run": "Run a command on every node.",
    },
    "Measure": {
        "bench": "Measure a collective, or the training of a model.",
        "launch": "Run a program of your own on the nodes, with the proofs of bench.",
        "locate": "Name the node, rail or link that is slow.",
        "accept": "Measure what a cluster must reach, and name the nodes that do.",
        "explain": "Explain the errors in logs: NCCL, MPI, CUDA, ssh, ...",
        "runs": "List, show, compare, export, label and remove runs of all commands.",
    },
    "Containers and images": {
        "up": "Start a container on every node, with SSH between them.",
        "exec": "Run a command in the containers that 'up' started.",
        "down": "Remove what 'up' started: containers, keys and files.",
        "image": "Build, push and prove the image that runs on the nodes.",
    },
    "Launch by hand, rehearse": {
        "render": "Print launch commands and configuration files.",
        "lab": "Virtual nodes for rehearsal: QEMU guests or containers.",
    },
    "clusterctl itself": {
        "help": "Print the help of a command; of clusterctl itself without one.",
        "version": "Print the versions of clusterctl, Python, packages and collective_core.",
        "completion": "Print the completion script of a shell.",
        "config": "Show clusterctl's own settings.",
    },
}
"""The commands under each heading with their summaries, so that the overview imports no command. A test compares."""

OF_OPTIONS = {
    "Nodes": ("--inventory", "--limit", "--containers", "--local", "--fanout", "--accept-new-host-keys"),
    "Requirements and rows": ("--only", "--skip"),
    "What to measure": (
        *("--collective", "--model", "--datatype", "--op", "--rate", "--rate-per-rank", "--bring"),
        *("--compare", "--repeats"),
    ),
    "Ranks": ("--np", "--slots", "--scaling", "--library", "--launcher", "--map-by", "--oversubscribe"),
    "Sizes and iterations": ("--min-bytes", "--max-bytes", "--step-factor", "--iters", "--warmup"),
    "Training": (
        *("--windows", "--batch-size", "--image-size", "--precision", "--channels-last", "--learning-rate"),
        *("--compile", "--bucket-cap-mb", "--phase"),
    ),
    "Acceptance": (
        "--tier",
        "--thresholds",
        "--baseline",
        "--allow-slow-path",
        "--strict",
    ),
    "LightCC and Horovod": (
        *(
            "--two-d/--no-two-d",
            "--intra-size",
            "--two-d-threshold",
            "--topk/--no-topk",
            "--topk-ratio",
            "--topk-threshold",
        ),
        *("--topk-fp16/--no-topk-fp16", "--fusion-threshold", "--cycle-time"),
    ),
    "Output": (
        *(
            "--all",
            "--html",
            "--hostfile-without",
            "--hostfile",
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
