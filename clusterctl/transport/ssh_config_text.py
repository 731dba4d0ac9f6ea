"""Rewrite ssh_config into one text that paramiko interprets as OpenSSH does.

paramiko does not support Include or comments after a value, accepts keywords of Match only in lower case, and applies a
section to every host if it does not support a keyword of the section's condition.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from clusterctl import log, user_files
from clusterctl.errors import ConfigError
from clusterctl.inventory.user_paths import at_home, is_folder, is_there

CONFIG_VARIABLE = "CLUSTERCTL_SSH_CONFIG"
FILE_LISTS = ("userknownhostsfile", "globalknownhostsfile")
"""Options whose values are several paths; the rewritten text quotes them as for a shell."""
PROXY = "clusterctlproxy"
"""An own option after each ProxyJump and ProxyCommand; the first one shows which of the two takes precedence."""
_MAX_INCLUDE_DEPTH = 16
MAX_FILES = 4096
MAX_BYTES = 16 << 20
"""The limit of characters over all files and of bytes per file; sections of 65,536 nodes need 13 MiB."""
_LINE = re.compile(r"\s*(\w+)(?=[\s=])\s*=?\s*(.*)")
# The rest of these lines is shell text, with the shell's own comments.
_COMMANDS = ("proxycommand", "localcommand", "remotecommand", "knownhostscommand")
_ALONE = ("all", "canonical", "final")
_WITH_A_WORD = ("host", "originalhost", "user", "localuser", "exec")
_NOWHERE = "originalhost !*"
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


def read_config(files: Sequence[Path]) -> str:
    """Return the text of the files with each Include line replaced by the included files.

    Raises ConfigError if a file cannot be read, or if the files are too many or too large together.
    """
    return _Reader().text(files)


class _Reader:
    """Reads files and counts them, because files that include each other twice would grow the text exponentially."""

    def __init__(self) -> None:
        self._files = 0
        self._size = 0

    def text(self, files: Sequence[Path]) -> str:
        lines: list[str] = []
        for path in files:
            if is_there(path):
                lines += [*self._expanded(path, path.parent, "", 0), "Host *"]
        return "".join(f"{line}\n" for line in lines)

    def _read(self, path: Path) -> str:
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

    def _expanded(self, path: Path, base: Path, around: str, depth: int) -> Iterator[str]:
        """Yield a file's lines; ``around`` is the condition of the section that includes it, empty for all hosts."""
        if depth > _MAX_INCLUDE_DEPTH:
            raise ConfigError(
                f"{path}: Include lines are nested deeper than {_MAX_INCLUDE_DEPTH}",
                hint="check whether a file includes itself",
            )
        text = self._read(path)
        condition, section = around, _section(around)
        for number, line in enumerate(text.splitlines(), start=1):
            matched = _LINE.fullmatch(line.rstrip())
            if matched is None or line.lstrip().startswith("#"):
                # paramiko reports lines that are not settings.
                yield line
                continue
            key, value = matched[1].lower(), matched[2]
            if key in ("host", "match"):
                own = _patterns(value) if key == "host" else _criteria(value, f"{path}:{number}")
                condition = " ".join(part for part in (around, own) if part)
                section = _section(condition)
                yield section
            elif key == "include":
                for included in _named(value, base):
                    yield from self._expanded(included, base, condition, depth + 1)
                    # A section in an included file ends with that file.
                    yield section
            else:
                yield _setting(key, value)


def words(text: str) -> list[str]:
    """Split a line as ssh does (argv_split in misc.c): quotes, few escapes, comments from ``#`` at a word's start."""
    found: list[str] = []
    word, quote = "", ""
    begun = escaped = False
    for character, following in zip(text, f"{text[1:]}\0", strict=False):
        if escaped:
            word, escaped = word + character, False
        elif character == "\\" and (following in "'\"\\" or (following == " " and not quote)):
            escaped = begun = True
        elif quote and character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote, begun = character, True
        elif not quote and character in " \t":
            if begun:
                found.append(word)
            word, begun = "", False
        elif character == "#" and not begun:
            return found
        else:
            word, begun = word + character, True
    return [*found, word] if begun else found


def _setting(key: str, value: str) -> str:
    if key == "proxycommand":
        # Also for the value none: the first of ProxyCommand and ProxyJump overrides the other.
        return f"{key} {value}\n{PROXY} {key}"
    if key in _COMMANDS:
        return f"{key} {value}"
    given = words(value)
    if key == "proxyjump" and value.lower() != "none":
        return f"{key} {' '.join(given)}\n{PROXY} {key}"
    return f"{key} {shlex.join(given) if key in FILE_LISTS else ' '.join(given)}".rstrip()


def _section(condition: str) -> str:
    """Return the line that begins a section: Host if possible, because paramiko reads it faster, else Match."""
    if not condition:
        return "Host *"
    first, *patterns = shlex.split(condition)
    if first == "originalhost" and len(patterns) == 1:
        return f"Host {shlex.join(patterns[0].split(','))}"
    return f"Match {condition}"


def _patterns(value: str) -> str:
    """Return the patterns of a Host line as a criterion of Match; empty if they match every host."""
    given = words(value)
    return "" if given == ["*"] else f"originalhost {_pattern(','.join(given))}" if given else _NOWHERE


def _pattern(text: str) -> str:
    """Quote a pattern; a bracket is an ordinary character in ssh (PATTERNS in ssh_config(5))."""
    return shlex.quote(text.replace("[", "[[]"))


def _criteria(value: str, place: str) -> str:
    """Return the criteria of a Match line with keywords in lower case; empty if they match every host."""
    given = words(value)
    found: list[str] = []
    while given:
        # Newer releases of OpenSSH accept host=gpu1 as well.
        word, equals, pattern = given.pop(0).partition("=")
        given[:0] = [pattern] if equals else []
        negated, name = word.startswith("!"), word.lstrip("!").lower()
        if name in _ALONE:
            if name != "all":
                found.append("!" * negated + name)
            elif negated:
                return _NOWHERE
            continue
        if not given:
            raise ConfigError(
                f"{place}: 'Match {value}' has no value after {word!r}",
                hint="add a pattern or remove the keyword",
            )
        asked = given.pop(0)
        if name in _WITH_A_WORD:
            word = shlex.quote(asked) if name == "exec" else _pattern(asked)
            found.append(f"{'!' * negated}{name} {word}")
        elif name != "tagged":
            _log.warning("%s: 'Match %s' is not supported; the section's settings are ignored", place, name)
            return _NOWHERE
        elif not negated:
            return _NOWHERE  # tags exist only with `ssh -P`
    return " ".join(found)


def _named(value: str, base: Path) -> Iterator[Path]:
    """Yield the files that an Include line names, in the order of glob(3)."""
    for pattern in words(value):
        # Unlike Path.glob, glob.glob omits hidden files, such as those of editors.
        for found in sorted(glob.glob(str(base / at_home(pattern)))):  # noqa: PTH207
            if not is_folder(found):
                yield Path(found)
