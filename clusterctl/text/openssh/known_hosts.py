"""Write lines of known_hosts, parse its files into an index, and judge host keys by OpenSSH's rules (sshd(8)).

Keys are kept as the base64 text of the file; equal keys have equal text.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import hmac
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from clusterctl.text import user_files
from clusterctl.text.openssh.patterns import any_like, is_pattern
from clusterctl.text.openssh.reader import lines

SSH_PORT = 22
MAX_NAMES = 1 << 20
"""Limit of server names over all files: 65,536 nodes with three keys, a name and an address need 393,216."""


@dataclass(frozen=True, slots=True)
class KnownHostsLine:
    """One line: its place, its marker (``@revoked``, ``@cert-authority`` or none), key type and key."""

    file: str
    line: int
    marker: str | None
    key_type: str
    key: str


class Verdict(str, Enum):
    """The status of a key according to the files."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and the line that decided it."""

    verdict: Verdict
    entry: KnownHostsLine | None = None


def host_name(host: str, port: int) -> str:
    """Return the name that known_hosts uses for a server."""
    return host.lower() if port == SSH_PORT else f"[{host.lower()}]:{port}"


def line(key: str, *names: str) -> str:
    """Return a server's line, without a newline; ``key`` is ``type base64``, a name is one of ``host_name``."""
    return f"{','.join(names)} {key}"


def hashed_name(name: str) -> str:
    """Return a name in the form that ``HashKnownHosts yes`` writes."""
    salt = os.urandom(20)
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def fingerprint(key: str) -> str:
    """Return ``SHA256:...`` of a base64 key, as ssh-keygen -l shows it."""
    try:
        digest = hashlib.sha256(base64.b64decode(key, validate=True)).digest()
    except ValueError:
        return "(not base64)"
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _fields(line: str) -> tuple[str | None, str, str, str] | None:
    """Return marker, names, key type and key of a line; None for a comment or a malformed line."""
    fields = line.split(None, 4)
    if not fields or fields[0].startswith("#"):
        return None
    marker = fields.pop(0) if fields[0].startswith("@") else None
    if len(fields) < 3 or (marker is not None and marker not in ("@revoked", "@cert-authority")):
        return None
    return marker, fields[0], fields[1], fields[2]


def _hashed_parts(hosts: str) -> tuple[bytes, bytes] | None:
    """Return salt and digest of a hashed name."""
    parts = hosts.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return None
    try:
        return base64.b64decode(parts[2]), base64.b64decode(parts[3])
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A file without the keys of some servers: its bytes, the names that had a key, and the lines that stay.

    ``patterns`` are the numbers of lines whose wildcards cover one of the servers, and others with them.
    """

    text: bytes
    names: tuple[str, ...]
    lines: int
    patterns: tuple[int, ...]


def without(text: bytes, names: Collection[str]) -> Forgotten:
    """Remove each line that has the key of a server (names of ``host_name``), as ``ssh-keygen -R`` does.

    All other lines keep their bytes, among them revoked keys, authorities and names with wildcards.
    """
    wanted = {name.lower(): name.lower().encode() for name in names}
    kept: list[bytes] = []
    patterns: list[int] = []
    found: set[str] = set()
    removed = 0
    # The same line ends as those that ``user_files.read_text`` translates.
    for number, whole in enumerate(text.splitlines(keepends=True), 1):
        fields = _fields(whole.decode(errors="replace").rstrip("\r\n"))
        hosts = fields[1] if fields is not None and fields[0] is None else ""
        if is_pattern(hosts):
            if any(any_like(name, hosts.lower().split(",")) for name in wanted):
                patterns.append(number)
        elif mine := _named_in(hosts, wanted):
            found |= mine
            removed += 1
            continue
        kept.append(whole)
    return Forgotten(
        b"".join(kept), tuple(name for name in wanted if name in found), removed, tuple(patterns)
    )


def _named_in(hosts: str, wanted: Mapping[str, bytes]) -> set[str]:
    """Return the wanted names that the names of a line, plain or hashed, stand for."""
    if not hosts.startswith("|"):
        return {name for name in hosts.lower().split(",") if name in wanted}
    hashed = _hashed_parts(hosts)
    if hashed is None:
        return set()
    salt, digest = hashed
    return {name for name, encoded in wanted.items() if hmac.digest(salt, encoded, "sha1") == digest}


class KnownHosts:
    """The entries of several files, indexed by name; a missing or unreadable file counts as empty.

    Raises UnfitFileError if a file is not a regular file, is larger than KNOWN_HOSTS_BYTES, or has too many names.
    """

    def __init__(self, files: Iterable[str] = ()) -> None:
        self._exact: dict[str, list[KnownHostsLine]] = {}
        self._hashed: list[tuple[bytes, bytes, KnownHostsLine]] = []
        self._patterns: list[tuple[str, KnownHostsLine]] = []
        self._names = 0
        self._found: dict[str, tuple[KnownHostsLine, ...]] = {}
        for file in files:
            try:
                text = user_files.read_text(file, user_files.KNOWN_HOSTS_BYTES, errors="replace")
            except user_files.UnfitFileError:
                raise
            except OSError:
                # As in OpenSSH, a missing or unreadable file contributes no keys.
                continue
            self.add_text(text, file)

    def add_text(self, text: str, file: str, first_line: int = 1) -> None:
        """Index the lines of a file; malformed lines are skipped, as OpenSSH does."""
        self._found.clear()
        for number, line in enumerate(lines(text), first_line):
            found = _fields(line)
            if found is None:
                continue
            marker, hosts, key_type, key = found
            self._names += 1 + hosts.count(",")
            if self._names > MAX_NAMES:
                raise user_files.UnfitFileError(
                    errno.EFBIG,
                    f"line {number} exceeds {MAX_NAMES} names; expected at most that many over all files",
                    file,
                    "remove the lines of servers that no longer exist, or name a separate file for this fleet",
                )
            self._index(hosts, KnownHostsLine(file, number, marker, key_type, key))

    def _index(self, hosts: str, entry: KnownHostsLine) -> None:
        if hosts.startswith("|"):
            hashed = _hashed_parts(hosts)
            if hashed is not None:
                self._hashed.append((*hashed, entry))
            return
        if is_pattern(hosts):
            self._patterns.append((hosts.lower(), entry))
            return
        for name in hosts.lower().split(","):
            if name:
                self._exact.setdefault(name, []).append(entry)

    def entries(self, name: str) -> tuple[KnownHostsLine, ...]:
        """Return all entries for a server (a name of ``host_name``)."""
        # Cached, because each hashed line costs a digest per lookup, and each server is looked up three times.
        # Concurrent lookups of one name give the same result.
        if name not in self._found:
            self._found[name] = tuple(self._look_up(name))
        return self._found[name]

    def _look_up(self, name: str) -> list[KnownHostsLine]:
        found = list(self._exact.get(name, ()))
        if self._hashed:
            encoded = name.encode()
            found += [e for salt, digest, e in self._hashed if hmac.digest(salt, encoded, "sha1") == digest]
        return found + [entry for hosts, entry in self._patterns if any_like(name, hosts.split(","))]

    def key_types(self, name: str) -> tuple[str, ...]:
        """Return the key types recorded for a server, so that one of them can be requested."""
        return tuple(dict.fromkeys(e.key_type for e in self.entries(name) if e.marker is None))

    def judge(self, host: str, port: int, key_type: str, key: str) -> Judgement:
        """Return the verdict of the files on the key that a server presented."""
        named = self.entries(host_name(host, port))
        bare = self.entries(host_name(host, SSH_PORT)) if port != SSH_PORT else named
        for entry in (*named, *bare):
            if entry.marker == "@revoked" and entry.key == key:
                return Judgement(Verdict.REVOKED, entry)
        plain = [entry for entry in named if entry.marker is None]
        for entry in plain:
            if entry.key == key:
                return Judgement(Verdict.KNOWN, entry)
        if plain:
            same_type = [entry for entry in plain if entry.key_type == key_type]
            return Judgement(Verdict.CHANGED, (same_type or plain)[0])
        # As in OpenSSH, a server on another port is trusted if the bare name has exactly this key.
        for entry in bare:
            if entry.marker is None and entry.key == key:
                return Judgement(Verdict.KNOWN, entry)
        authority = next((entry for entry in named if entry.marker == "@cert-authority"), None)
        return Judgement(Verdict.UNKNOWN, authority)
