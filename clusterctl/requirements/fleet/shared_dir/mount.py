"""Mount a shared directory at its path: the systemd mount unit, its name and options, the mount point; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusterctl import resources
from clusterctl.facts.model.services import mount_target
from clusterctl.requirements.fleet.addresses import literal
from clusterctl.requirements.rendering import render
from clusterctl.requirements.steps import Command

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.facts.model.services import Mount
    from clusterctl.facts.model.sharing import MountUnit

UNIT_FOLDER = "/etc/systemd/system"
WAY_UNIT = f"{UNIT_FOLDER}/clusterctl-way-to@.service"
"""The unit that waits at boot until a server is reachable."""
BIND = "bind"
"""The options of a unit that binds a directory of the same node."""
_AUTOMOUNT = "autofs"
_REMOTE = ("nfs", "nfs4")
_VERSION = ("vers=", "nfsvers=", "v3", "v4")


def unit_name(path: str) -> str:
    """Return the unit name that systemd requires for a mount point (systemd.unit(5), systemd-escape --path)."""
    escaped = [
        "-"
        if c == "/"
        else c
        if re.fullmatch(r"[A-Za-z0-9:_.]", c)
        else "".join(f"\\x{b:02x}" for b in c.encode())
        for c in mount_target(path).strip("/")
    ]
    if escaped[:1] == ["."]:
        escaped[0] = r"\x2e"
    return f"{''.join(escaped) or '-'}.mount"


def source(host: str, folder: str) -> str:
    """Return ``host:/path``, with an IPv6 address in brackets."""
    address = literal(host)
    return f"[{address}]:{folder}" if address is not None and address.version == 6 else f"{host}:{folder}"


def is_export(mount: Mount, what: str, addresses: tuple[str, ...]) -> bool:
    """Return whether a mount is this ``host:/path``, by its text or by the addresses of its server.

    A mount by host name in fstab has the address in its options (nfs(5), addr).
    """
    if mount.fstype not in _REMOTE:
        return False
    (host, folder), (wanted, wanted_folder) = _parts(mount.source), _parts(what)
    at = [literal(option.removeprefix("addr=")) for option in mount.options if option.startswith("addr=")]
    known = [number for address in (wanted, *addresses) if (number := literal(address)) is not None]
    return folder == wanted_folder and (host == wanted or any(number in known for number in at))


def _parts(text: str) -> tuple[str, str]:
    host, _, folder = text.rpartition(":/")
    return host.strip("[]").lower(), mount_target(f"/{folder}")


def options(extra: tuple[str, ...], *, own_server: bool) -> str:
    """Return the mount options: ``hard``, and NFS 4.2 for clusterctl's own server, unless ``extra`` overrides them.

    The version of another server is unknown (EFS has 4.1, some filers only 3): mount.nfs negotiates it (nfs(5)).
    """
    said = any(option.startswith(_VERSION) for option in extra)
    version = ["nfsvers=4.2"] if own_server and not said else []
    patience = [] if {"soft", "softerr"} & set(extra) else ["hard"]
    return ",".join((*patience, *version, "_netdev", "nosuid", "nodev", *extra))


def unit_text(what: str, path: str, mount_options: str) -> str:
    """Return the unit that mounts an export, or binds a directory of the same node (options ``bind``)."""
    return render(
        "systemd",
        "shared-dir.mount",
        what=what,
        where=mount_target(path),
        options=mount_options,
        remote=mount_options != BIND,
        way=_way(what) if mount_options != BIND else "",
    )


def way_unit_text() -> str:
    """Return the template unit; a mount depends on one instance of it, for its server."""
    return resources.text("templates", "systemd", "clusterctl-way-to@.service")


def _way(what: str) -> str:
    """Return the instance for the server of ``host:/path``; empty when a unit name cannot hold the host."""
    host = what.rpartition(":/")[0].strip("[]")
    return f"clusterctl-way-to@{host}.service" if re.fullmatch(r"[A-Za-z0-9:._-]+", host) else ""


def is_unit(found: MountUnit | None, text: str) -> bool:
    """Return whether a unit on the node equals a text, without comments and blank lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return found is not None and found.text.splitlines() == lines


def _mounts(facts: NodeFacts) -> tuple[Mount, ...]:
    """Return all mounts in order, those of automounts last: one may have been triggered during the probe."""
    return (*facts.storage.mounts.or_else(()), *facts.nfs.automounts)


def mounted_at(facts: NodeFacts, path: str) -> Mount | None:
    """Return the mount at a path: the last one, which hides earlier ones. Automounts are not included."""
    found = [
        mount for mount in _mounts(facts) if mount.target == mount_target(path) and mount.fstype != _AUTOMOUNT
    ]
    # A mount made by an automount is in both lists, but has its options in only one.
    same = (
        m
        for m in reversed(found)
        if m.options and (m.source, m.fstype) == (found[-1].source, found[-1].fstype)
    )
    return next(same, found[-1]) if found else None


def _holder(facts: NodeFacts, path: str, *, automounts: bool) -> Mount | None:
    wanted = mount_target(path)
    found = [
        mount
        for mount in _mounts(facts)
        if (mount.target in ("/", wanted) or wanted.startswith(f"{mount.target}/"))
        and (automounts or mount.fstype != _AUTOMOUNT)
    ]
    # The last of several mounts at one path hides the others.
    return max(reversed(found), key=lambda mount: len(mount.target), default=None)


def below(facts: NodeFacts, path: str) -> Mount | None:
    """Return the mount whose file system holds a path."""
    return _holder(facts, path, automounts=False)


def automount_waiting(facts: NodeFacts, path: str) -> str | None:
    """Return the path of an automount that will mount at or above a path, but has not been triggered yet."""
    found = _holder(facts, path, automounts=True)
    return found.target if found is not None and found.fstype == _AUTOMOUNT else None


_EMPTY = '[ -d "$1" ] && [ -z "$(ls -A -- "$1")" ]'
_TAKE_BACK = 'rmdir -- "$1" 2>/dev/null || :'


def mount_point(path: str) -> tuple[Command, ...]:
    """Return the steps that make a mount point, which must be empty: a mount would hide its files.

    Each directory has a separate step, so that undo removes only those that were made and are empty.
    """
    *parents, last = _ladder(path)
    refuse = 'echo "$1 is not empty, and mounting there would hide its files: move them away" >&2; exit 1'
    make = f'[ -d "$1" ] || mkdir -- "$1" && {_EMPTY} || {{ {refuse}; }}'
    return (
        *(_folder(parent) for parent in parents),
        Command(
            f"Make the mount point {last}, which must be empty",
            _shell(make, last),
            undo=_shell(_TAKE_BACK, last),
            guard=_shell(_EMPTY, last),
            timeout_s=30.0,
        ),
    )


def owned_folder(path: str, user: str) -> tuple[Command, ...]:
    """Return the steps that make a directory owned by a user; an existing directory is not changed."""
    *parents, last = _ladder(path)
    return (
        *(_folder(parent) for parent in parents),
        Command(
            f"Make the directory {last}, owned by {user}",
            _shell('[ -d "$1" ] || { mkdir -- "$1" && chown -- "$2:" "$1"; }', last, user),
            undo=_shell(_TAKE_BACK, last),
            guard=_shell('[ -d "$1" ]', last),
            timeout_s=30.0,
        ),
    )


def _folder(path: str) -> Command:
    return Command(
        f"Make the directory {path}",
        _shell('[ -d "$1" ] || mkdir -- "$1"', path),
        undo=_shell(_TAKE_BACK, path),
        guard=_shell('[ -d "$1" ]', path),
        timeout_s=30.0,
    )


def _ladder(path: str) -> list[str]:
    """Return a path and its parents from the top down, without the root."""
    parts = mount_target(path).strip("/").split("/")
    return ["/" + "/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


def _shell(script: str, *arguments: str) -> tuple[str, ...]:
    return ("sh", "-c", script, "folder", *arguments)
