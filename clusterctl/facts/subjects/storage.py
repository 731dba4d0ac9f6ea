"""Mounts, and free space and inodes at the paths that clusterctl writes, and at those of a request."""

from __future__ import annotations

import re

from clusterctl.facts.base import Fragment, Sections, Unparsable
from clusterctl.facts.model.services import Inodes, Mount, Space, Storage
from clusterctl.text.secret.scrub import scrubbed

SYSTEM_PATHS = ("/", "/etc", "/opt", "/tmp", "/var", "/var/lib/clusterctl")
"""Directories that bootstrap and launches write: packages, configuration, journals, builds, files of a run."""
PATHS = ("/dev/shm", "/var/lib/docker")
# File systems of the kernel and overlays of containers are not needed, and there can be thousands of them.
_SKIPPED = (
    "autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|efivarfs|fusectl|hugetlbfs|mqueue|nsfs|"
    "proc|pstore|rpc_pipefs|securityfs|selinuxfs|sysfs|tracefs"
)
# The root of a container, and /etc or /var of a stateless node, can be overlays themselves.
_SKIPPED_BELOW = "overlay|ramfs|squashfs"

FRAGMENTS = (
    Fragment(
        "mounts", f"grep -vE '^[^ ]+ (/[^ ]+ ({_SKIPPED})|/[^ /]+/[^ ]+ ({_SKIPPED_BELOW})) ' /proc/mounts"
    ),
    Fragment(
        "space",
        f"""\
set --
IFS=$N; set -f
for f in {" ".join((*SYSTEM_PATHS, *PATHS))} $SPACE_AT; do [ -d "$f" ] && set -- "$@" "$f"; done
unset IFS; set +f
printf 'paths'; printf ' %s' "$@"; echo
t 10 df -kP "$@\"""",
        variables=("SPACE_AT",),
    ),
    Fragment(
        "inodes",
        f"""\
set --
for f in {" ".join(SYSTEM_PATHS)}; do [ -d "$f" ] && set -- "$@" "$f"; done
printf 'paths'; printf ' %s' "$@"; echo
t 10 df -iP "$@\"""",
    ),
)


def unescaped(word: str) -> str:
    """Return a word of /proc/mounts with its octal escapes (\\040) decoded."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match[1], 8)), word)


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Parse /proc/mounts."""
    mounts = []
    # Some file systems in user space have user and password in their source or options.
    for line in scrubbed(text).splitlines():
        words = line.split(" ")
        if len(words) < 4 or not words[1].startswith("/"):
            raise Unparsable(f"not a line of /proc/mounts: {line[:80]!r}")
        mounts.append(Mount(unescaped(words[0]), unescaped(words[1]), words[2], tuple(words[3].split(","))))
    return tuple(mounts)


def _rows(text: str) -> tuple[tuple[str, str, str, str], ...]:
    """Return (path, mount point, total, available) of each requested path in the output of ``df -P``, in their order.

    The columns are ``-`` or 0 for a file system that has no such limit, such as the inodes of btrfs.
    """
    asked, _, table = text.partition("\n")
    paths = asked.split()[1:]
    rows = [
        match
        for line in table.splitlines()
        if (
            match := re.fullmatch(
                r".*?\s(\d{1,18}|-)\s+(?:\d+|-)\s+(-?\d{1,18}|-)\s+(?:\d+%|-)\s+(/.*)", line
            )
        )
    ]
    if not rows or len(rows) != len(paths) or not asked.startswith("paths"):
        raise Unparsable(f"df printed {len(rows)} lines for {len(paths)} paths")
    return tuple((path, row[3], row[1], row[2]) for path, row in zip(paths, rows, strict=True))


def parse_space(text: str) -> tuple[Space, ...]:
    """Parse ``df -kP``: one line for each requested path, in their order; sizes become bytes."""
    rows = _rows(text)
    return tuple(
        Space(path, mounted_on, int(total) * 1024, max(0, int(free)) * 1024)
        for path, mounted_on, total, free in rows
    )


def parse_inodes(text: str) -> tuple[Inodes, ...]:
    """Parse ``df -iP``, without the file systems whose number of inodes has no limit."""
    return tuple(
        Inodes(path, mounted_on, int(total), max(0, int(free)))
        for path, mounted_on, total, free in _rows(text)
        if total not in ("-", "0") and free != "-"
    )


def parse(sections: Sections) -> Storage:
    """Return the facts of the sections ``mounts``, ``space`` and ``inodes``."""
    return Storage(
        sections["mounts"].read(parse_mounts),
        sections["space"].read(parse_space),
        sections["inodes"].read(parse_inodes),
    )
