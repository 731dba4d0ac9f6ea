"""Mounts, and free space at the paths that benchmarks and containers use, and at those of a request."""

from __future__ import annotations

import re

from clusterctl.facts.base import Fragment, Sections, Unparsable
from clusterctl.facts.model.services import Mount, Space, Storage
from clusterctl.secret.scrub import scrubbed

PATHS = ("/", "/dev/shm", "/tmp", "/var/lib/docker")
# File systems of the kernel and overlays of containers are not needed, and there can be thousands of them.
_SKIPPED = (
    "autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|efivarfs|fusectl|hugetlbfs|mqueue|nsfs|overlay|"
    "proc|pstore|ramfs|rpc_pipefs|securityfs|selinuxfs|squashfs|sysfs|tracefs"
)

FRAGMENTS = (
    Fragment("mounts", f"grep -vE '^[^ ]+ [^ ]+ ({_SKIPPED}) ' /proc/mounts"),
    Fragment(
        "space",
        f"""\
set --
IFS=$N; set -f
for f in {" ".join(PATHS)} $SPACE_AT; do [ -d "$f" ] && set -- "$@" "$f"; done
unset IFS; set +f
printf 'paths'; printf ' %s' "$@"; echo
t 10 df -kP "$@\"""",
        variables=("SPACE_AT",),
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


def parse_space(text: str) -> tuple[Space, ...]:
    """Parse ``df -kP``: one line for each requested path, in their order; sizes become bytes."""
    asked, _, table = text.partition("\n")
    paths = asked.split()[1:]
    rows = [
        match
        for line in table.splitlines()
        if (match := re.fullmatch(r".*?\s(\d{1,18})\s+\d+\s+(-?\d{1,18})\s+(?:\d+%|-)\s+(/.*)", line))
    ]
    if not rows or len(rows) != len(paths) or not asked.startswith("paths"):
        raise Unparsable(f"df printed {len(rows)} lines for {len(paths)} paths")
    return tuple(
        Space(path, row[3], int(row[1]) * 1024, max(0, int(row[2])) * 1024)
        for path, row in zip(paths, rows, strict=True)
    )


def parse(sections: Sections) -> Storage:
    """Return the facts of the sections ``mounts`` and ``space``."""
    return Storage(sections["mounts"].read(parse_mounts), sections["space"].read(parse_space))
