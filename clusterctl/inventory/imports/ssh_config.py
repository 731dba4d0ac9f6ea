"""Read ~/.ssh/config: a node for every Host without wildcards, with the settings of the file.

No library is used, because the import must report the lines that it ignores, and because a library that evaluates
``Match exec`` would run commands. The tests compare the result with ``ssh -G``.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from clusterctl.errors import InventoryError
from clusterctl.inventory.imports.budget import MOST_STEPS, Budget
from clusterctl.inventory.imports.found import (
    Found,
    FoundNode,
    Note,
    Setting,
    Source,
    numbered_lines,
    whole_number,
)
from clusterctl.inventory.imports.proxy import jump_of_proxy_command
from clusterctl.inventory.nodeset import MAX_NODES
from clusterctl.inventory.user_paths import at_home
from clusterctl.inventory.wildcards import like

_LINE = re.compile(r"\s*([A-Za-z][A-Za-z0-9]*)(?=[\s=])\s*=?\s*(.*)")
_CARRIED = ("hostname", "port", "user", "identityfile", "proxyjump", "proxycommand", "userknownhostsfile")
_DEPTH = 16
_MOST_TEXT = 16 << 20
# Options for ssh's own behaviour; they are ignored without a note, because they do not affect which node is reached.
_SILENT = (
    *("identitiesonly", "addkeystoagent", "usekeychain", "serveraliveinterval", "serveralivecountmax"),
    *("controlmaster", "controlpath", "controlpersist", "compression", "hashknownhosts", "loglevel"),
    *(
        "batchmode",
        "tcpkeepalive",
        "visualhostkey",
        "connecttimeout",
        "ignoreunknown",
        "passwordauthentication",
    ),
    *("preferredauthentications", "pubkeyauthentication", "gssapiauthentication", "sendenv", "forwardx11"),
)
# No file, or one that never holds a key, so that clusterctl would not recognize any node.
_NO_FILE = ("none", os.devnull)

_Conditions = tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class _Block:
    """A section: the patterns of its Host line and of the sections that include it, and all its settings."""

    conditions: _Conditions
    options: list[tuple[str, str, str, int]] = field(default_factory=list)


def looks_like(text: str) -> bool:
    """Return whether a line begins a Host section, and every line begins with a keyword (not with gpu01)."""
    lines = [line for raw in text.splitlines() if (line := raw.strip()) and not line.startswith("#")]
    return any(re.match(r"Host[\s=]+\S", line, re.IGNORECASE) for line in lines) and all(
        re.match(r"(?:[A-Za-z]+|PKCS11Provider)(?![\w.:-])", line, re.IGNORECASE) for line in lines
    )


def read(source: Source) -> Found:
    """Read the file and its Includes (``source.beside``); wildcards give settings, not nodes."""
    reader = _Reader(source)
    reader.file(source.name, source.text, (), 0)
    return reader.found()


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.blocks: list[_Block] = []
        self.names: dict[str, tuple[str, int]] = {}
        self.notes: list[Note] = []
        self.included = Budget(source.name, _MOST_TEXT)
        self.steps = Budget(source.name, MOST_STEPS)

    def file(self, name: str, text: str, conditions: _Conditions, depth: int) -> None:
        # Files that include each other several times multiply the text, so its size is bounded.
        self.included.spend(1 + len(text))
        opened = _Block(conditions)
        self.blocks.append(opened)
        block: _Block | None = opened
        for number, raw in numbered_lines(name, text):
            match = _LINE.fullmatch(raw.rstrip())
            if match is None or raw.lstrip().startswith("#"):
                continue
            key, value = match[1].lower(), match[2]
            if key == "host":
                patterns = tuple(_words(value))
                block = _Block(conditions if patterns == ("*",) else (*conditions, patterns))
                self.blocks.append(block)
                for pattern in () if conditions else patterns:
                    if not set("*?!") & set(pattern):
                        self.names.setdefault(pattern, (name, number))
            elif key == "match":
                block = None
                self.note(name, number, f"'Match {value}' and its settings are not imported")
            elif key == "include":
                here = block.conditions if block is not None else None
                self.include(name, number, value, here, depth)
                block = _Block(here) if here is not None else None
                if block is not None:
                    self.blocks.append(block)
            elif block is not None:
                block.options.append((key, value, name, number))

    def include(self, name: str, line: int, value: str, conditions: _Conditions | None, depth: int) -> None:
        if conditions is None:
            return
        if depth >= _DEPTH:
            self.note(name, line, f"Include is not imported: nested deeper than {_DEPTH} levels")
            return
        for pattern in _words(value):
            place = str(Path(self.source.name).parent / at_home(pattern))
            files = [path for path in self.source.beside if fnmatchcase(path, place)]
            if not files:
                self.note(name, line, f"Include {pattern}: no matching file")
            for path in sorted(files):
                self.file(path, self.source.beside[path], conditions, depth + 1)

    def note(self, file: str, line: int, text: str) -> None:
        self.notes.append(Note(file, line, text))

    def found(self) -> Found:
        if len(self.names) > MAX_NODES:
            raise InventoryError(
                f"{self.source.name}: {len(self.names)} hosts; expected at most {MAX_NODES}",
                hint="import a part of the file",
            )
        self.index()
        nodes = [self.node(name, *place) for name, place in self.names.items()]
        jumps = {
            hop.rpartition("@")[2].partition(":")[0]
            for node in nodes
            for hop in str(node.settings.get("proxy_jump", "")).split(",")
        }
        for node in nodes:
            if node.name in jumps:
                self.note(
                    node.file, node.line, f"{node.name} is also a jump host; remove it if it is not a node"
                )
        self.left_out()
        return Found(tuple(nodes), {}, tuple(self.notes))

    def index(self) -> None:
        """Index the blocks by host name, since most sections of a fleet name one host and all need not be tested."""
        self.by_name: dict[str, list[int]] = {}
        self.general: list[int] = []
        for number, block in enumerate(self.blocks):
            (patterns,) = block.conditions if len(block.conditions) == 1 else ((),)
            if not patterns or any(set("*?!") & set(pattern) for pattern in patterns):
                self.general.append(number)
                continue
            for pattern in patterns:
                self.by_name.setdefault(pattern.lower(), []).append(number)

    def about(self, name: str) -> Iterator[_Block]:
        """Yield the blocks that apply to a host, in the order of the file."""
        for number in sorted({*self.general, *self.by_name.get(name.lower(), ())}):
            block = self.blocks[number]
            self.steps.spend(1 + sum(map(len, block.conditions)) + len(block.options))
            if all(_applies(patterns, name) for patterns in block.conditions):
                yield block

    def node(self, name: str, file: str, line: int) -> FoundNode:
        options: dict[str, str] = {}
        way = "proxyjump"
        for block in self.about(name):
            for key, value, _, _ in block.options:
                if key == "proxycommand" and options.get("proxyjump", "none").lower() == "none":
                    way = key  # the first of the two disables the other, also with the value none
                options.setdefault(key, value)  # ssh_config(5): the first obtained value is used
        settings: dict[str, Setting] = {}
        if options.get("port", "").isdecimal():
            settings["port"] = whole_number(options["port"])
        for key, setting in (
            ("user", "user"),
            ("identityfile", "identity_file"),
            ("userknownhostsfile", "known_hosts"),
        ):
            words = _words(options.get(key, ""))
            if words and words[0].lower() not in _NO_FILE and "%" not in words[0]:
                settings[setting] = words[0]
        jump = " ".join(_words(options.get("proxyjump", "")))
        if way == "proxycommand":
            jump = jump_of_proxy_command(options["proxycommand"]) or ""
        if jump and jump.lower() != "none":
            settings["proxy_jump"] = jump
        address = " ".join(_words(options.get("hostname", ""))).replace("%h", name).replace("%%", "%") or None
        return FoundNode(name, file, line, None if address == name else address, settings)

    def left_out(self) -> None:
        """Note every option that is not imported, once per key, including values that only ssh can expand."""
        places: dict[str, list[tuple[str, int]]] = {}
        for block in self.blocks:
            seen: set[str] = set()
            for key, value, file, line in block.options:
                again = key in ("identityfile", "userknownhostsfile") and (
                    key in seen or len(_words(value)) > 1
                )
                proxy = key == "proxycommand" and value.lower() != "none" and not jump_of_proxy_command(value)
                token = key in ("identityfile", "userknownhostsfile") and "%" in value
                nowhere = key == "userknownhostsfile" and _words(value)[:1] == [os.devnull]
                if again or proxy or token or nowhere or (key not in _CARRIED and key not in _SILENT):
                    places.setdefault(f"a further {key}" if again else key, []).append((file, line))
                seen.add(key)
        for key, where in places.items():
            more = f" (and {len(where) - 1} more lines)" if len(where) > 1 else ""
            self.note(*where[0], f"{key} is not imported{more}")


def _applies(patterns: tuple[str, ...], name: str) -> bool:
    if any(p.startswith("!") and _like(name, p[1:]) for p in patterns):
        return False
    return any(_like(name, p) for p in patterns if not p.startswith("!"))


def _like(name: str, pattern: str) -> bool:
    return like(name.lower(), pattern.lower())


def _words(text: str) -> list[str]:
    """Split into words as ssh does: double quotes join words, and ``#`` at the start of a word begins a comment."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.quotes, lexer.escape, lexer.commenters = True, '"', "", ""
    try:
        words = list(lexer)
    except ValueError:
        words = text.split()
    return words[: next((i for i, word in enumerate(words) if word.startswith("#")), len(words))]
