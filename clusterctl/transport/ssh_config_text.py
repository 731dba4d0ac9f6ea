"""The text of ssh_config as paramiko reads it right: one file without Include lines, whose conditions are OpenSSH's.

paramiko knows no Include and no comment behind a value, takes the keywords of Match only in small letters, and takes a
section as meant for every host where it does not know a keyword of its condition.
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
"""Options whose values are several paths; they are quoted as for a shell here."""
PROXY = "clusterctlproxy"
"""An option of our own beside each ProxyJump and ProxyCommand: the first of them says which of the two counts."""
_MAX_INCLUDE_DEPTH = 16
MAX_FILES = 4096
MAX_BYTES = 16 << 20
"""Characters over all files, and the bytes of each; sections of 65,536 nodes are 13 MiB."""
_LINE = re.compile(r"\s*(\w+)(?=[\s=])\s*=?\s*(.*)")
# The rest of their line is for a shell, with its own comments.
_COMMANDS = ("proxycommand", "localcommand", "remotecommand", "knownhostscommand")
_ALONE = ("all", "canonical", "final")
_WITH_A_WORD = ("host", "originalhost", "user", "localuser", "exec")
_NOWHERE = "originalhost !*"
_log = log.get(__name__)


def config_files() -> tuple[Path, ...]:
    """Return the ssh_config files that count, first wins: $CLUSTERCTL_SSH_CONFIG alone, or OpenSSH's two."""
    chosen = os.environ.get(CONFIG_VARIABLE)
    if chosen:
        path = at_home(chosen)
        if not is_there(path):
            raise ConfigError(
                f"${CONFIG_VARIABLE} names {chosen}, which is not there", hint="mend or unset it"
            )
        return (path,)
    return (at_home("~/.ssh/config"), Path("/etc/ssh/ssh_config"))


def read_config(files: Sequence[Path]) -> str:
    """Return the text of the files with their Include lines replaced by what they name.

    Raise ConfigError for a file that cannot be read, for too many of them, and for too much text over all.
    """
    return _Reader().text(files)


class _Reader:
    """Reads files and counts them: each that is included twice by each of its own kind would double the text."""

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
                f"{path}: with it, Include lines of ssh_config name {self._files} files of {self._size} characters; "
                f"expected at most {MAX_FILES} files and {user_files.size_text(MAX_BYTES)}",
                hint="does a file include itself, or a directory of other files?",
            )
        return text

    def _expanded(self, path: Path, base: Path, around: str, depth: int) -> Iterator[str]:
        """Yield a file's lines; ``around`` is the condition of the section that includes it, empty for every host."""
        if depth > _MAX_INCLUDE_DEPTH:
            raise ConfigError(f"{path}: Include lines are nested deeper than {_MAX_INCLUDE_DEPTH}")
        text = self._read(path)
        condition, section = around, _section(around)
        for number, line in enumerate(text.splitlines(), start=1):
            matched = _LINE.fullmatch(line.rstrip())
            if matched is None or line.lstrip().startswith("#"):
                # What is no setting is left to paramiko, which says so.
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
                    # What an included file opened ends with it.
                    yield section
            else:
                yield _setting(key, value)


def words(text: str) -> list[str]:
    """Split as ssh does (argv_split in its misc.c): quotes, few escapes, and a comment from ``#`` at a word's start."""
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
        # Also where it is none: what comes first, a command or a jump, keeps the other from counting.
        return f"{key} {value}\n{PROXY} {key}"
    if key in _COMMANDS:
        return f"{key} {value}"
    given = words(value)
    if key == "proxyjump" and value.lower() != "none":
        return f"{key} {' '.join(given)}\n{PROXY} {key}"
    return f"{key} {shlex.join(given) if key in FILE_LISTS else ' '.join(given)}".rstrip()


def _section(condition: str) -> str:
    """Return the line that begins a section; one of Host where that says it, as paramiko reads those faster."""
    if not condition:
        return "Host *"
    first, *patterns = shlex.split(condition)
    if first == "originalhost" and len(patterns) == 1:
        return f"Host {shlex.join(patterns[0].split(','))}"
    return f"Match {condition}"


def _patterns(value: str) -> str:
    """Return what a Host line asks for as a criterion of Match; nothing where it is every host."""
    given = words(value)
    return "" if given == ["*"] else f"originalhost {_pattern(','.join(given))}" if given else _NOWHERE


def _pattern(text: str) -> str:
    """Quote a pattern; to ssh a bracket is a character like others (PATTERNS in ssh_config(5))."""
    return shlex.quote(text.replace("[", "[[]"))


def _criteria(value: str, place: str) -> str:
    """Return what a Match line asks for, in small letters; nothing where it is every host."""
    given = words(value)
    found: list[str] = []
    while given:
        # Newer releases of OpenSSH take host=gpu1 too.
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
            raise ConfigError(f"{place}: 'Match {value}' has no word behind {word!r}")
        asked = given.pop(0)
        if name in _WITH_A_WORD:
            word = shlex.quote(asked) if name == "exec" else _pattern(asked)
            found.append(f"{'!' * negated}{name} {word}")
        elif name != "tagged":
            _log.warning("%s: 'Match %s' is not known here; the section's settings do not count", place, name)
            return _NOWHERE
        elif not negated:
            return _NOWHERE  # without `ssh -P` there is no tag
    return " ".join(found)


def _named(value: str, base: Path) -> Iterator[Path]:
    """Yield the files that an Include line names, as glob(3) finds them."""
    for pattern in words(value):
        # Unlike Path.glob it leaves out hidden files, such as those that editors keep beside.
        for found in sorted(glob.glob(str(base / at_home(pattern)))):  # noqa: PTH207
            if not is_folder(found):
                yield Path(found)
