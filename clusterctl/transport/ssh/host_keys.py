"""Host key policy: reject changed keys, and reject unknown keys or record them on request."""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from clusterctl import log, user_files
from clusterctl.rundir import own_file
from clusterctl.ssh_text.known_hosts import (
    Judgement,
    KnownHosts,
    KnownHostsLine,
    Verdict,
    fingerprint,
    hashed_name,
    host_name,
    line,
)
from clusterctl.ssh_text.reader import lines
from clusterctl.transport.base import Failure, FailureKind, TransportError

_log = log.get(__name__)
_KRL = b"SSHKRL\n\0"
"""How a key revocation list begins (PROTOCOL.krl of OpenSSH)."""
ACCEPT_FLAG = "--accept-new-host-keys"


def accepting_command(argv: list[str] | None = None) -> str:
    """Return the command line of this process with the flag that records unknown host keys."""
    words = list(sys.argv if argv is None else argv)[1:]
    at = words.index("--") if "--" in words else len(words)
    return shlex.join(("clusterctl", *words[:at], ACCEPT_FLAG, *words[at:]))


@dataclass(frozen=True, slots=True)
class ShownKey:
    """The key (base64) that a server presented, and the known_hosts files; new keys are added to the first one."""

    where: str
    host: str
    port: int
    key_type: str
    key: str
    files: tuple[str, ...]
    hash_name: bool = False
    revoked_in: str | None = None
    """The file of RevokedHostKeys."""
    is_alias: bool = False
    """Whether the host is a HostKeyAlias, a name of known_hosts only, which ssh-keyscan cannot contact."""


class HostKeyPolicy:
    """Judges the keys that servers present. Files are read once; threads may share a policy."""

    def __init__(self, *, accept_new: bool = False) -> None:
        self._accept_new = accept_new
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, ...], KnownHosts] = {}
        self._revoked: dict[str, frozenset[str]] = {}

    def known(self, files: tuple[str, ...]) -> KnownHosts:
        """Return these files' entries."""
        with self._lock:
            return self._known(files)

    def _known(self, files: tuple[str, ...]) -> KnownHosts:
        if files not in self._loaded:
            self._loaded[files] = _loaded(files)
        return self._loaded[files]

    def verify(self, shown: ShownKey) -> None:
        """Return if the key is trusted; raise TransportError if it is not.

        Raises ControllerFileError if a new key cannot be recorded.
        """
        if shown.revoked_in is not None:
            with self._lock:
                if shown.revoked_in not in self._revoked:
                    self._revoked[shown.revoked_in] = _revoked_keys(shown, shown.revoked_in)
                revoked = self._revoked[shown.revoked_in]
            if shown.key in revoked:
                raise TransportError(_failure_of_revoked(shown, shown.revoked_in))
        judgement = _judge(self.known(shown.files), shown)
        if judgement.verdict is Verdict.UNKNOWN and self._accept_new:
            with self._lock:
                judgement = self._record(shown)
        if judgement.verdict is not Verdict.KNOWN:
            raise TransportError(_failure(shown, judgement))

    def _record(self, shown: ShownKey) -> Judgement:
        path, name = Path(shown.files[0]), host_name(shown.host, shown.port)
        hint = f"free space there and make the file writable, or record the key of {shown.where} with ssh-keyscan"
        with own_file(path, hint):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Another run may have recorded this server since the files were read, perhaps with another key.
            self._loaded[shown.files] = known = _loaded(shown.files)
            judgement = _judge(known, shown)
            if judgement.verdict is not Verdict.UNKNOWN:
                return judgement
            text = user_files.read(path, user_files.KNOWN_HOSTS_BYTES)
            entry = (
                line(f"{shown.key_type} {shown.key}", hashed_name(name) if shown.hash_name else name) + "\n"
            )
            # One write to an append-only descriptor is atomic for readers of the file.
            with own_file(path, hint):
                _append(descriptor, (b"\n" if text and not text.endswith(b"\n") else b"") + entry.encode())
            known.add_text(entry, str(path), first_line=text.count(b"\n") + 1)
        finally:
            os.close(descriptor)
        _log.warning(
            "%s: recorded its %s host key %s in %s", shown.where, shown.key_type, fingerprint(shown.key), path
        )
        return _judge(known, shown)


def _loaded(files: tuple[str, ...]) -> KnownHosts:
    try:
        return KnownHosts(files)
    except user_files.UnfitFileError as unfit:
        raise TransportError(
            Failure(
                FailureKind.ERROR,
                f"host keys cannot be looked up: {unfit.filename} cannot be read: {unfit.strerror}",
                f"{unfit.hint}; known_hosts in the inventory, CLUSTERCTL_KNOWN_HOSTS or ssh_config names this file",
            )
        ) from None


def _append(descriptor: int, data: bytes) -> None:
    """Append all of the data or nothing, because a partial line would corrupt the next recorded one."""
    size = os.fstat(descriptor).st_size
    try:
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _revoked_keys(shown: ShownKey, path: str) -> frozenset[str]:
    """Return the revoked keys in a list of public keys; as with ssh, an unreadable list makes every login fail."""
    try:
        data = user_files.read(path, user_files.KNOWN_HOSTS_BYTES)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    else:
        if not data.startswith(_KRL):
            found = (text.split() for text in lines(data.decode(errors="replace")))
            return frozenset(
                word for words in found if words[:1] and words[0][0] != "#" for word in words[:2]
            )
        problem = "is a binary KRL, which only ssh can read"
    raise TransportError(
        Failure(
            FailureKind.ERROR,
            f"{shown.where}: {path} (RevokedHostKeys in ssh_config) {problem}",
            "set RevokedHostKeys to a text file with one public key per line",
        )
    )


def _failure_of_revoked(shown: ShownKey, place: str) -> Failure:
    return Failure(
        FailureKind.HOST_KEY_CHANGED,
        f"{shown.where}: its {shown.key_type} host key {fingerprint(shown.key)} is marked as revoked at {place}",
        "create new host keys on the node; if it did not present this key, the connection may be intercepted",
    )


def _judge(known: KnownHosts, shown: ShownKey) -> Judgement:
    return known.judge(shown.host, shown.port, shown.key_type, shown.key)


def _failure(shown: ShownKey, judgement: Judgement) -> Failure:
    entry, where = judgement.entry, shown.where
    its = f"its {shown.key_type} host key {fingerprint(shown.key)}"
    if judgement.verdict is Verdict.UNKNOWN or entry is None:
        return _unknown(shown, its, entry)
    place = f"{entry.file}:{entry.line}"
    if judgement.verdict is Verdict.REVOKED:
        return _failure_of_revoked(shown, place)
    remove = shlex.join(("ssh-keygen", "-f", entry.file, "-R", host_name(shown.host, shown.port)))
    recorded = f"{entry.key_type} {fingerprint(entry.key)}"
    return Failure(
        FailureKind.HOST_KEY_CHANGED,
        f"{where}: {its} is not the one recorded at {place} ({recorded})",
        f"if the node was reinstalled, remove the old key: `{remove}`; "
        "if it was not, the connection may be intercepted",
    )


def _unknown(shown: ShownKey, its: str, authority: KnownHostsLine | None) -> Failure:
    unusable = (
        f"; {authority.file}:{authority.line} names an authority, but host certificates are not supported"
        if authority is not None
        else ""
    )
    if shown.files[0] == os.devnull:
        return Failure(
            FailureKind.HOST_KEY_UNKNOWN,
            f"{shown.where}: {its} is unknown: known_hosts, or UserKnownHostsFile of ssh_config, is {os.devnull}",
            "name a regular file with known_hosts in the inventory or CLUSTERCTL_KNOWN_HOSTS, or run "
            f"`{accepting_command()}` each time",
        )
    named = f" as {shown.host}" if shown.is_alias else ""
    kind = shown.key_type.removeprefix("ssh-").split("-")[0]
    scan = f" or `ssh-keyscan -p {shown.port} {shlex.quote(shown.host)} >> {shlex.quote(shown.files[0])}`"
    return Failure(
        FailureKind.HOST_KEY_UNKNOWN,
        f"{shown.where}: {its} is not in {shown.files[0]}{named}{unusable}",
        "compare the fingerprint with the node's own (on its console: ssh-keygen -lf "
        f"/etc/ssh/ssh_host_{kind}_key.pub), then run `{accepting_command()}`{'' if shown.is_alias else scan}",
    )
