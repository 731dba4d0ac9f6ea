"""Read ~/.ssh/config: a node for every Host without wildcards, with the settings of the file.

``Match`` is not evaluated, because ``Match exec`` would run commands. The tests compare the result with ``ssh -G``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from clusterctl.errors import InventoryError
from clusterctl.inventory.imports.budget import MOST_STEPS, Budget
from clusterctl.inventory.imports.found import (
    FoundNode,
    ImportedInventory,
    ImportNote,
    Setting,
    Source,
    require_short_lines,
    whole_number,
)
from clusterctl.inventory.nodeset import MAX_NODES
from clusterctl.inventory.user_paths import at_home
from clusterctl.text.openssh import reader
from clusterctl.text.openssh.jumps import jump_of_proxy_command
from clusterctl.text.openssh.known_hosts import SSH_PORT
from clusterctl.text.openssh.patterns import is_pattern
from clusterctl.text.openssh.reader import ConfigSection, Line

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


def looks_like(text: str) -> bool:
    """Return whether a line begins a Host section, and every line begins with a keyword (not with gpu01)."""
    lines = [line for raw in reader.lines(text) if (line := raw.strip()) and not line.startswith("#")]
    return any(re.match(r"Host[\s=]+\S", line, re.IGNORECASE) for line in lines) and all(
        re.match(r"(?:[A-Za-z]+|PKCS11Provider)(?![\w.:-])", line, re.IGNORECASE) for line in lines
    )


def read(source: Source) -> ImportedInventory:
    """Read the file and its Includes (``source.beside``); wildcards give settings, not nodes."""
    return _Import(source).found()


class _Import:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.notes: list[ImportNote] = []
        self.included = Budget(source.name, _MOST_TEXT)
        self.steps = Budget(source.name, MOST_STEPS)
        self.config = reader.Config()
        self.config.add(source.name, self.checked(source.name, source.text), self.include)
        self.names: dict[str, Line] = {}
        for section in self.config.sections:
            opened = section.opened
            # A section that an Include makes conditional names no further nodes.
            if opened is None or opened.key != "host" or len(section.criteria) > 1 or section.match:
                continue
            for pattern in opened.words:
                if not is_pattern(pattern):
                    self.names.setdefault(pattern, opened)
        for match in dict.fromkeys(s.match for s in self.config.sections if s.match is not None):
            self.note(match, f"'Match {match.value}' and its settings are not imported")

    def checked(self, name: str, text: str) -> str:
        # Files that include each other several times multiply the text, so its size is bounded.
        self.included.spend(1 + len(text))
        require_short_lines(name, text)
        return text

    def include(self, line: Line, within: ConfigSection, depth: int) -> Iterator[tuple[str, str]]:
        if within.match is not None:
            return
        if depth >= _DEPTH:
            self.note(line, f"Include is not imported: nested deeper than {_DEPTH} levels")
            return
        for pattern in line.words:
            place = str(Path(self.source.name).parent / at_home(pattern))
            files = [path for path in self.source.beside if fnmatchcase(path, place)]
            if not files:
                self.note(line, f"Include {pattern}: no matching file")
            for path in sorted(files):
                yield path, self.checked(path, self.source.beside[path])

    def note(self, line: Line, text: str) -> None:
        self.notes.append(ImportNote(line.file, line.number, text))

    def found(self) -> ImportedInventory:
        if len(self.names) > MAX_NODES:
            raise InventoryError(
                f"{self.source.name}: {len(self.names)} hosts; expected at most {MAX_NODES}",
                hint="import a part of the file",
            )
        nodes = [self.node(name, opened) for name, opened in self.names.items()]
        jumps = {
            hop.rpartition("@")[2].partition(":")[0]
            for node in nodes
            for hop in str(node.settings.get("proxy_jump", "")).split(",")
        }
        for node in nodes:
            if node.name in jumps:
                self.note(
                    self.names[node.name], f"{node.name} is also a jump host; remove it if it is not a node"
                )
        self.left_out()
        return ImportedInventory(tuple(nodes), {}, tuple(self.notes))

    def about(self, name: str) -> Iterator[ConfigSection]:
        """Yield the sections that apply to a host, in the order of the file."""
        for section in self.config.about(name):
            self.steps.spend(1 + sum(len(one.patterns) for one in section.criteria) + len(section.settings))
            if section.match is None and reader.names_host(section.criteria, name):
                yield section

    def node(self, name: str, opened: Line) -> FoundNode:
        options: dict[str, tuple[str, ...]] = {}
        for section in self.about(name):
            for line in section.settings:
                reader.take(line, name, options)
        settings: dict[str, Setting] = {}
        port = reader.option(options, "port") or ""
        if port.isdecimal():
            settings["port"] = whole_number(port)
        for key, setting in (
            ("user", "user"),
            ("identityfile", "identity_file"),
            ("userknownhostsfile", "known_hosts"),
        ):
            words = options.get(key, ())
            if words and words[0].lower() not in _NO_FILE and "%" not in words[0]:
                settings[setting] = words[0]
        address = reader.option(options, "hostname")
        if jump := self.jump(name, address or name, options, opened):
            settings["proxy_jump"] = jump
        return FoundNode(name, opened.file, opened.number, None if address == name else address, settings)

    def jump(self, name: str, host: str, options: reader.Options, opened: Line) -> str | None:
        """Return the jump host of a host; ``none`` if the file switches it off, None if the file does not set it.

        Without ``none``, another section of ~/.ssh/config that matches the node's address would set one at login.
        """
        command = reader.option(options, "proxycommand")
        if command is None:
            jump = reader.option(options, "proxyjump")
            if jump is None and ("proxyjump" in options or "proxycommand" in options):
                return "none"
        else:
            jump = jump_of_proxy_command(command)
        if jump is None:
            return None
        tokens = {"%": "%", "h": host, "n": name, "p": reader.option(options, "port") or str(SSH_PORT)}
        user = reader.option(options, "user")
        jump = reader.filled(jump, tokens if user is None else tokens | {"r": user})
        if "%" not in jump:
            return jump
        self.note(opened, f"the jump host {jump} of {name} is not imported: only ssh can expand it")
        return None

    def left_out(self) -> None:
        """Note every option that is not imported, once per key, including values that only ssh can expand."""
        places: dict[str, list[Line]] = {}
        for section in self.config.sections:
            seen: set[str] = set()
            for line in section.settings if section.match is None else ():
                key, words = line.key, line.words
                again = key in ("identityfile", "userknownhostsfile") and (key in seen or len(words) > 1)
                proxy = (
                    key == "proxycommand"
                    and line.value.lower() != "none"
                    and not jump_of_proxy_command(line.value)
                )
                token = key in ("identityfile", "userknownhostsfile") and "%" in line.value
                nowhere = key == "userknownhostsfile" and words[:1] == (os.devnull,)
                if again or proxy or token or nowhere or (key not in _CARRIED and key not in _SILENT):
                    places.setdefault(f"a further {key}" if again else key, []).append(line)
                seen.add(key)
        for key, found in places.items():
            more = f" (and {len(found) - 1} more lines)" if len(found) > 1 else ""
            self.note(found[0], f"{key} is not imported{more}")
