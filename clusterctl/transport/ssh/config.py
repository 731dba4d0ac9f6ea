"""Read the user's ssh_config files, and answer what an evaluation asks of this machine."""

from __future__ import annotations

import getpass
import glob
import os
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from clusterctl import log
from clusterctl.errors import ConfigError
from clusterctl.inventory.user_paths import at_home, is_folder, is_there
from clusterctl.text import user_files
from clusterctl.text.openssh import reader
from clusterctl.text.openssh.reader import Options
from clusterctl.transport.ssh.proxy import shell_argv
from clusterctl.transport.ssh.target import tokens_of

CONFIG_VARIABLE = "CLUSTERCTL_SSH_CONFIG"
EXEC_TIMEOUT_S = 30.0
MAX_FILES = 4096
MAX_BYTES = 16 << 20
"""The limit of characters over all files and of bytes per file; sections of 65,536 nodes need 13 MiB."""
_MAX_INCLUDE_DEPTH = 16
_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
_log = log.get(__name__)


def config_files() -> tuple[Path, ...]:
    """Return the ssh_config files to read, first takes precedence: $CLUSTERCTL_SSH_CONFIG, or OpenSSH's two."""
    chosen = os.environ.get(CONFIG_VARIABLE)
    if chosen:
        path = at_home(chosen)
        if not is_there(path):
            raise ConfigError(
                f"${CONFIG_VARIABLE} names {chosen}, which does not exist",
                hint="fix or unset the variable",
            )
        return (path,)
    return (at_home("~/.ssh/config"), Path("/etc/ssh/ssh_config"))


def read_config(files: Sequence[Path]) -> reader.Config:
    """Return the sections of the files, and of those that they include.

    Raises ConfigError if a file cannot be read, if a line cannot be parsed, or if the files are too many or too large
    together.
    """
    config, budget = reader.Config(), _Files()
    for path in files:
        if is_there(path):
            config.add(str(path), budget.read(path), budget.included_by(path))
    for fault in config.faults:
        said = f"{fault.line.file}:{fault.line.number}: {fault.problem}"
        if fault.is_error:
            raise ConfigError(f"ssh_config cannot be parsed: {said}", hint=fault.hint)
        _log.warning("%s", said)
    return config


class _Files:
    """Reads files and counts them, because files that include each other twice would grow the text exponentially."""

    def __init__(self) -> None:
        self._files = 0
        self._size = 0

    def read(self, path: Path) -> str:
        try:
            text = user_files.read_text(path, MAX_BYTES, errors="replace")
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be read: {error.strerror}", hint=user_files.hint_of(error)
            ) from None
        self._files += 1
        self._size += len(text)
        if self._files > MAX_FILES or self._size > MAX_BYTES:
            raise ConfigError(
                f"{path}: with this file, ssh_config includes {self._files} files of {self._size} characters; "
                f"expected at most {MAX_FILES} files and {user_files.size_text(MAX_BYTES)}",
                hint="check whether a file includes itself, or a directory of other files",
            )
        return text

    def included_by(self, path: Path) -> reader.Includes:
        """Return what finds the files of Include lines, in the order of glob(3), relative to a file's directory."""

        def find(line: reader.Line, within: reader.ConfigSection, depth: int) -> Iterator[tuple[str, str]]:
            for pattern in line.words:
                # Unlike Path.glob, glob.glob omits hidden files, such as those of editors.
                for found in sorted(glob.glob(str(path.parent / at_home(pattern)))):  # noqa: PTH207
                    if is_folder(found):
                        continue
                    if depth >= _MAX_INCLUDE_DEPTH:
                        raise ConfigError(
                            f"{found}: Include lines are nested deeper than {_MAX_INCLUDE_DEPTH}",
                            hint="check whether a file includes itself",
                        )
                    yield found, self.read(Path(found))

        return find


class Here:
    """This machine, as ``Match`` and ``CanonicalizeHostname`` see it."""

    @property
    def local_user(self) -> str:
        """The user of this process."""
        return getpass.getuser()

    def succeeds(self, command: str, host: str, found: Options) -> bool:
        """Run a command of ``Match exec`` with the user's shell and no input; once for all equal command lines."""
        return _succeeds(reader.filled(command, tokens_of(found, host)))

    def canonical(self, host: str, found: Options) -> str | None:
        """Return the first name in CanonicalDomains that resolves; raise ConfigError if none does and one must."""
        wanted = (reader.option(found, "canonicalizehostname") or "no").lower() in ("yes", "always")
        dots = reader.option(found, "canonicalizemaxdots") or "1"
        if not wanted or (dots.isdecimal() and host.count(".") > int(dots[:4])):
            return None
        family = _FAMILIES.get((reader.option(found, "addressfamily") or "any").lower(), socket.AF_UNSPEC)
        for domain in found.get("canonicaldomains", ()):
            try:
                socket.getaddrinfo(f"{host}.{domain}", None, family, socket.SOCK_STREAM)
            except (socket.gaierror, UnicodeError):
                continue
            return f"{host}.{domain}"
        if (reader.option(found, "canonicalizefallbacklocal") or "yes").lower() == "yes":
            return host
        raise ConfigError(
            f"ssh_config: {host} has no address in CanonicalDomains; CanonicalizeFallbackLocal forbids others",
            hint="fix the name in the inventory, or CanonicalDomains in ssh_config",
        )


@cache
def _succeeds(command: str) -> bool:
    try:
        done = subprocess.run(
            shell_argv(command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=EXEC_TIMEOUT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        _log.warning("ssh_config: Match exec %r is treated as failed: %s", command, error)
        return False
    return done.returncode == 0


def lookup_in(files: Iterable[Path]) -> Callable[[str, str | None], Options]:
    """Return the function that finds the options of a host, for the login user if that is set elsewhere."""
    config, here = read_config(tuple(files)), Here()

    def lookup(host: str, user: str | None) -> Options:
        return config.lookup(host, user, here)

    return lookup
