"""Run ``up`` and ``down``: all containers start and reach each other, or everything is rolled back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from clusterctl import log
from clusterctl.apply.watch import SILENT, StepWatch
from clusterctl.containers import found
from clusterctl.containers import keys as containers_keys
from clusterctl.containers import record as containers_record
from clusterctl.containers.files import Peer, known_hosts
from clusterctl.containers.session import LABEL, Containers, Ready, Started, wait_ssh
from clusterctl.errors import ConfigError, LaunchError
from clusterctl.facts.document import fleet_to_document
from clusterctl.inventory.model import Inventory, Node
from clusterctl.launch import leftovers
from clusterctl.rundir import RunDir
from clusterctl.text import model_errors
from clusterctl.transport.base import Failure, FailureKind, HostMap, Transport
from clusterctl.transport.fanout import fan_out
from clusterctl.transport.kept import Kept

_LOG = log.get(__name__)
_SSH_TIMEOUT_S = 60.0
_MESH_TIMEOUT_S = 60.0
_ASK = r"""ask() {
  said=$(ssh "$2" ulimit -l 2>&1 </dev/null)
  printf '%s\t%s\t%s\n' "$1" "$?" "$(printf %s "$said" | tr '\n\t' '  ')"
}"""
_ANSWER = re.compile(r"^(\d{1,7})\t(\d{1,7})\t(.*)$")


class UpFailed(LaunchError):
    """Report why ``up`` failed, by node; ``left`` holds the nodes where the rollback failed."""

    def __init__(self, stage: str, failures: Mapping[str, Failure], left: Mapping[str, Failure]) -> None:
        super().__init__(f"{stage} failed on {len(failures)} nodes")
        self.stage = stage
        self.failures = dict(failures)
        self.left = dict(left)


@dataclass(frozen=True, slots=True)
class Container:
    """Hold a running container as a node; ``memlock`` is what ``ulimit -l`` prints there over SSH (KiB)."""

    node: Node
    started: Started
    memlock: str


def bring_up(
    inventory: Inventory,
    connect: Callable[[Node], Transport],
    run: RunDir,
    *,
    port: int,
    fanout: int,
    jump_known_hosts: str,
    progress: Callable[[str], None],
    watch: StepWatch = SILENT,
) -> tuple[Container, ...]:
    """Start a container on every node and write their inventory into the run; on failure roll back, raise UpFailed.

    ``jump_known_hosts``: known_hosts lines of the jump hosts, which connections to the containers also use.
    """
    # A login takes longer than most commands: probing and starting share one connection.
    kept = Kept(fanout)
    containers = Containers(inventory.nodes, kept.over(connect), run.id, port, fanout, kept.release, watch)
    try:
        return _bring_up(containers, inventory, connect, run, jump_known_hosts, progress)
    finally:
        kept.drop()


def _bring_up(
    containers: Containers,
    inventory: Inventory,
    connect: Callable[[Node], Transport],
    run: RunDir,
    jump_known_hosts: str,
    progress: Callable[[str], None],
) -> tuple[Container, ...]:
    progress("probing the nodes")
    probed = containers.probe()
    ready = probed.values_by_node
    run.write("facts", fleet_to_document(probed.map(lambda _, one: one.facts), found.READS))
    problems = {
        name: Failure(FailureKind.ERROR, f"{name}: {problem.message}", problem.hint)
        for name, one in ready.items()
        for problem in one.fitted.problems[:1]
    }
    if probed.failures or problems:
        # Nothing was started yet, so there is nothing to roll back.
        raise UpFailed("looking", {**probed.failures, **problems}, {})
    try:
        return _start(containers, inventory, ready, run, connect, jump_known_hosts, progress)
    except UpFailed as error:
        error.left = _remove(containers, run)
        raise
    except BaseException:
        left = _remove(containers, run)
        for name, failure in left.items():
            _LOG.warning("%s: the container may still exist: %s", name, failure.message)
        raise


def _remove(containers: Containers, run: RunDir) -> dict[str, Failure]:
    left = containers.remove().failures
    if not left:
        containers_record.forget(run)
    return left


def _start(
    containers: Containers,
    inventory: Inventory,
    ready: dict[str, Ready],
    run: RunDir,
    connect: Callable[[Node], Transport],
    jump_known_hosts: str,
    progress: Callable[[str], None],
) -> tuple[Container, ...]:
    keys = {name: containers_keys.make() for name in ready}
    login = containers_keys.make()
    address = {
        n: r.found.address if r.node.connection == "local" else r.node.address for n, r in ready.items()
    }
    peers = [Peer(name, address[name], containers.port, keys[name]) for name in ready]
    containers_record.write_keys(run, login.private, known_hosts(peers) + jump_known_hosts)
    progress("starting containers")
    outcome = containers.start(ready, keys, login)
    if outcome.failures:
        raise UpFailed("starting", outcome.failures, {})
    started = outcome.values_by_node
    nodes = tuple(
        containers_record.container_node(one.node, address[name], containers.port, run.path)
        for name, one in ready.items()
    )
    progress("waiting until the containers accept SSH")

    def answer(node: Node, _: Transport) -> str:
        return wait_ssh(
            connect, node, _SSH_TIMEOUT_S, lambda: containers.explain(node.name, ready[node.name])
        )

    watch = containers.watch
    limits = fan_out(
        nodes, connect, answer, fanout=containers.fanout,
        on_start=lambda node: watch.begun(node.name), on_done=lambda node, _: watch.ended(node.name),
    )  # fmt: skip
    if limits.failures:
        raise UpFailed("reaching", limits.failures, {})
    memlock = {**limits.values_by_node, **_mesh(nodes, connect, progress)}
    containers_record.write(run, nodes, inventory.launcher.value)
    return tuple(Container(node, started[node.name], memlock[node.name]) for node in nodes)


def _mesh(
    nodes: Sequence[Node], connect: Callable[[Node], Transport], progress: Callable[[str], None]
) -> dict[str, str]:
    """Log in from the first container to all others, as mpirun does; return their memlock limits over that path."""
    first, *others = nodes
    if not others:
        return {}
    progress(f"logging in from {first.name} to the others")
    transport = connect(first)
    try:
        done = transport.run(("sh", "-s"), stdin=mesh_script(others), timeout_s=_MESH_TIMEOUT_S)
    finally:
        transport.close()
    said = {int(m[1]): (int(m[2]), m[3]) for line in done.text.splitlines() if (m := _ANSWER.match(line))}
    failures: dict[str, Failure] = {}
    limits: dict[str, str] = {}
    for index, node in enumerate(others):
        status, words = said.get(index, (255, "no answer"))
        if status == 0:
            limits[node.name] = words.strip()
            continue
        failures[node.name] = Failure(
            FailureKind.ERROR,
            f"the container on {first.name} cannot reach the container on {node.name} over SSH: {words}",
            f"open port {node.port} between the nodes, or choose another port with --port",
        )
    if failures:
        raise UpFailed("connecting", failures, {})
    return limits


def mesh_script(others: Sequence[Node]) -> bytes:
    """Return sh text that logs in to all others in parallel and prints a line of index, status and output for each."""
    lines = [_ASK]
    lines += [f"ask {index} {shlex.quote(node.name)} &" for index, node in enumerate(others)]
    return ("\n".join([*lines, "wait"]) + "\n").encode()


def take_down(
    inventory: Inventory,
    connect: Callable[[Node], Transport],
    run: RunDir,
    *,
    fanout: int,
    force: bool,
    watch: StepWatch = SILENT,
) -> HostMap[int]:
    """Remove the containers of a run; delete its inventory and keys if all nodes answered (or with ``force``).

    Also remove what killed launches left on the nodes.
    """
    outcome = Containers(inventory.nodes, connect, run.id, 0, fanout, watch=watch).remove()
    leftovers.sweep(
        [node for node in inventory.nodes if node.name in outcome.values_by_node], connect, fanout
    )
    if not outcome.failures or force:
        containers_record.forget(run)
    return outcome


def nodes_of(run: RunDir) -> Inventory:
    """Return the inventory of the nodes on which a run's containers run; raise LaunchError if the file is damaged."""
    try:
        return Inventory.model_validate(run.read("inventory"))
    except ValidationError as error:
        raise ConfigError(
            f"{run.file('inventory')} is damaged: {model_errors.first(error)}",
            hint=f"run on each node: docker rm -f $(docker ps -aq --filter label={LABEL}={run.id})",
        ) from None
