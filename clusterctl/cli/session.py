"""Open a session for commands that contact nodes: inventory, connections and facts."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl import config
from clusterctl.cli import console

if TYPE_CHECKING:
    from clusterctl.cli.host_keys import NewHostKeys
    from clusterctl.facts.gather import OnAnswers
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Inventory, Node
    from clusterctl.requirements.base import Decision
    from clusterctl.transport.base import Failure, HostMap, Transport
    from clusterctl.transport.connect import Connector
    from clusterctl.transport.kept import Kept
    from clusterctl.transport.sudo import Question, SudoPassword


@dataclass(frozen=True, slots=True)
class Session:
    """Hold an inventory and the connection to its nodes."""

    inventory: Inventory
    connector: Connector
    new_keys: NewHostKeys | None
    fanout: int
    command_timeout_s: float
    may_ask_for_root: bool = False
    password: SudoPassword | None = None
    hosts: Mapping[str, NodeFacts] | None = None
    """The facts of the hosts, if the nodes are containers on them and the command shows them; None: they are not."""

    def connected(self) -> Callable[[Node], Transport]:
        """Return what connects to a node; a person is first asked about new host keys, at the first call."""
        if self.new_keys is not None:
            self.new_keys.settle()
        return self.connector

    def refuse_wrong_password(self) -> None:
        """Raise TransportError (``sudo``) if no password of an account was accepted, before anything is changed."""
        from clusterctl.transport.base import TransportError

        failure = None if self.password is None else self.password.failure
        if failure is not None:
            raise TransportError(failure)

    def gather(
        self,
        on_answers: OnAnswers | None = None,
        subjects: frozenset[str] | None = None,
        kept: Kept | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> HostMap[NodeFacts]:
        """Gather the facts of each node (of these subjects; None: all), over one connection and one exec per node.

        A node whose sudo requires a password needs a second exec, if a password was given or can be asked for.
        ``on_answers`` receives the answers of each node, in the node's thread. Connections are taken from ``kept`` and
        put back there; without it they are new. ``meanwhile`` is called once while the first nodes log in.
        """
        from clusterctl.facts.gather_fleet import gather_fleet

        _spare_the_collector()
        _switch_seldom()
        from clusterctl.cli.terminal.progress import Progress, share

        def while_they_log_in() -> None:
            _import_what_follows(any(node.connection == "ssh" for node in self.inventory.nodes))
            if meanwhile is not None:
                meanwhile()

        nodes = self.inventory.nodes
        connect = self.connected()
        with Progress("Gathering facts", len(nodes), "nodes") as progress:
            outcome = gather_fleet(
                nodes,
                connect if kept is None else kept.over(connect),
                fanout=self.fanout,
                timeout_s=self.command_timeout_s,
                escalate=self.may_ask_for_root,
                on_answers=on_answers,
                on_start=lambda node: progress.start(node.name),
                on_done=lambda node, _: progress.advance(node.name),
                subjects=subjects,
                release=None if kept is None else kept.release,
                meanwhile=while_they_log_in,
            )
            progress.done = f"Gathered facts of {share(len(outcome.values_by_node), len(nodes), 'node')}"
        return outcome


def _import_what_follows(over_ssh: bool) -> None:
    """Import the SSH transport, then, while nodes log in, the modules that parse and judge facts (0.2 s)."""
    if over_ssh:
        # All threads wait for this module; other imports at the same time would delay it.
        import_module("clusterctl.transport.ssh.transport")
    for name in ("clusterctl.facts.gather", "clusterctl.requirements.judge", "clusterctl.facts.drift"):
        import_module(name)


def _spare_the_collector() -> None:
    """Collect cyclic garbage rarely: by default it takes an eighth of the time of a fleet's check.

    Modules imported so far stay in memory, and answers of nodes contain no cycles.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _switch_seldom() -> None:
    """Let a working thread keep the interpreter until it waits for its node, for at most a tenth of a second.

    By default, each thread with data to read wakes every 5 ms to request the interpreter: for a hundred threads this
    is a tenth of all work.
    """
    sys.setswitchinterval(0.1)


def open_session(
    inventory: Path | Inventory | None,
    *,
    limit: Sequence[str] | None = None,
    fanout: int | None = None,
    accept_new_host_keys: bool = False,
    action: str = "using",
) -> Session:
    """Load the inventory and prepare connections to its nodes, without contacting a node.

    Without an inventory, print on stderr that the command acts on this machine ("using this machine").
    """
    from clusterctl.cli.named_inventory import named
    from clusterctl.inventory.limit import limited
    from clusterctl.inventory.model import Inventory

    loaded = limited(inventory if isinstance(inventory, Inventory) else named(inventory, action), limit)
    return session_of(loaded, fanout=fanout, accept_new_host_keys=accept_new_host_keys)


def session_of(
    inventory: Inventory,
    *,
    fanout: int | None = None,
    accept_new_host_keys: bool = False,
    again: Sequence[str] | None = None,
) -> Session:
    """Prepare connections to the nodes of a loaded inventory.

    ``again``: the words of the command line that hints name, without the program's; None: as typed.
    """
    from clusterctl.cli.host_keys import NewHostKeys, remedies
    from clusterctl.cli.terminal import interrupt
    from clusterctl.transport.connect import Connector
    from clusterctl.transport.sudo import PASSWORD_VARIABLE

    attended = console.is_attended()
    width = config.resolve(config.FANOUT, fanout).value
    connector = Connector.by_settings(
        accept_new_host_keys=accept_new_host_keys,
        ask_sudo_password=_asking(inventory, width) if attended else None,
        sudo_nodes=min(width, len(inventory.nodes)),
        remedies=remedies(inventory, interrupt.arguments() if again is None else again),
    )
    return Session(
        inventory=inventory,
        connector=connector,
        new_keys=NewHostKeys(connector, inventory.nodes, width, accept_new_host_keys)
        if attended or accept_new_host_keys
        else None,
        fanout=width,
        command_timeout_s=config.resolve(config.COMMAND_TIMEOUT_S).value,
        may_ask_for_root=attended or PASSWORD_VARIABLE in os.environ,
        password=connector.password,
    )


def _asking(inventory: Inventory, fanout: int) -> Callable[[Question], str | None]:
    """Return what asks on the terminal for the sudo password of an account."""
    places = {node.name: place for place, node in enumerate(inventory.nodes)}

    def ask(question: Question) -> str | None:
        from clusterctl.cli.terminal import interrupt
        from clusterctl.inventory import nodeset

        nodes = sorted(question.nodes, key=lambda name: places.get(name, len(places)))
        # Nodes beyond the fan-out are contacted later, and get the password if their sudo requires one.
        others = " and others" if fanout <= len(nodes) < len(places) else ""
        text = f"sudo password for {question.user} on {nodeset.fold(nodes)}{others}: "
        if question.refused_by is not None:
            text = (
                f"sudo refused the password of {question.user} on {question.refused_by}. "
                f"Try again ({question.left} left): "
            )
        answer = console.ask_unseen(text, withdrawn=question.withdrawn)
        if question.withdrawn():
            interrupt.at_question()
        return answer or None

    return ask


def say_failures(failures: Mapping[str, Failure]) -> None:
    """Print each node that failed to stderr, with the reason and what to do."""
    from clusterctl.report.text.failures import failure_lines

    for line in failure_lines(failures):
        console.error(line)


def say_without_root(facts: HostMap[NodeFacts], verdicts: HostMap[tuple[Decision, ...]]) -> None:
    """Print to stderr why root is unavailable on nodes that need it for an unknown verdict."""
    from clusterctl.report.text.failures import rootless_lines

    for line in rootless_lines(facts.values_by_node, verdicts.values_by_node):
        console.talk(line)
