"""Convert Ansible's variables for connections to settings, and note all other variables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from clusterctl.inventory.imports.ansible_tree import Variable
from clusterctl.inventory.imports.found import ImportNote, Setting, whole_number
from clusterctl.text.openssh.jumps import jump_of_proxy_command
from clusterctl.text.secret.scrub import names_a_secret

# Later names take precedence, as in Ansible's ssh connection plugin.
_ADDRESS = ("ansible_host", "ansible_ssh_host")
_PORT = ("ansible_port", "ansible_ssh_port")
_USER = ("ansible_user", "ansible_ssh_user")
_KEY = ("ansible_private_key_file", "ansible_ssh_private_key_file")
_ARGS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_BECOME = ("ansible_become", "ansible_become_method", "ansible_become_user")
_CONNECTION = "ansible_connection"
_PYTHON = "ansible_python_interpreter"
_READ = {*_ADDRESS, *_PORT, *_USER, *_KEY, *_ARGS, *_BECOME, _CONNECTION, _PYTHON}
_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.netcommon.libssh")
_LOCAL = ("local", "ansible.builtin.local")
_TRUE = (True, "yes", "true", "on", "1", 1, "True", "Yes")
# Options of ssh that clusterctl sets itself.
_OWN_OPTIONS = ("controlmaster", "controlpersist", "controlpath", "batchmode", "loglevel", "connecttimeout")


class Leftovers:
    """Variables that are not imported: one note per variable, with its first line."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Variable, set[tuple[str, int]]]] = {}

    def add(self, text: str, variable: Variable) -> None:
        """Add a variable; further places with the same text are only counted."""
        self._seen.setdefault(text, (variable, set()))[1].add((variable.file, variable.line))

    def notes(self) -> list[ImportNote]:
        """Return the notes in order of their first occurrence."""
        found = []
        for text, (variable, places) in self._seen.items():
            file, line = min(places, key=lambda place: (place[0] != variable.file, place))
            more = f" (and {len(places) - 1} more lines)" if len(places) > 1 else ""
            found.append(ImportNote(file, line, text + more))
        return found


def mapped(
    variables: Mapping[str, Variable], left: Leftovers
) -> tuple[str | None, dict[str, Setting]] | None:
    """Return a host's address and settings; None if its connection is neither ssh nor local."""
    settings: dict[str, Setting] = {}
    connection = _text(variables, (_CONNECTION,), left)
    if connection in _LOCAL:
        settings["connection"] = "local"
    elif connection is not None and connection not in _SSH:
        return None
    # Ansible treats a host named localhost as local by default; clusterctl requires the variable.
    address = _text(variables, _ADDRESS, left)
    port = _text(variables, _PORT, left)
    if port is not None and port.isdecimal():
        settings["port"] = whole_number(port)
    elif port is not None:
        left.add(f"the port {port[:20]!r} is not imported: expected a number", _last(variables, _PORT))
    for names, key in ((_USER, "user"), (_KEY, "identity_file")):
        value = _text(variables, names, left)
        if value is not None:
            settings[key] = value
    python = _text(variables, (_PYTHON,), left)
    if python is not None and python.startswith("/"):
        settings["python"] = python
    elif python is not None and not python.startswith("auto"):
        left.add(f"{_PYTHON} is not imported: expected an absolute path", variables[_PYTHON])
    for name in _ARGS:
        value = _text(variables, (name,), left)
        if value is not None:
            _ssh_arguments(value, settings, variables[name], name, left)
    _become(variables, settings, left)
    for name, variable in variables.items():
        if name not in _READ:
            _leave(name, variable, left)
    return address, settings


def _text(variables: Mapping[str, Variable], names: tuple[str, ...], left: Leftovers) -> str | None:
    """Return the last of these variables that is set, as text; skip templates and vault values with a note."""
    chosen: str | None = None
    for name in names:
        variable = variables.get(name)
        if variable is None:
            continue
        if variable.vault:
            left.add(f"the vault value of {name} is not imported", variable)
        elif isinstance(variable.value, str) and ("{{" in variable.value or "{%" in variable.value):
            left.add(f"{name} is not imported: it is a template, which only Ansible can expand", variable)
        elif isinstance(variable.value, (str, int)) and str(variable.value).strip():
            chosen = str(variable.value).strip()
    return chosen


def _last(variables: Mapping[str, Variable], names: tuple[str, ...]) -> Variable:
    return next(variables[name] for name in reversed(names) if name in variables)


def _become(variables: Mapping[str, Variable], settings: dict[str, Setting], left: Leftovers) -> None:
    wanted = variables.get("ansible_become")
    method = variables.get("ansible_become_method")
    user = variables.get("ansible_become_user")
    if wanted is not None and _is_true(wanted.value):
        settings["become"] = "sudo"
        if method is not None and str(method.value) not in ("sudo", "ansible.builtin.sudo"):
            left.add(
                f"ansible_become_method {method.value} is not imported: clusterctl supports only sudo", method
            )
    if user is not None and user.value != "root":
        left.add("ansible_become_user is not imported: clusterctl only becomes root", user)


def _is_true(value: Any) -> bool:
    return any(value is true or (isinstance(value, str) and value == true) for true in _TRUE)


def _leave(name: str, variable: Variable, left: Leftovers) -> None:
    if variable.vault:
        left.add(f"the vault value of {name} is not imported", variable)
    elif names_a_secret(name) or re.search(r"_pass$|_pass_|^pass$", name):
        left.add(f"the secret in {name} is not imported", variable)
    else:
        left.add(f"the variable {name} is not imported", variable)


def _ssh_arguments(
    text: str, settings: dict[str, Setting], variable: Variable, name: str, left: Leftovers
) -> None:
    """Add the connection settings in ssh arguments: -J, -i, -p, -l and the same options as -o."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        left.add(f"{name} is not imported: {error}", variable)
        return
    while words:
        word = words.pop(0)
        flag, value = word[:2], word[2:]
        if flag in ("-J", "-i", "-p", "-l", "-o", "-F", "-W", "-S", "-b", "-D", "-L", "-R") and not value:
            value = words.pop(0) if words else ""
        if flag == "-o":
            key, _, value = value.partition("=") if "=" in value else value.partition(" ")
            key = key.strip().lower()
        else:
            key = {"-J": "proxyjump", "-i": "identityfile", "-p": "port", "-l": "user"}.get(flag, flag)
        value = value.strip().strip('"')
        jump = jump_of_proxy_command(value) if key == "proxycommand" else None
        if key == "proxyjump" or jump:
            settings["proxy_jump"] = jump or value
        elif key == "identityfile":
            settings.setdefault("identity_file", value)
        elif key == "userknownhostsfile" and value != "/dev/null":
            settings["known_hosts"] = value
        elif key == "port" and value.isdecimal():
            settings.setdefault("port", whole_number(value))
        elif key == "user":
            settings.setdefault("user", value)
        elif key not in _OWN_OPTIONS and key not in ("-C", "-q"):
            # Only options are shown, because another word may be a password.
            shown = f"-o {key}" if flag == "-o" else flag if flag.startswith("-") else "a word"
            left.add(f"{shown} in {name} is not imported", variable)
