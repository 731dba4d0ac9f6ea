"""Parse ssh_config into sections, and find the options of a host by OpenSSH's rules (ssh_config(5)).

No library is used: paramiko's reader supports neither Include nor comments after a value, applies a section to every
host if it does not support a keyword of its condition, and does not tell from which line an option comes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from clusterctl.text.openssh.patterns import any_like, is_pattern

Options = Mapping[str, tuple[str, ...]]
"""The words of each option by its name in lower case; the options of COMMANDS have one word, the whole text."""
# The rest of these lines is shell text, with the shell's own comments.
COMMANDS = ("proxycommand", "localcommand", "remotecommand", "knownhostscommand")
_LINE = re.compile(r"\s*(\w+)(?:$|(?=[\s=])\s*=?\s*(.*))")
_SPECIAL = re.compile(r"""['"\\#]""")
_TOKEN = re.compile(r"%(.)")
_ALONE = ("all", "canonical", "final")
_WITH_A_WORD = ("host", "originalhost", "user", "localuser", "exec")


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its keyword in lower case, the text after it, and its place."""

    key: str
    value: str
    words: tuple[str, ...]
    """The words of the value; the whole value for COMMANDS."""
    file: str
    number: int
    text: str
    """The whole line."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One condition of a section; ``name`` is a keyword of Match, ``hosts`` for a Host line, or ``never``."""

    name: str
    patterns: tuple[str, ...] = ()
    negated: bool = False


_NEVER = Criterion("never")


@dataclass(slots=True)
class ConfigSection:
    """Settings, and the criteria that must all hold for a host: its own and those of the sections that include it."""

    criteria: tuple[Criterion, ...]
    opened: Line | None = None
    """The Host or Match line; None for the beginning of a file and for the rest of a section after an Include."""
    match: Line | None = None
    """The outermost Match line on which the section depends."""
    settings: list[Line] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SyntaxFault:
    """A line that ssh would reject (``is_error``), or that is not supported: its place and the problem."""

    line: Line
    problem: str
    hint: str = ""
    is_error: bool = True


class Includes(Protocol):
    """Finds the files of an Include line, given its section and its depth; yields names and texts."""

    def __call__(self, line: Line, within: ConfigSection, depth: int) -> Iterable[tuple[str, str]]: ...


class SshMachine(Protocol):
    """What an evaluation asks of the machine on which ssh would run."""

    @property
    def local_user(self) -> str:
        """The user who would run ssh."""

    def succeeds(self, command: str, host: str, found: Options) -> bool:
        """Run a command of ``Match exec``, and return whether its exit status was 0."""

    def canonical(self, host: str, found: Options) -> str | None:
        """Return the canonical name of a host; None if ``found`` does not ask for one."""


def no_includes(line: Line, within: ConfigSection, depth: int) -> Iterable[tuple[str, str]]:
    """Include nothing."""
    return ()


class Config:
    """The sections of one or several files, in the order in which they take precedence."""

    def __init__(self) -> None:
        self.sections: list[ConfigSection] = []
        self.faults: list[SyntaxFault] = []
        self._general: list[int] = []
        self._by_name: dict[str, list[int]] = {}

    def add(self, name: str, text: str, includes: Includes = no_includes) -> None:
        """Parse a file and the files that it includes; its sections come after the present ones."""
        self._file(name, text, includes, ConfigSection(()), 0)

    def _begin(self, section: ConfigSection) -> ConfigSection:
        """Add a section, and index it by the host that it names, because most sections of a fleet name one host."""
        index = len(self.sections)
        self.sections.append(section)
        names = _names(section.criteria)
        if names is None:
            self._general.append(index)
        for name in names or ():
            self._by_name.setdefault(name, []).append(index)
        return section

    def _file(self, name: str, text: str, includes: Includes, around: ConfigSection, depth: int) -> None:
        section = self._begin(ConfigSection(around.criteria, None, around.match))
        for number, raw in enumerate(lines(text), start=1):
            text_of_line = raw.strip()
            if not text_of_line or text_of_line.startswith("#"):
                continue
            line = _line(text_of_line, name, number)
            if not line.words:
                self.faults.append(SyntaxFault(line, f"{text_of_line[:120]!r} has no value", "fix that line"))
            elif line.key == "host":
                section = self._begin(ConfigSection((*around.criteria, *_of_host(line)), line, around.match))
            elif line.key == "match":
                own = self._of_match(line)
                section = self._begin(ConfigSection((*around.criteria, *own), line, around.match or line))
            elif line.key == "include":
                for file, included in includes(line, section, depth):
                    self._file(file, included, includes, section, depth + 1)
                # A section in an included file ends with that file.
                section = self._begin(ConfigSection(section.criteria, None, section.match))
            else:
                section.settings.append(line)

    def _of_match(self, line: Line) -> tuple[Criterion, ...]:
        """Return the criteria of a Match line; none if it matches every host."""
        given = list(line.words)
        found: list[Criterion] = []
        while given:
            # Newer releases of OpenSSH accept host=gpu1 as well.
            word, equals, value = given.pop(0).partition("=")
            given[:0] = [value] if equals else []
            negated, name = word.startswith("!"), word.lstrip("!").lower()
            if name in _ALONE:
                if name != "all":
                    found.append(Criterion(name, (), negated))
                elif negated:
                    return (_NEVER,)
                continue
            if not given:
                problem = f"'Match {line.value}' has no value after {word!r}"
                self.faults.append(SyntaxFault(line, problem, "add a pattern or remove the keyword"))
                return (_NEVER,)
            value = given.pop(0)
            if name in _WITH_A_WORD:
                patterns = (value,) if name == "exec" else tuple(value.split(","))
                found.append(Criterion(name, patterns, negated))
            elif name != "tagged":
                problem = f"'Match {name}' is not supported; the section's settings are ignored"
                self.faults.append(SyntaxFault(line, problem, is_error=False))
                return (_NEVER,)
            elif not negated:
                return (_NEVER,)  # tags exist only with `ssh -P`
        return tuple(found)

    def about(self, host: str) -> Iterator[ConfigSection]:
        """Yield the sections that may concern a host, in the order of the files; those of other hosts are left out."""
        for index in sorted({*self._general, *self._by_name.get(host, ())}):
            yield self.sections[index]

    def lookup(self, host: str, user: str | None, here: SshMachine) -> dict[str, tuple[str, ...]]:
        """Return a host's options. ``user``: the login user if set elsewhere, as with ``ssh -l``.

        Of ProxyJump and ProxyCommand, only the one that comes first is returned.
        """
        found: dict[str, tuple[str, ...]] = {} if user is None else {"user": (user,)}
        self._collect(self.about(host), host, found, here, canonical=False, final=False)
        name = here.canonical(host, found)
        if name is None:
            self._collect(self.about(host), host, found, here, canonical=False, final=True)
        else:
            found["hostname"] = (name,)
            self._collect(self.sections, name, found, here, canonical=True, final=True)
        return found

    def _collect(
        self,
        sections: Iterable[ConfigSection],
        host: str,
        found: dict[str, tuple[str, ...]],
        here: SshMachine,
        *,
        canonical: bool,
        final: bool,
    ) -> None:
        for section in sections:
            passed = {"all": True, "never": False, "canonical": canonical, "final": final}
            if all(_holds(one, host, found, here, passed) for one in section.criteria):
                for line in section.settings:
                    take(line, host, found)


def _line(text: str, file: str, number: int) -> Line:
    matched = _LINE.fullmatch(text)
    if matched is None:
        return Line("", "", (), file, number, text)
    key, value = matched[1].lower(), matched[2] or ""
    found = words(value) if key not in COMMANDS else (value,) if value else ()
    return Line(key, value, found, file, number, text)


def take(line: Line, host: str, found: dict[str, tuple[str, ...]]) -> None:
    """Use a setting unless the option has a value already (ssh_config(5): the first obtained value is used)."""
    given = line.words
    if line.key == "hostname":
        given = (filled(" ".join(given), {"h": host, "%": "%"}),)
    elif line.key == "identityfile":
        known = found.get(line.key, ())
        found[line.key] = (*known, *(word for word in given if word not in known))
        return
    elif line.key == "proxyjump" and "proxycommand" in found:
        return
    elif line.key == "proxycommand" and "proxyjump" in found:
        # The first of the two overrides the other, but `ProxyJump none` only the following ProxyJump.
        if not _is_none(found["proxyjump"]):
            return
        del found["proxyjump"]
    found.setdefault(line.key, given)


def _is_none(given: tuple[str, ...]) -> bool:
    return [word.lower() for word in given] == ["none"]


def _names(criteria: tuple[Criterion, ...]) -> tuple[str, ...] | None:
    """Return the only hosts that a section may concern; None if they are not listed."""
    for one in criteria:
        if one.name == "hosts" and not any(map(is_pattern, one.patterns)):
            return one.patterns
    return None


def _of_host(line: Line) -> tuple[Criterion, ...]:
    """Return the criterion of a Host line; none if it matches every host."""
    return () if line.words == ("*",) else (Criterion("hosts", line.words),)


def names_host(criteria: tuple[Criterion, ...], host: str) -> bool:
    """Return whether the Host lines among the criteria accept a host; criteria of Match are not evaluated."""
    return all(any_like(host, one.patterns) for one in criteria if one.name == "hosts")


def _holds(one: Criterion, host: str, found: Options, here: SshMachine, passed: Mapping[str, bool]) -> bool:
    if one.name == "hosts":
        return any_like(host, one.patterns)
    if one.name in passed:
        return passed[one.name] != one.negated
    if one.name == "exec":
        return here.succeeds(one.patterns[0], host, found) != one.negated
    value = {
        "host": lambda: found.get("hostname", (host,))[0],
        "originalhost": lambda: host,
        "user": lambda: found.get("user", (here.local_user,))[0],
        "localuser": lambda: here.local_user,
    }[one.name]()
    patterns = one.patterns
    if one.name in ("host", "originalhost"):
        value, patterns = value.lower(), tuple(pattern.lower() for pattern in patterns)
    return any_like(value, patterns) != one.negated


def lines(text: str) -> Iterator[str]:
    """Yield the lines of a text; only a newline ends one, because ssh reads other separators as ordinary characters.

    The text is not split at once: a list of millions of short lines takes many times its memory.
    """
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def words(text: str) -> tuple[str, ...]:
    """Split a line as ssh does (argv_split in misc.c): quotes, few escapes, comments from ``#`` at a word's start."""
    if not _SPECIAL.search(text):
        return tuple(word for word in text.replace("\t", " ").split(" ") if word)
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
            return tuple(found)
        else:
            word, begun = word + character, True
    return (*found, word) if begun else tuple(found)


def filled(text: str, tokens: Mapping[str, str]) -> str:
    """Return a text with tokens such as ``%h`` replaced (TOKENS in ssh_config(5)); unknown ones are kept."""
    return _TOKEN.sub(lambda found: tokens.get(found[1], found[0]), text)


def option(options: Options, key: str) -> str | None:
    """Return an option as one text; None if it is unset or ``none``."""
    given = options.get(key)
    return None if given is None or _is_none(given) else " ".join(given)
