"""Host key policy: reject changed keys, and reject unknown keys or record them on request."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shlex
import stat
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterctl import log
from clusterctl.rundir import own_file
from clusterctl.text import user_files
from clusterctl.text.openssh.known_hosts import (
    Forgotten,
    Judgement,
    KnownHosts,
    KnownHostsLine,
    Verdict,
    fingerprint,
    hashed_name,
    host_name,
    line,
    without,
)
from clusterctl.text.openssh.reader import lines
from clusterctl.transport.base import Failure, FailureKind, TransportError

_log = log.get(__name__)
_KRL = b"SSHKRL\n\0"
"""How a key revocation list begins (PROTOCOL.krl of OpenSSH)."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """What hints about host keys tell to type: ``accept`` records new keys, ``forget`` is followed by a node set."""

    accept: str = "--accept-new-host-keys"
    forget: str = "clusterctl inventory forget-host-keys --limit"


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
    """Whether the host is a HostKeyAlias, which is a name of known_hosts only."""
    node: str | None = None
    """The node's name; None for a jump host, which no inventory names."""

    @property
    def is_kept(self) -> bool:
        """Whether a new key can be recorded."""
        return self.files[0] != os.devnull


class HostKeyPolicy:
    """Judges the keys that servers present. Files are read once; threads may share a policy."""

    def __init__(self, *, accept_new: bool = False, remedies: Remedies | None = None) -> None:
        self._accept_new = accept_new
        self._remedies = remedies or Remedies()
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

    def judge(self, shown: ShownKey) -> Judgement:
        """Return the verdict of the files on a key; raise TransportError if RevokedHostKeys lists it."""
        if shown.revoked_in is not None:
            with self._lock:
                if shown.revoked_in not in self._revoked:
                    self._revoked[shown.revoked_in] = _revoked_keys(shown, shown.revoked_in)
                revoked = self._revoked[shown.revoked_in]
            if shown.key in revoked:
                raise TransportError(_failure_of_revoked(shown, shown.revoked_in))
        return _judge(self.known(shown.files), shown)

    def verify(self, shown: ShownKey) -> None:
        """Return if the key is trusted; raise TransportError if it is not.

        Raises ControllerFileError if a new key cannot be recorded.
        """
        judgement = self.judge(shown)
        if judgement.verdict is Verdict.UNKNOWN and self._accept_new:
            if self.record([shown]):
                _log.warning("%s: recorded its %s in %s", shown.where, described(shown), shown.files[0])
                return
            judgement = self.judge(shown)
        if judgement.verdict is not Verdict.KNOWN:
            raise TransportError(self._failure(shown, judgement))

    def record(self, keys: Sequence[ShownKey]) -> list[ShownKey]:
        """Add new keys to the first of their files, exactly as they were shown, and return those that were added.

        A server that another run has recorded since then is not added again, also with another key. Raises
        ControllerFileError if a file cannot be written.
        """
        added: list[ShownKey] = []
        with self._lock:
            for path in dict.fromkeys(shown.files[0] for shown in keys):
                added += self._record_in(Path(path), [shown for shown in keys if shown.files[0] == path])
        return added

    def _record_in(self, path: Path, keys: Sequence[ShownKey]) -> list[ShownKey]:
        hint = f"free space there and make the file writable, or record the key of {keys[0].where} with ssh-keyscan"
        added: list[ShownKey] = []
        with locked(path, hint) as descriptor:
            # Another run may have recorded these servers since the files were read, perhaps with other keys.
            self._loaded.clear()
            try:
                text = user_files.read(path, user_files.KNOWN_HOSTS_BYTES)
            except user_files.UnfitFileError as unfit:
                raise _unreadable(unfit) from None
            first = new = b"\n" if text and not text.endswith(b"\n") else b""
            number = (text + new).count(b"\n")
            for shown in keys:
                known = self._known(shown.files)
                if _judge(known, shown).verdict is not Verdict.UNKNOWN:
                    continue
                name = host_name(shown.host, shown.port)
                entry = line(f"{shown.key_type} {shown.key}", hashed_name(name) if shown.hash_name else name)
                known.add_text(entry, str(path), first_line=(number := number + 1))
                new += f"{entry}\n".encode()
                added.append(shown)
            # One write to an append-only descriptor is atomic for readers of the file.
            with own_file(path, hint):
                if new != first:
                    _append(descriptor, new)
        return added

    def _failure(self, shown: ShownKey, judgement: Judgement) -> Failure:
        entry, where = judgement.entry, shown.where
        if judgement.verdict is Verdict.UNKNOWN or entry is None:
            return self._unknown(shown, entry)
        place = f"{entry.file}:{entry.line}"
        if judgement.verdict is Verdict.REVOKED:
            return _failure_of_revoked(shown, place)
        forget = (
            shlex.join(("ssh-keygen", "-f", entry.file, "-R", host_name(shown.host, shown.port)))
            if shown.node is None
            else f"{self._remedies.forget} '{shown.node}'"
        )
        recorded = f"{entry.key_type} {fingerprint(entry.key)}"
        return Failure(
            FailureKind.HOST_KEY_CHANGED,
            f"{where}: its {described(shown)} is not the one recorded at {place} ({recorded})",
            f"if the node was reinstalled, forget the old key: `{forget}`; "
            "if it was not, the connection may be intercepted",
        )

    def _unknown(self, shown: ShownKey, authority: KnownHostsLine | None) -> Failure:
        unusable = (
            f"; {authority.file}:{authority.line} names an authority, but host certificates are not supported"
            if authority is not None
            else ""
        )
        if not shown.is_kept:
            return Failure(
                FailureKind.HOST_KEY_UNKNOWN,
                f"{shown.where}: its {described(shown)} is unknown: known_hosts, or UserKnownHostsFile of ssh_config, "
                f"is {os.devnull}",
                "name a regular file with known_hosts in the inventory or CLUSTERCTL_KNOWN_HOSTS, or accept the key "
                f"each time: `{self._remedies.accept}`",
            )
        named = f" as {shown.host}" if shown.is_alias else ""
        kind = shown.key_type.removeprefix("ssh-").split("-")[0]
        return Failure(
            FailureKind.HOST_KEY_UNKNOWN,
            f"{shown.where}: its {described(shown)} is not in {shown.files[0]}{named}{unusable}",
            "compare the fingerprint with the node's own (on its console: ssh-keygen -lf "
            f"/etc/ssh/ssh_host_{kind}_key.pub), then record it: `{self._remedies.accept}`",
        )


def _loaded(files: tuple[str, ...]) -> KnownHosts:
    try:
        return KnownHosts(files)
    except user_files.UnfitFileError as unfit:
        raise _unreadable(unfit) from None


def _unreadable(unfit: user_files.UnfitFileError) -> TransportError:
    return TransportError(
        Failure(
            FailureKind.ERROR,
            f"host keys cannot be looked up: {unfit.filename} cannot be read: {unfit.strerror}",
            f"{unfit.hint}; known_hosts in the inventory, CLUSTERCTL_KNOWN_HOSTS or ssh_config names this file",
        )
    )


@contextlib.contextmanager
def locked(path: Path, hint: str) -> Iterator[int]:
    """Open a known_hosts file to append to it, and hold its lock against other runs of clusterctl.

    Raises ControllerFileError, with ``hint``, if the file cannot be opened.
    """
    while True:
        with own_file(path, hint):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # ``forget`` replaces the file: the lock of the removed one protects nothing.
            if _is_still(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def forget(path: Path, names: Collection[str]) -> Forgotten:
    """Remove the keys of servers (names of ``host_name``) from a file; its other lines keep their bytes.

    The file is replaced as a whole, with its mode and owner; a link to it stays. As in OpenSSH, a file that is missing
    or cannot be read has no keys. Raises ControllerFileError if the file cannot be written.
    """
    place = Path(os.path.realpath(path))
    hint = "make the file and its directory writable, or remove the lines as the file's owner"
    try:
        found = without(user_files.read(place, user_files.KNOWN_HOSTS_BYTES), names)
    except user_files.UnfitFileError as unfit:
        raise _unreadable(unfit) from None
    except OSError:
        return Forgotten(b"", (), 0, ())
    if not found.lines:
        return found
    with locked(place, hint) as descriptor, own_file(place, hint):
        while True:
            before = os.fstat(descriptor)
            found = without(user_files.read(place, user_files.KNOWN_HOSTS_BYTES), names)
            replacement = _written_beside(place, found.text, before)
            after = os.fstat(descriptor)
            # ssh appends without a lock.
            if (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns):
                replacement.replace(place)
                return found
            replacement.unlink()


def _written_beside(place: Path, text: bytes, like: os.stat_result) -> Path:
    """Write a file next to ``place``, with mode and owner of ``like``, and return its path."""
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), stat.S_IMODE(like.st_mode))
            if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(stream.fileno(), like.st_uid, like.st_gid)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


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


def described(shown: ShownKey) -> str:
    """Return type and fingerprint of a key in words."""
    return f"{shown.key_type} host key {fingerprint(shown.key)}"
