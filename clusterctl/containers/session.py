"""Probe nodes for containers; create, start, verify and remove the containers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from clusterctl.apply.watch import SILENT, StepWatch
from clusterctl.artifacts.docker_run import docker_run_argv
from clusterctl.containers import files, found
from clusterctl.containers.fit import Fitted, Found, fit
from clusterctl.containers.keys import Ed25519KeyPair
from clusterctl.errors import LaunchError
from clusterctl.facts.gather import gather
from clusterctl.facts.model.node import NodeFacts
from clusterctl.images.engine import hint as engine_hint
from clusterctl.images.on_node import EngineInfo, NodeEngine, NodeImage, brief, open_engine, require
from clusterctl.inventory.model import Node
from clusterctl.text.secret.scrub import names_a_secret
from clusterctl.text.typed_inventory import filled
from clusterctl.transport.answers import understanding
from clusterctl.transport.base import Failure, FailureKind, HostMap, Transport
from clusterctl.transport.fanout import fan_out

T = TypeVar("T")
LABEL = "clusterctl.up"
_PROBE_TIMEOUT_S = 60.0
_CREATE_TIMEOUT_S = 300.0
_REMOVE_TIMEOUT_S = 120.0
_LOG_LINES = 8

# Part of docker's message when it cannot start a container, its meaning, and what to do. The first match is used.
_REFUSALS: tuple[tuple[str, str, str], ...] = (
    ("sshd\": no such file", "the image has no /usr/sbin/sshd", "install openssh-server in the image"),
    ("sshd: no such file", "the image has no /usr/sbin/sshd", "install openssh-server in the image"),
    ("setting rlimit", "the container engine may not raise that limit",
     "lower container.memlock or container.stack in the inventory, or set them to null for the engine's default"),
    ("unable to apply caps", "the container engine may not grant that capability",
     "remove it from container.cap_add, and unset container.privileged"),
    ("could not select device driver", "docker cannot give GPUs to containers",
     "run clusterctl bootstrap INVENTORY --only container-toolkit"),
    ("error gathering device information", "a device of container.devices was not found",
     "fix container.devices in the inventory"),
    ("is already in use by container", "a container of that name already exists", "run clusterctl down"),
    ("no such image", "the container engine does not have the image",
     "run clusterctl image distribute"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ready:
    """Hold a probed node: its engine, image and facts, what they show, and the container settings that fit."""

    node: Node
    as_root: bool
    info: EngineInfo
    image: NodeImage | None
    facts: NodeFacts
    found: Found
    fitted: Fitted


@dataclass(frozen=True, slots=True)
class Started:
    """Hold a started container; ``line`` is the equivalent docker run line."""

    node: str
    container_id: str
    line: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(slots=True)
class Containers:
    """Manage the containers of one ``up`` (``run_id``) on one set of nodes."""

    nodes: Sequence[Node]
    connect: Callable[[Node], Transport]
    run_id: str
    port: int
    fanout: int = 64
    release: Callable[[Transport], None] | None = None
    """Receives each connection without failures, so that the next step can reuse it; None: connections are closed."""
    watch: StepWatch = SILENT
    _ids: dict[str, str] = field(default_factory=dict)

    def _on_all(self, nodes: Sequence[Node], work: Callable[[Node, Transport], T]) -> HostMap[T]:
        return fan_out(
            nodes, self.connect, work, fanout=self.fanout, release=self.release,
            on_start=lambda node: self.watch.begun(node.name), on_done=lambda node, _: self.watch.ended(node.name),
        )  # fmt: skip

    def probe(self) -> HostMap[Ready]:
        """Probe every node; reasons why its container cannot start are in ``fitted.problems``."""

        def work(node: Node, transport: Transport) -> Ready:
            engine = open_engine(transport, LaunchError)
            wish = node.container
            image = engine.image(wish.image) if wish.image is not None else None
            taken = None
            if wish.name is not None:
                pattern = f"name=^/{re.escape(wish.name)}$"
                words = ("container", "ls", "-aq", "--no-trunc", "--filter", pattern)
                what = f"{transport.node}: docker cannot list its containers"
                taken = require(engine.docker(*words), what, LaunchError).split()
            values = found.values(node, engine.info)
            facts = gather(transport, node, _PROBE_TIMEOUT_S, subjects=found.READS, values=values, sudo=False)
            with understanding(node.name, "what it has for a container"):
                there = found.of_facts(node, facts, taken[0] if taken else None)
            fitted = fit(node, there, engine.info, image, self.port)
            return Ready(node, engine.as_root, engine.info, image, facts, there, fitted)

        return self._on_all(self.nodes, work)

    def start(
        self, ready: Mapping[str, Ready], keys: Mapping[str, Ed25519KeyPair], login: Ed25519KeyPair
    ) -> HostMap[Started]:
        """Create and start a container on every node; each holds the SSH settings of all others before it starts."""
        peers = [files.Peer(n, r.found.address, self.port, keys[n]) for n, r in ready.items()]

        def work(node: Node, transport: Transport) -> Started:
            one = ready[node.name]
            own = next(peer for peer in peers if peer.name == node.name)
            return self._start(NodeEngine(transport, one.as_root, one.info), one, own, peers, login)

        return self._on_all([one.node for one in ready.values()], work)

    def _start(
        self,
        engine: NodeEngine,
        ready: Ready,
        own: files.Peer,
        peers: Sequence[files.Peer],
        login: Ed25519KeyPair,
    ) -> Started:
        container = ready.fitted.container
        image = ready.image
        assert image is not None
        flags = ["--label", f"{LABEL}={self.run_id}"]
        if image.user not in ("", "root", "0"):
            flags += ["--user", "0:0"]
        line = docker_run_argv(container, command=files.COMMAND, flags=flags)
        # docker reads the values of secrets from standard input, so that no process list shows them.
        secret = {n: v for n, v in container.env.items() if names_a_secret(n, v)}
        shown = container.model_copy(
            update={"env": {n: v for n, v in container.env.items() if n not in secret}}
        )
        text, notes = env_file(secret)
        if text:
            flags += ["--env-file", "/dev/stdin"]
        _, _, *words = docker_run_argv(shown, command=files.COMMAND, flags=flags)
        # docker create has no -d: it never attaches.
        words = [word for word in words if word != "-d"]
        made = engine.docker("create", *words, stdin=text, timeout_s=_CREATE_TIMEOUT_S)
        name = engine.transport.node
        if made.returncode != 0:
            raise refusal(name, made.error_text)
        container_id = made.text.split()[-1]
        self._ids[name] = container_id
        env = files.environment(image.env, container.env)
        copied = engine.docker("cp", "-", f"{container_id}:/", stdin=files.archive(own, peers, login, env))
        if copied.returncode != 0:
            raise refusal(name, copied.error_text)
        begun = engine.docker("start", container_id, timeout_s=_CREATE_TIMEOUT_S)
        if begun.returncode != 0:
            raise refusal(name, begun.error_text)
        return Started(name, container_id, line, (*ready.fitted.notes, *notes))

    def explain(self, name: str, ready: Ready) -> Failure | None:
        """Return why a container ended, with its last log lines; None while it runs."""
        transport = self.connect(ready.node)
        try:
            engine = NodeEngine(transport, ready.as_root, ready.info)
            state = engine.docker("container", "inspect", "-f", "{{.State.Running}}", self._ids[name])
            if state.text.strip() == "true":
                return None
            said = engine.docker("logs", "--tail", str(_LOG_LINES), self._ids[name])
            words = brief(said.error_text + said.text)
        finally:
            transport.close()
        if "address already in use" in words.lower():
            return Failure(
                FailureKind.ERROR, f"{name}: port {self.port} is in use", "choose another port with --port"
            )
        return Failure(
            FailureKind.ERROR,
            f"{name}: the container ended right after its start: {words}",
            "start the image on that node with docker run to see why",
        )

    def remove(self) -> HostMap[int]:
        """Remove every container of this ``up`` with its anonymous volumes; return the number of containers by node."""

        def work(_: Node, transport: Transport) -> int:
            engine = open_engine(transport, LaunchError)
            words = ("container", "ls", "-aq", "--no-trunc", "--filter", f"label={LABEL}={self.run_id}")

            def mine() -> list[str]:
                # If docker cannot list its containers, some may still exist.
                what = f"{transport.node}: docker cannot list the remaining containers"
                return require(engine.docker(*words), what, LaunchError).split()

            ids = mine()
            if ids:
                done = engine.docker("rm", "-f", "-v", *ids, timeout_s=_REMOVE_TIMEOUT_S)
                left = mine() if done.returncode != 0 else []
                if left:
                    raise LaunchError(
                        f"{transport.node}: container {left[0][:12]} cannot be removed: {brief(done.error_text)}",
                        hint=f"run docker rm -f {left[0][:12]} on that node",
                    )
            return len(ids)

        return self._on_all(self.nodes, work)


def env_file(secret: Mapping[str, str]) -> tuple[bytes, tuple[str, ...]]:
    """Return secrets as docker's env file, one per line, and notes on the values that span several lines.

    docker would take further lines of a value for variable names and repeat them in its messages. SSH sessions still
    get such values, because their environment is a file that clusterctl writes.
    """
    lines = {name: value for name, value in secret.items() if len(value.splitlines()) < 2}
    notes = tuple(
        f"{name} spans several lines: it is set in SSH sessions, but not in docker exec"
        for name in secret
        if name not in lines
    )
    return "".join(f"{name}={value}\n" for name, value in lines.items()).encode(), notes


def refusal(node: str, said: str) -> LaunchError:
    """Return the error for docker's message after it failed to create or start a container."""
    words = brief(said)
    for needle, meaning, advice in _REFUSALS:
        if needle in words.lower():
            return LaunchError(f"{node}: {meaning} ({words})", hint=filled(advice))
    return LaunchError(f"{node}: docker cannot start the container: {words}", hint=engine_hint(words))


def wait_ssh(
    connect: Callable[[Node], Transport], node: Node, timeout_s: float, gone: Callable[[], Failure | None]
) -> str:
    """Wait until a container accepts SSH, and return its memlock limit as ``ulimit -l`` prints it.

    ``gone`` returns why the container ended, or None. Raise LaunchError if it ended, TransportError if it does not
    answer within ``timeout_s`` seconds.
    """
    from clusterctl.transport.base import TransportError

    deadline = time.monotonic() + timeout_s
    while True:
        transport = connect(node)
        try:
            done = transport.run(("sh", "-c", "ulimit -l"), timeout_s=30.0)
            return done.text.strip()
        except TransportError as error:
            ended = gone()
            if ended is not None:
                raise LaunchError(ended.message, hint=ended.hint) from None
            if error.failure.kind is not FailureKind.REFUSED or time.monotonic() > deadline:
                raise
        finally:
            transport.close()
        time.sleep(0.2)
