"""Become root on a node: build the sudo command and supply its password.

The password is written only to the standard input of sudo, and only after sudo has printed this run's random prompt.
The password is never part of a command, an environment, a message or a log.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable

from clusterctl.inventory.model import Become
from clusterctl.transport.base import Failure, FailureKind

PASSWORD_VARIABLE = "CLUSTERCTL_SUDO_PASSWORD"
_NOT_ROOT = "clusterctl: not root, and 'become' set to none"


def as_root_text(inner: str, *, become: Become, user: str | None, prompt: str | None) -> str:
    """Return sh text that runs ``inner`` (sh text) as root.

    ``user`` root needs no sudo; ``auto`` uses sudo if the login is not root; with a ``prompt`` sudo may ask for a
    password.
    """
    if user == "root" and become is not Become.SUDO:
        return inner
    ask = f"-S -p {shlex.quote(prompt)}" if prompt else "-n"
    sudo = f'exec sudo {ask} -H -- sh -c "$1"'
    if become is Become.SUDO:
        return f"set -- {shlex.quote(inner)}; {sudo}"
    otherwise = f"echo {shlex.quote(_NOT_ROOT)} >&2; exit 1" if become is Become.NONE else sudo
    return f'set -- {shlex.quote(inner)}; if [ "$(id -u)" = 0 ]; then eval "$1"; else {otherwise}; fi'


class SudoPassword:
    """The sudo password of a run, asked for at most once and verified on one node before the others receive it.

    A wrong password tried on every node at once would lock a shared account (LDAP). The nodes therefore wait until the
    first one has accepted the password, and do not try it after the first one has refused it.
    """

    def __init__(self, ask: Callable[[], str | None] | None = None) -> None:
        self._ask = ask
        self._value: str | None = os.environ.get(PASSWORD_VARIABLE) or None
        self._asked = self._value is not None
        self._accepted = False
        self._refused_by: str | None = None
        self._tester: str | None = None
        self._turn = threading.Condition()

    def __repr__(self) -> str:
        return "SudoPassword(***)"

    @property
    def available(self) -> bool:
        """Whether a password is set, or can still be asked for."""
        return self._value is not None or (self._ask is not None and not self._asked)

    @property
    def accepted(self) -> str | None:
        """The password, once a node has accepted it."""
        return self._value if self._accepted else None

    def offer(self, where: str, timeout_s: float) -> str | None:
        """Return the password if a node may try it; None if it is missing or known to be wrong.

        Waits up to ``timeout_s`` seconds while another node tries the password.
        """
        with self._turn:
            self._turn.wait_for(
                lambda: self._accepted or self._refused_by is not None or self._tester in (None, where),
                timeout_s,
            )
            if self._refused_by is not None or (self._tester not in (None, where) and not self._accepted):
                return None
            if not self._asked:
                self._asked = True
                self._value = (self._ask() if self._ask else None) or None
            if self._value is not None and not self._accepted:
                self._tester = where
            return self._value

    def settle(self, where: str, accepted: bool | None) -> None:
        """Record whether a node accepted the password; None: unknown, so the next node may try it."""
        with self._turn:
            if accepted:
                self._accepted = True
            elif accepted is False and not self._accepted:
                self._refused_by = where
            if self._tester == where:
                self._tester = None
            self._turn.notify_all()

    @property
    def refused_by(self) -> str | None:
        """The node that refused the password, if any."""
        return self._refused_by


_SET_PASSWORD = f"set {PASSWORD_VARIABLE}, or give the account NOPASSWD in sudoers"
# Messages of sudo (sudo 1.8 - 1.9, plugins/sudoers and src/; sudo-rs 0.2, used by Ubuntu since 25.10), their meaning,
# and a hint.
_KNOWN: tuple[tuple[tuple[str, ...], str, str], ...] = (
    ((_NOT_ROOT,), "root is required, but 'become: none' forbids sudo", "set 'become: auto' for this node"),
    (("must have a tty",), "sudo is set to requiretty and refuses to work without a terminal",
     "remove 'Defaults requiretty' for this account from sudoers"),
    (("not in the sudoers", "not allowed to run", "not allowed to execute", "may not run sudo",
      "I'm afraid I can't do that"),
     "the account may not use sudo for this", "allow it in sudoers, or log in as root"),
    (("password is required", "no password was provided", "no askpass", "terminal is required",
      "authentication is required"),
     "sudo requires a password, but no password was given", _SET_PASSWORD),
    (("account validation failure", "account is locked", "account has expired", "password has expired",
      "password expired"),
     "the account is locked or its password has expired", "renew it on the node"),
    (("sudo: not found", "sudo: command not found", "not found: sudo", "sudo: inaccessible"),
     "the account is not root, and sudo is not installed", "install sudo on the node, or log in as root"),
)  # fmt: skip


def explain(where: str, stderr: str) -> Failure:
    """Return the failure of a sudo that did not start the command, based on sudo's standard error."""
    for needles, meaning, hint in _KNOWN:
        if any(needle in stderr for needle in needles):
            return Failure(FailureKind.SUDO, f"{where}: {meaning}", hint)
    said = " ".join(stderr.split())[-300:] or "nothing"
    return Failure(
        FailureKind.SUDO, f"{where}: sudo did not start the command; it wrote: {said}", _SET_PASSWORD
    )


def refused(where: str, refused_by: str) -> Failure:
    """Return the failure of a node that refused the password, or did not try it because another node refused it."""
    if refused_by == where:
        return Failure(
            FailureKind.SUDO, f"{where}: sudo refused the password", f"correct ${PASSWORD_VARIABLE}"
        )
    return Failure(
        FailureKind.SUDO,
        f"{where}: sudo requires a password; the password was not tried here because {refused_by} refused it",
        f"correct ${PASSWORD_VARIABLE}; nodes with another password need a separate run (--limit)",
    )


def unanswered(where: str) -> Failure:
    """Return the failure of a node whose sudo requires a password while no password is available."""
    return Failure(
        FailureKind.SUDO, f"{where}: sudo requires a password, but no password was given", _SET_PASSWORD
    )
