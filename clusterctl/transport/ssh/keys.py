"""Choose the keys to offer to a server and their order, and explain a refused login.

Loading and signing are done by paramiko; ``login`` passes the functions in.
"""

from __future__ import annotations

import base64
import os
import shlex
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from clusterctl.text import user_files
from clusterctl.transport.base import Failure, FailureKind, TransportError
from clusterctl.transport.ssh.target import Target


class Key(Protocol):
    """A private key, in a file or in an agent."""

    def get_name(self) -> str: ...
    def get_base64(self) -> str: ...


class KeyProblem(Exception):
    """A key cannot be used; the message gives the reason in a few words."""


class AuthenticationEnded(Exception):
    """The server ended the authentication; no further key can be tried."""


AGENT_ONLY = "of a kind that only an agent can use, such as one on a hardware token"
"""The message for a key whose file is only a handle."""
_OTHERS = 0o077
_PUBLIC = "it is a public key, name the file without .pub"
_NEW_FORMAT = "-----BEGIN OPENSSH PRIVATE KEY-----"


def refuse_open_to_others(path: str) -> None:
    """Raise KeyProblem if other users may read one's own key, which ssh rejects as well (sshkey_perm_ok)."""
    info = Path(path).stat()
    if info.st_uid == os.getuid() and info.st_mode & _OTHERS:
        raise KeyProblem(f"others may read it (mode {stat.S_IMODE(info.st_mode):04o}), so ssh rejects it")


def not_a_private_key(path: str, error: Exception) -> str:
    """Return why a file cannot be read as a private key."""
    try:
        start = user_files.read(path, user_files.KEY_BYTES)[:40]
    except OSError:
        start = b""
    if start.startswith((b"ssh-", b"ecdsa-sha2-", b"sk-")):
        return f"cannot be read as a private key: {_PUBLIC}"
    return f"cannot be read as a private key ({type(error).__name__})"


class KeyRing:
    """Private keys, each read from its file once per run. Threads may share one."""

    def __init__(self, load: Callable[[str], Key]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._keys: dict[str, Key | KeyProblem] = {}

    def key(self, path: str) -> Key:
        """Return the key in a file; raise KeyProblem if it cannot be used."""
        with self._lock:
            if path not in self._keys:
                try:
                    self._keys[path] = self._load(path)
                except KeyProblem as problem:
                    self._keys[path] = problem
            found = self._keys[path]
        if isinstance(found, KeyProblem):
            raise found
        return found


def authenticate(
    target: Target,
    ring: KeyRing,
    agent_keys: Callable[[], Sequence[Key]],
    attempt: Callable[[Key], str | None],
) -> None:
    """Log in with the first key that the server accepts; raise TransportError (``auth``) if it rejects all.

    ``attempt`` returns None if a key was accepted, else the reason. As with OpenSSH, configured keys come before the
    agent's keys, and the default keys of ~/.ssh come after them. The agent is contacted only if needed.
    """
    tried: list[str] = []
    order = ("files", "agent") if target.identities_named else ("agent", "files")
    try:
        for source in order:
            keys = (
                _from_files(target, ring, tried)
                if source == "files"
                else _from_agent(target, agent_keys, tried)
            )
            for label, key in keys:
                reason = attempt(key)
                if reason is None:
                    return
                tried.append(f"{label}: {reason}")
    except AuthenticationEnded as ended:
        tried.append(f"the server ended the authentication: {ended}")
    raise TransportError(_failure(target, tried))


def _from_files(target: Target, ring: KeyRing, tried: list[str]) -> list[tuple[str, Key]]:
    usable = []
    for path in target.identities:
        try:
            key = ring.key(path)
        except KeyProblem as problem:
            tried.append(f"{path}: {problem}")
        else:
            usable.append((f"{path} ({key.get_name()})", key))
    return usable


def _from_agent(
    target: Target, agent_keys: Callable[[], Sequence[Key]], tried: list[str]
) -> list[tuple[str, Key]]:
    try:
        keys = list(agent_keys())
    except KeyProblem as problem:
        tried.append(f"ssh-agent: {problem}")
        return []
    if not keys:
        tried.append("ssh-agent: no keys")
        return []
    # Keys that belong to a configured identity come first, because servers allow few attempts.
    wanted = {half: path for path in target.identities for half in _public_halves(path)}
    matching = [key for key in keys if key.get_base64() in wanted]
    others = [] if target.identities_only else [key for key in keys if key.get_base64() not in wanted]
    held = {wanted[key.get_base64()] for key in matching}
    # A configured public key means the matching private key in the agent.
    tried[:] = [said for said in tried if not (said.endswith(_PUBLIC) and said.partition(": ")[0] in held)]
    return [(f"ssh-agent ({key.get_name()})", key) for key in (*matching, *others)]


def _public_halves(path: str) -> list[str]:
    """Return the public keys (base64) of an identity: in the file itself or in the .pub file next to it."""
    found = []
    for place in (path, f"{path}.pub"):
        try:
            text = user_files.read_text(place, user_files.KEY_BYTES, errors="replace")
        except OSError:
            continue
        fields = text.split()
        if text.startswith(_NEW_FORMAT):
            found += _within(text)
        elif len(fields) > 1 and not text.startswith("-----"):
            found.append(fields[1])
    return found


def _within(text: str) -> list[str]:
    """Return the public key in a private key of OpenSSH's own format, which stores it unencrypted.

    Format (PROTOCOL.key of OpenSSH): a magic word, three strings (cipher, kdf and its options), the number of keys, and
    the public keys.
    """
    body = text.partition(_NEW_FORMAT)[2].partition("-----")[0]
    try:
        data = base64.b64decode("".join(body.split()), validate=True).removeprefix(b"openssh-key-v1\0")
        for _ in range(3):
            data = data[4 + int.from_bytes(data[:4], "big") :]
    except ValueError:
        return []
    size = int.from_bytes(data[4:8], "big")
    return [base64.b64encode(data[8 : 8 + size]).decode()]


def _failure(target: Target, tried: list[str]) -> Failure:
    if any("passphrase" in reason for reason in tried):
        hint = "add the key to ssh-agent with ssh-add; clusterctl does not ask for passphrases"
    elif any(AGENT_ONLY in reason for reason in tried):
        hint = "plug the token in and add its key to ssh-agent with ssh-add"
    elif exposed := [
        reason.partition(": others may read it")[0] for reason in tried if "others may" in reason
    ]:
        hint = f"chmod 600 {shlex.join(exposed)}"
    elif any("cannot be read" in reason for reason in tried):
        hint = "fix identity_file in the inventory, or IdentityFile in ssh_config"
    else:
        hint = (
            f"add the public key to {target.user}'s ~/.ssh/authorized_keys, or check user and identity_file"
        )
    return Failure(
        FailureKind.AUTH,
        f"{target.where}: login as {target.user} refused; tried {'; '.join(tried) or 'no key'}",
        hint,
    )
