"""Use this machine as the host of the lab: run commands with a deadline, find missing tools of each driver."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from clusterctl.documents.lab import Driver
from clusterctl.errors import LabError

DEBIAN_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Tool (or a file's absolute path) -> the Debian and Ubuntu package that has it.
BUILD_TOOLS = {
    DEBIAN_KEYRING: "debian-archive-keyring",
    "apt-get": "apt",
    "debootstrap": "debootstrap",
    "dpkg-deb": "dpkg",
    "mkfs.ext4": "e2fsprogs",
    "tar": "tar",
    "unshare": "util-linux",
}
SSH_TOOLS = {"ssh": "openssh-client", "ssh-keygen": "openssh-client"}
RUN_TOOLS: dict[Driver, dict[str, str]] = {
    "qemu": {"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", **SSH_TOOLS},
    "docker": {**SSH_TOOLS},
}

_OUTPUT_TAIL_CHARS = 2000
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


def _search_path() -> str:
    # debootstrap and mkfs.ext4 live in sbin, which a user's or a cron job's PATH may lack.
    return f"{os.environ.get('PATH', os.defpath)}:{_SBIN}"


def missing_tools(tools: Mapping[str, str]) -> dict[str, str]:
    """Return those tools and files (name -> package) that this machine does not have."""
    path = _search_path()

    def found(tool: str) -> bool:
        return Path(tool).is_file() if tool.startswith("/") else shutil.which(tool, path=path) is not None

    return {tool: package for tool, package in tools.items() if not found(tool)}


def require_tools(tools: Mapping[str, str], purpose: str) -> None:
    """Raise LabError that names every missing tool and the line that installs them."""
    missing = missing_tools(tools)
    if not missing:
        return
    packages = " ".join(sorted(set(missing.values())))
    raise LabError(
        f"{purpose} needs {', '.join(sorted(missing))}, which this machine lacks",
        hint=f"on Debian or Ubuntu, as root: apt-get install --no-install-recommends {packages}",
    )


def require_build_host() -> None:
    """Raise LabError unless a root filesystem can be built here."""
    machine = platform.machine()
    if machine != "x86_64":
        raise LabError(
            f"the lab builds x86_64 nodes, and this machine is {machine}",
            hint="run the lab on an x86_64 machine",
        )
    require_tools(BUILD_TOOLS, "building the lab's root filesystem")
    if os.geteuid() != 0:
        raise LabError(
            "building the lab's root filesystem needs root (debootstrap, chroot)",
            hint="run it as root once: sudo clusterctl lab up",
        )


def run(
    argv: Sequence[str],
    timeout_s: float,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
) -> str:
    """Run a command on this machine; return its stdout, or raise LabError with the end of its output."""
    environment = {**os.environ, "PATH": _search_path(), "LC_ALL": "C.UTF-8", **(env or {})}
    line = shlex.join(argv)
    shown = line if len(line) <= 200 else line[:197] + "..."
    try:
        done = subprocess.run(
            tuple(argv), capture_output=True, check=False, cwd=cwd, env=environment, input=stdin,
            text=True, errors="replace", timeout=timeout_s,
        )  # fmt: skip
    except FileNotFoundError:
        raise LabError(f"{argv[0]} is not on this machine", hint="install it and try again") from None
    except subprocess.TimeoutExpired:
        raise LabError(
            f"no end after {timeout_s:.0f} s: {shown}", hint="is the package mirror or the disk very slow?"
        ) from None
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-_OUTPUT_TAIL_CHARS:].strip()
        ended = f"exit {done.returncode} from: {shown}"
        if not tail:
            raise LabError(ended)
        # The last line is the reason most often.
        before, _, last = tail.rpartition("\n")
        raise LabError(f"{last}\n{ended}" + (f"\n{before}" if before else ""))
    return done.stdout
