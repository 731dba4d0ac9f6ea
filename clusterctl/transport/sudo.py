"""Become root on a node: build the sudo command and supply its password.

The password is written only to the standard input of sudo, and only after sudo has printed this run's random prompt.
The password is never part of a command, an environment, a message or a log.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from clusterctl.inventory.model import Become
from clusterctl.transport.base import Failure, FailureKind, TransportError

T = TypeVar("T")
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


TRIES = 3
"""How often a person may type the password of an account."""
_QUIET_S = 1.0
_LONGEST_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Question:
    """Ask for the password of an account; ``refused_by`` is the node that refused the answer before.

    ``withdrawn`` reports whether the run was interrupted, so that the answer has no use.
    """

    user: str
    nodes: tuple[str, ...]
    refused_by: str | None
    left: int
    withdrawn: Callable[[], bool]


Ask = Callable[[Question], "str | None"]


class _Account:
    """The password of one user name, and how far its check on one node has come."""

    def __init__(self, user: str, value: str | None) -> None:
        self.user = user
        self.value = value
        self.typed = value is None
        self.accepted_by: str | None = None
        self.refused_by: str | None = None
        self.refusing: set[str] = set()
        """The nodes that refused the password; none of them gets it a second time."""
        self.left = TRIES
        self.ended = False
        """Whether no password will be accepted: none was given, or the last try was refused."""
        self.asking = False
        self.tester: NodePassword | None = None
        self.waiting: list[NodePassword] = []


class SudoPassword:
    """The sudo passwords of a run: each account's is asked for once, and verified on one node before others receive it.

    A wrong password tried on every node at once would lock a shared account (LDAP). The nodes therefore wait until one
    of them has accepted the password. $CLUSTERCTL_SUDO_PASSWORD is the password of every account; without it, ``ask``
    is called for each user name, up to three times. ``expected`` is the number of nodes that may need a password at
    the same time: the first question waits a moment for them, so that it can name them.
    """

    def __init__(self, ask: Ask | None = None, *, expected: int = 1) -> None:
        self._ask = ask
        self._expected = expected
        self._variable = os.environ.get(PASSWORD_VARIABLE) or None
        self._accounts: dict[str, _Account] = {}
        self._turn = threading.Condition()
        self._terminal = threading.Lock()

    def __repr__(self) -> str:
        return "SudoPassword(***)"

    def of(self, user: str, node: str) -> NodePassword:
        """Return what one connection to a node needs: the password of its user."""
        with self._turn:
            account = self._accounts.setdefault(user, _Account(user, self._variable))
        return NodePassword(self, account, node)

    @property
    def failure(self) -> Failure | None:
        """Why no password of an account was accepted; None if none was refused."""
        with self._turn:
            for account in self._accounts.values():
                if account.ended and account.refused_by is not None:
                    return _refused(account, "")
        return None

    def _may_answer(self, account: _Account) -> bool:
        return account.value is not None or (self._ask is not None and not account.ended)

    def _offer(self, one: NodePassword, timeout_s: float) -> str | None:
        account = one.account
        with self._turn:
            account.waiting.append(one)
            self._turn.notify_all()
            try:
                if not self._is_first(one, timeout_s):
                    may = account.accepted_by is not None and one.node not in account.refusing
                    return account.value if may and not one.withdrawn else None
                if account.value is not None:
                    return account.value
                if account.refused_by is None:
                    self._await_others(one)
                account.asking = True
                nodes = tuple(dict.fromkeys(other.node for other in account.waiting))
            finally:
                account.waiting.remove(one)
        question = Question(account.user, nodes, account.refused_by, account.left, lambda: one.withdrawn)
        value = None
        try:
            with self._terminal:
                if self._ask is not None and not one.withdrawn:
                    value = self._ask(question) or None
        finally:
            with self._turn:
                account.asking = False
                account.value = value
                if value is None:
                    account.ended, account.tester = True, None
                self._turn.notify_all()
        return value

    def _is_first(self, one: NodePassword, timeout_s: float) -> bool:
        """Wait until this node may test the password, and reserve the test; return False if it need or must not."""
        account = one.account
        limit = time.monotonic() + timeout_s
        while not (account.accepted_by or account.ended or one.withdrawn):
            if account.tester in (None, one):
                account.tester = one
                return True
            now = time.monotonic()
            if account.asking:
                limit = now + timeout_s
            elif now >= limit:
                break
            self._turn.wait(min(_QUIET_S, max(0.01, limit - now)))
        return False

    def _await_others(self, one: NodePassword) -> None:
        """Wait until every expected node waits as well, or none has joined for a second."""
        began = last = time.monotonic()
        joined = 0
        while not one.withdrawn:
            count = sum(len(account.waiting) for account in self._accounts.values())
            now = time.monotonic()
            if count != joined:
                joined, last = count, now
            if count >= self._expected or now - last >= _QUIET_S or now - began >= _LONGEST_WAIT_S:
                return
            self._turn.wait(_QUIET_S / 10)

    def _settle(self, one: NodePassword, accepted: bool | None) -> None:
        account = one.account
        with self._turn:
            again = False
            if accepted:
                account.accepted_by = account.accepted_by or one.node
            elif accepted is False:
                if account.accepted_by is not None:
                    account.refusing.add(one.node)
                else:
                    account.refused_by = one.node
                    account.left -= 1
                    again = self._ask is not None and account.typed and account.left > 0
                    if again:
                        account.value = None
                    else:
                        account.ended = True
            if account.tester is one and not again:
                account.tester = None
            self._turn.notify_all()

    def _withdraw(self, one: NodePassword) -> None:
        with self._turn:
            one.withdrawn = True
            self._turn.notify_all()


class NodePassword:
    """The sudo password as one connection sees it; ``where`` in messages is the connection's."""

    def __init__(self, shared: SudoPassword, account: _Account, node: str) -> None:
        self._shared = shared
        self.account = account
        self.node = node
        self.withdrawn = False

    def __repr__(self) -> str:
        return "NodePassword(***)"

    @property
    def available(self) -> bool:
        """Whether a password is set, or can still be typed, also while the question is open."""
        return self._shared._may_answer(self.account)

    @property
    def accepted(self) -> str | None:
        """The password, once a node has accepted it."""
        return self.account.value if self.account.accepted_by is not None else None

    def offer(self, timeout_s: float) -> str | None:
        """Return the password if this node may try it; None if it is missing or known to be wrong.

        Waits while a person types it, and up to ``timeout_s`` seconds while another node tests it.
        """
        return self._shared._offer(self, timeout_s)

    def settle(self, accepted: bool | None) -> None:
        """Record whether the node accepted the password; None: unknown, so the next node may test it."""
        self._shared._settle(self, accepted)

    def retried(self, run: Callable[[], T]) -> T:
        """Run a command, and again while the node refuses a typed password and the next one may be typed."""
        account = self.account
        try:
            while True:
                try:
                    return run()
                except TransportError as error:
                    if error.failure.kind is not FailureKind.SUDO or account.tester is not self:
                        raise
                    if account.value is not None or account.ended or self.withdrawn:
                        raise
        finally:
            if account.tester is self:
                self.settle(None)

    def withdraw(self) -> None:
        """Stop waiting for the password, in whatever thread that happens; safe to call at any time."""
        self._shared._withdraw(self)

    def failure(self, where: str) -> Failure:
        """Return why this node gets no password, or why it refused the one it got."""
        account = self.account
        if account.accepted_by is not None:
            return Failure(
                FailureKind.SUDO,
                f"{where}: {REFUSED} of {account.user}, which {account.accepted_by} accepted",
                "run the command with --limit for nodes with another password",
            )
        if account.refused_by is not None:
            return _refused(account, f"{where}: ")
        return Failure(FailureKind.SUDO, f"{where}: {_MISSING}", _SET_PASSWORD)


REFUSED = "sudo refused the password"
_MISSING = "sudo requires a password, but no password was given"
_SET_PASSWORD = f"set {PASSWORD_VARIABLE}, or give the account NOPASSWD in sudoers"
_WRONG = ("incorrect password", "incorrect authentication", "Authentication failed")
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
     _MISSING, _SET_PASSWORD),
    (("account validation failure", "account is locked", "account has expired", "password has expired",
      "password expired"),
     "the account is locked or its password has expired", "renew it on the node"),
    (("sudo: not found", "sudo: command not found", "not found: sudo", "sudo: inaccessible"),
     "the account is not root, and sudo is not installed", "install sudo on the node, or log in as root"),
)  # fmt: skip


def is_refusal(stderr: str) -> bool:
    """Return whether a sudo that allows one try (passwd_tries) ended because the password was wrong."""
    return any(text in stderr for text in _WRONG)


def explain(where: str, stderr: str) -> Failure:
    """Return the failure of a sudo that did not start the command, based on sudo's standard error."""
    for needles, meaning, hint in _KNOWN:
        if any(needle in stderr for needle in needles):
            return Failure(FailureKind.SUDO, f"{where}: {meaning}", hint)
    said = " ".join(stderr.split())[-300:] or "nothing"
    return Failure(
        FailureKind.SUDO, f"{where}: sudo did not start the command; it wrote: {said}", _SET_PASSWORD
    )


def _refused(account: _Account, where: str) -> Failure:
    """Return the failure of every node of an account whose password one node refused."""
    origin, fix = "", f"type the sudo password of {account.user}"
    if not account.typed:
        origin, fix = f" (${PASSWORD_VARIABLE})", f"correct or unset ${PASSWORD_VARIABLE}"
    return Failure(
        FailureKind.SUDO,
        f"{where}{REFUSED} of {account.user}{origin} on {account.refused_by}",
        f"{fix}; it was tried on {account.refused_by} only, so that no shared account is locked",
    )
