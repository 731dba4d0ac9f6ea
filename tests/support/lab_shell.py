"""Commands in the containers that are a lab's nodes, past SSH and whatever a test has done to it."""

from __future__ import annotations

from collections.abc import Callable

from clusterctl.lab import Lab, containers


def on_node_of(lab: Lab) -> Callable[[str, str], str]:
    """Return a function that runs a shell command on a node by its name, and gives its output, stripped."""

    def run(node: str, command: str) -> str:
        with containers.engine() as client:
            done = client.containers.get(lab.node(node).container_id).exec_run(["sh", "-c", command])
        return str(done.output.decode().strip())

    return run
