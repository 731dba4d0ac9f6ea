"""The scripting face: a fabric Group whose connections are logged in as clusterctl logs in.

fabric runs the commands and copies the files; host keys, jump hosts, keys, agents and the way to root are those
of ``clusterctl.transport``. The only module that imports fabric.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

# Before fabric: it imports paramiko without what only paramiko's own ssh_config needs.
from clusterctl.transport.paramiko_internals import WIRE_ERRORS, Client, orderly, paramiko  # isort: skip

import fabric

from clusterctl import config as settings
from clusterctl.errors import UsageError
from clusterctl.inventory import load, nodeset
from clusterctl.inventory.limit import limited
from clusterctl.inventory.model import Become, Inventory, Node
from clusterctl.transport.connect import Connector
from clusterctl.transport.ssh.host_keys import Remedies

# fabric has no type hints, so its classes are Any; this module gives them types again.
_CONNECTION: Any = fabric.Connection
_GROUP: Any = fabric.group.Group
_REMOTE: Any = fabric.runners.Remote
_ENDING_S = 1.0
_NOTICE_S = 0.5


class _Client(Client):
    """What fabric opens and closes: paramiko's client over a connection that clusterctl logged in."""

    def __init__(self, connector: Connector, node: Node) -> None:
        super().__init__()
        self._connector = connector
        self._node = node
        self.ssh = connector.over_ssh(node)

    def connect(self, *_: Any, **__: Any) -> None:
        """Log in; what fabric passes is ignored, because the inventory and ssh_config have it."""
        self.use(self.ssh.wire())

    def close(self) -> None:
        """Close the connection and leave its jump host; ``connect`` may follow."""
        self.ssh.close()
        self.use(None)
        self.ssh = self._connector.over_ssh(self._node)


class _Remote(_REMOTE):  # type: ignore[misc]
    """fabric's runner, which reports a lost connection as one instead of as exit status -1."""

    _killed = False

    def start(self, command: str, *arguments: Any, **options: Any) -> None:
        self._command = command
        with self.context.losses(command):
            super().start(command, *arguments, **options)

    def kill(self) -> None:
        """End the command at its deadline, in the thread of invoke's timer."""
        self._killed = True
        # The command's wait ends before the CLOSE is sent, so that the caller may close the connection meanwhile.
        with contextlib.suppress(*WIRE_ERRORS):
            super().kill()

    @property
    def timed_out(self) -> bool:
        """True once the deadline has ended the command. invoke asks whether the timer's thread has ended.

        That thread may still run when the channel that it closed has already ended the command's wait.
        """
        return self._killed

    def returncode(self) -> int:
        status = int(super().returncode())
        if status < 0 and not self.timed_out:
            # paramiko ends the channels a moment before the connection counts as ended.
            self.channel.get_transport().join(_ENDING_S)
            raise self.context.client.ssh.lost(self._command, EOFError())
        return status


class NodeConnection(_CONNECTION):  # type: ignore[misc]
    """A ``fabric.Connection`` to one node of an inventory. ``host`` is the node's name, ``node`` its settings."""

    # invoke takes what a class does not name for a key of its configuration.
    node: Any = None
    _may_sudo = False

    def __init__(self, connector: Connector, node: Node, config: Any) -> None:
        client = _Client(connector, node)
        target = client.ssh.target
        # False: the way there is ours, and no gateway of fabric's configuration.
        super().__init__(node.name, user=target.user, port=target.port, config=config, gateway=False)
        # fabric puts the HostName of an ssh_config here; the inventory's name is the same in every report.
        self.host = node.name
        self.client = client
        self.node = node
        self.config.runners.remote = _Remote

    def open(self) -> Any:
        """Log in unless the connection is open; raise TransportError when the node cannot be used."""
        if not self.is_connected:
            # fabric keeps these of a connection that the node has ended.
            self._sftp = None
            self._may_sudo = False
        return super().open()

    def create_session(self) -> Any:
        """Return a channel for one command; see ``paramiko_internals`` for why it is not paramiko's own."""
        return orderly(super().create_session())

    def sudo(self, command: str, **options: Any) -> Any:
        """Run a command as root, or as ``user``; raise TransportError (``sudo``) when the node does not allow it.

        ``become`` of the inventory decides whether sudo is used. Without ``password``, a password is first tried
        on one node; the others get it when that node has accepted it.
        """
        self.open()
        if options.get("password") is not None:
            return super().sudo(command, **options)
        options.pop("password", None)
        if options.get("user") is None and self._logs_in_as_root():
            return self.run(command, **options)
        if not self._may_sudo:
            self.client.ssh.run(("true",), as_root=True)
            self._may_sudo = True
        return super().sudo(command, password=self.client.ssh.accepted_password, **options)

    def _logs_in_as_root(self) -> bool:
        if self.node.become is Become.SUDO:
            return False
        return self.user == "root" or self.client.ssh.run(("id", "-u")).text.strip() == "0"

    def get(self, *arguments: Any, **options: Any) -> Any:
        """Copy a file from the node; see ``fabric.Connection.get``."""
        with self.losses("a file transfer"):
            return super().get(*arguments, **options)

    def put(self, *arguments: Any, **options: Any) -> Any:
        """Copy a file to the node; see ``fabric.Connection.put``."""
        with self.losses("a file transfer"):
            return super().put(*arguments, **options)

    @contextlib.contextmanager
    def losses(self, program: str) -> Iterator[None]:
        """Raise TransportError for an error inside that comes from the connection's end."""
        try:
            yield
        except WIRE_ERRORS as error:
            # A file that cannot be read is an OSError as well.
            if isinstance(error, OSError) and self.is_connected:
                raise
            raise self.client.ssh.lost(program, error) from None

    def close(self) -> Any:
        """Close the connection, also one that the node has ended; the next command opens it again."""
        try:
            return super().close()
        finally:
            self.transport = None
            self.client.close()


class NodeGroup(_GROUP):  # type: ignore[misc]
    """A ``fabric.Group`` of nodes; results come in inventory order, from up to ``fanout`` nodes at once."""

    fanout = settings.FANOUT.default

    def _do(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call one method on every connection; called by run, sudo, put and get of fabric's Group."""
        if method in ("run", "sudo"):
            # Each byte that is typed would reach only one of the nodes.
            options.setdefault("in_stream", False)
        pool = ThreadPoolExecutor(max(1, min(len(self), self.fanout)), thread_name_prefix="clusterctl-fabric")
        calls = {}
        try:
            for connection in self:
                calls[connection] = pool.submit(getattr(connection, method), *arguments, **options)
            # A signal that comes just before a wait does not end it.
            while wait(calls.values(), _NOTICE_S).not_done:
                pass
        except BaseException:
            for call in calls.values():
                call.cancel()
            self.close()
            raise
        finally:
            pool.shutdown()
        errors = {connection: call.exception() for connection, call in calls.items()}
        results = fabric.GroupResult({c: errors[c] or call.result() for c, call in calls.items()})
        if any(errors.values()):
            raise fabric.exceptions.GroupException(results)
        return results


def group(
    inventory: str | os.PathLike[str] | None = None,
    *,
    limit: str | Sequence[str] | None = None,
    config: Any = None,
    accept_new_host_keys: bool = False,
) -> Any:
    """Return a ``fabric.Group`` of an inventory's nodes; no node is contacted before the first command.

    ``inventory`` None: $CLUSTERCTL_INVENTORY, or ``inventory.yaml``. ``limit``: node and group names, as ``--limit``.
    ``config``: a ``fabric.Config``, such as ``c.config`` of a task; None: the one that fabric reads from its files.
    Raise InventoryError for a file that is not a valid inventory, UsageError for a limit that names no node of it or
    for a node with ``connection: local``, and ConfigError for a setting or an ssh_config that cannot be read.
    """
    loaded = limited(load.load(Path(inventory) if inventory is not None else None), limit)
    _refuse_local(loaded)
    # The transport reads ssh_config; fabric would apply its ProxyJump and HostName a second time.
    shared = config if config is not None else fabric.Config(ssh_config=paramiko.SSHConfig())
    password = shared.sudo.password
    connector = Connector.by_settings(
        accept_new_host_keys=accept_new_host_keys,
        remedies=Remedies(accept="accept_new_host_keys=True"),
        # One try: the next answer would be the same.
        ask_sudo_password=(lambda question: None if question.refused_by else str(password))
        if password is not None
        else None,
    )
    nodes = NodeGroup.from_connections(NodeConnection(connector, n, shared.clone()) for n in loaded.nodes)
    nodes.fanout = settings.resolve(settings.FANOUT).value
    return nodes


def _refuse_local(inventory: Inventory) -> None:
    local = [node.name for node in inventory.nodes if node.connection == "local"]
    if local:
        where = inventory.source or "without an inventory"
        raise UsageError(
            f"{where}: {nodeset.fold(local)} has 'connection: local', and fabric reaches nodes only over SSH",
            hint="leave it out with limit=..., or remove 'connection: local' and let it accept SSH",
        )
