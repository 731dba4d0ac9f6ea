"""Create the Transport of a node, local or SSH, and share what is read once per run."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING

from clusterctl import config
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Transport
from clusterctl.transport.exchange import MAX_OUTPUT_BYTES
from clusterctl.transport.sudo import Ask, SudoPassword

if TYPE_CHECKING:
    from clusterctl.transport.ssh.host_keys import Remedies
    from clusterctl.transport.ssh.session import SshSession
    from clusterctl.transport.ssh.transport import SshTransport


class Connector:
    """Creates transports, which contact their nodes at the first command.

    ``connect_timeout_s`` in seconds; None: ssh_config's ConnectTimeout, else 10 s. ``ask_sudo_password`` is called for
    each user name whose sudo requires a password, if $CLUSTERCTL_SUDO_PASSWORD is unset; see ``SudoPassword``.
    ``remedies`` are the commands that hints about host keys name.
    """

    def __init__(
        self,
        *,
        accept_new_host_keys: bool = False,
        connect_timeout_s: float | None = None,
        ask_sudo_password: Ask | None = None,
        sudo_nodes: int = 1,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        remedies: Remedies | None = None,
    ) -> None:
        self._accept_new = accept_new_host_keys
        self._remedies = remedies
        self._connect_timeout_s = connect_timeout_s
        self.password = SudoPassword(ask_sudo_password, expected=sudo_nodes)
        self._max_output_bytes = max_output_bytes
        self._lock = threading.Lock()
        self._session: SshSession | None = None

    def __call__(self, node: Node) -> Transport:
        """Return the transport of one node."""
        if node.connection == "local":
            from clusterctl.transport.local import LocalTransport

            return LocalTransport(node, password=self.password, max_output_bytes=self._max_output_bytes)
        return self.over_ssh(node)

    @classmethod
    def by_settings(
        cls,
        *,
        accept_new_host_keys: bool = False,
        ask_sudo_password: Ask | None = None,
        sudo_nodes: int = 1,
        remedies: Remedies | None = None,
    ) -> Connector:
        """Return one that waits for a node as long as the settings say (option, environment, ``config.yaml``)."""
        timeout = config.resolve(config.CONNECT_TIMEOUT_S)
        return cls(
            accept_new_host_keys=accept_new_host_keys,
            # ssh_config's ConnectTimeout has precedence over the default.
            connect_timeout_s=None if timeout.origin == "default" else timeout.value,
            ask_sudo_password=ask_sudo_password,
            sudo_nodes=sudo_nodes,
            remedies=remedies,
        )

    def over_ssh(self, node: Node) -> SshTransport:
        """Return the SSH connection to one node, whatever its ``connection`` is."""
        from clusterctl.transport.ssh.transport import SshTransport

        return SshTransport(self.session(), node)

    def session(self) -> SshSession:
        """Return what all SSH connections share."""
        # Importing paramiko takes 0.1 s, so only runs with SSH nodes import it.
        from clusterctl.transport.ssh.session import SshSession

        with self._lock:
            if self._session is None:
                self._session = SshSession(
                    accept_new_host_keys=self._accept_new,
                    connect_timeout_s=self._connect_timeout_s,
                    password=self.password,
                    max_output_bytes=self._max_output_bytes,
                    remedies=self._remedies,
                )
            return self._session

    def close(self) -> None:
        """Close the connections to jump hosts; connections to nodes are closed with their transports."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()

    def __enter__(self) -> Connector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
