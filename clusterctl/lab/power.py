"""Switch nodes of a lab on and off, and report whether they answer."""

from __future__ import annotations

import logging
import re
import subprocess
import time
from dataclasses import replace

from clusterctl.documents.lab import LabNode
from clusterctl.errors import LabError
from clusterctl.lab import containers, qemu
from clusterctl.lab.model import Lab, LabStatus, NodeStatus, save

# Two guests on two cores without KVM answer in half a minute; a busy machine gets many times that.
SSH_TIMEOUT_S = 600.0
_SSH_ATTEMPT_S = 60.0
_TELL_AFTER_S = 10.0
_BOOTING = re.compile(r"refused|timed out|no answer|reset|closed|banner|kex_exchange")
"""What ssh prints of a node that boots."""
_LOG = logging.getLogger(__name__)


def node_states(lab: Lab) -> LabStatus:
    """Return which nodes of a lab run, and whether SSH answers on them."""
    nodes = []
    for node in lab.nodes:
        running = is_running(lab, node)
        answers = running and _try_ssh(lab, node.name, _SSH_ATTEMPT_S) is None
        nodes.append(NodeStatus(node, running, answers))
    return LabStatus(lab.directory, lab, tuple(nodes))


def kill(lab: Lab, name: str) -> Lab:
    """Cut a node's power, so that it cannot write anything more; return the changed lab."""
    node = lab.node(name)
    if lab.driver == "qemu":
        return _with_node(lab, qemu.kill(node))
    with containers.engine() as client:
        containers.kill(client, node)
    return lab


def start(lab: Lab, name: str, *, timeout_s: float = SSH_TIMEOUT_S) -> Lab:
    """Switch a node on with its previous disk and wait until SSH answers; return the changed lab."""
    node = lab.node(name)
    if is_running(lab, node):
        return lab
    if lab.driver == "qemu":
        lab = _with_node(lab, qemu.start(lab, node))
    else:
        with containers.engine() as client:
            containers.start(client, node)
    wait_ssh(lab, name, timeout_s=timeout_s)
    return lab


def _with_node(lab: Lab, changed: LabNode) -> Lab:
    nodes = tuple(changed if node.name == changed.name else node for node in lab.nodes)
    lab = replace(lab, nodes=nodes)
    save(lab)
    return lab


def is_running(lab: Lab, node: LabNode) -> bool:
    """Return whether a node's guest or container runs."""
    if lab.driver == "qemu":
        return qemu.is_running(node)
    with containers.engine() as client:
        return containers.is_running(client, node)


def wait_ssh(lab: Lab, name: str, *, timeout_s: float = SSH_TIMEOUT_S) -> None:
    """Wait until SSH answers on a node; raise LabError with the end of its log after the timeout.

    Log once what keeps SSH from answering, if that is not the boot of the node.
    """
    node = lab.node(name)
    deadline = time.monotonic() + timeout_s
    tell_at = deadline - timeout_s + _TELL_AFTER_S
    while True:
        problem = _try_ssh(lab, name, min(_SSH_ATTEMPT_S, timeout_s))
        if problem is None:
            return
        running = is_running(lab, node)
        if running and time.monotonic() >= tell_at and not _BOOTING.search(problem):
            tell_at = deadline
            _LOG.warning("%s: %s; trying again for at most %.0f s", name, problem, timeout_s)
        if running and time.monotonic() < deadline:
            time.sleep(0.5)
            continue
        what = f"does not answer SSH after {timeout_s:.0f} s ({problem})" if running else "ended by itself"
        raise LabError(f"{name} {what}\n{_log_tail(lab, node)}".rstrip(), hint="the log above may say why")


def _try_ssh(lab: Lab, name: str, timeout_s: float) -> str | None:
    """Return None when SSH answers on a node with the key that is expected of it, else why it does not."""
    try:
        done = subprocess.run(
            lab.ssh_argv(name, "true"),
            capture_output=True,
            check=False,
            errors="replace",
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {timeout_s:.0f} s"
    return None if done.returncode == 0 else done.stderr.strip()


def _log_tail(lab: Lab, node: LabNode) -> str:
    if lab.driver == "qemu":
        return qemu.console_tail(lab.node_folder(node.name))
    with containers.engine() as client:
        return containers.logs(client, node)
