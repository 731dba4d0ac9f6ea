"""paramiko's private members: each that is used exists in this release, and one module alone uses them."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import paramiko
import pytest

from clusterctl.transport import paramiko_internals

ROOT = Path(__file__).parents[2]
OWNER = ROOT / "clusterctl/transport/paramiko_internals.py"
# What the module takes from paramiko beyond its documented interface, by the class that must have it.
CLASS_MEMBERS = {
    paramiko.Transport: (
        *(
            "_preferred_ciphers",
            "_preferred_macs",
            "_preferred_kex",
            "_channel_handler_table",
            "_send_user_message",
        ),
        *("run", "get_exception", "set_log_channel", "get_security_options", "set_keepalive", "open_channel"),
    ),
    paramiko.Channel: ("_send", "_handle_request", "_handle_close", "send", "sendall", "shutdown", "close"),
    paramiko.packet.Packetizer: ("start_handshake", "read_all"),
    paramiko.agent.AgentSSH: ("_connect", "get_keys"),
    paramiko.Agent: ("close",),
    paramiko.AgentKey: ("sign_ssh_data",),
}
INSTANCE_MEMBERS = {
    paramiko.Transport: (
        *(
            "sock",
            "packetizer",
            "active",
            "auth_handler",
            "banner_timeout",
            "channel_timeout",
            "completion_event",
        ),
        *("initial_kex_done", "remote_version", "saved_exception"),
    ),
    paramiko.Channel: (
        *("closed", "eof_received", "eof_sent", "exit_status", "in_buffer", "in_stderr_buffer", "lock"),
        *(
            "out_buffer_cv",
            "out_max_packet_size",
            "out_window_size",
            "remote_chanid",
            "status_event",
            "transport",
        ),
    ),
    paramiko.SSHClient: ("_transport",),
}


@pytest.mark.parametrize("owner", CLASS_MEMBERS)
def test_the_members_that_are_overridden_or_called_exist(owner: type) -> None:
    assert [name for name in CLASS_MEMBERS[owner] if not hasattr(owner, name)] == []


@pytest.mark.parametrize("owner", INSTANCE_MEMBERS)
def test_the_attributes_that_are_read_are_set(owner: type) -> None:
    source = inspect.getsource(owner)
    assert [name for name in INSTANCE_MEMBERS[owner] if f"self.{name} = " not in source] == []


def test_the_messages_that_are_handled_in_place_of_paramiko_have_handlers_in_it() -> None:
    own, theirs = (wire._channel_handler_table for wire in (paramiko_internals.Wire, paramiko.Transport))
    assert own.keys() == theirs.keys()
    assert len([kind for kind in own if own[kind] is not theirs[kind]]) == 3


def private_names() -> set[str]:
    """Return every private name of paramiko's classes, set in a class or in one of its methods."""
    found: set[str] = set()
    for module in pkgutil.iter_modules(paramiko.__path__):
        if module.name.startswith("_") or module.name == "win_pageant":
            continue
        for node in ast.walk(ast.parse(inspect.getsource(import_module(f"paramiko.{module.name}")))):
            if isinstance(node, ast.FunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def uses(path: Path, private: set[str]) -> list[str]:
    """Return the places where a file subclasses paramiko, changes an object's class, or uses a private member."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not any(name in path.read_text(encoding="utf-8") for name in ("paramiko", "fabric", "__class__")):
        return []
    derived = set(paramiko_internals.__all__)
    own = {
        id(node)
        for found in ast.walk(tree)
        if isinstance(found, ast.ClassDef) and not derived & {ast.unparse(base) for base in found.bases}
        for node in ast.walk(found)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            if any("paramiko" in ast.unparse(base) for base in node.bases):
                found.append(f"{path.name}:{node.lineno}: subclass {node.name}")
        elif isinstance(node, ast.Attribute) and node.attr in {*private, "__class__"}:
            of_itself = (
                isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") and id(node) in own
            )
            if not of_itself:
                found.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    return found


def test_no_other_module_uses_private_members_of_paramiko() -> None:
    private = private_names()
    assert {"_send_user_message", "_transport", "_channel_handler_table"} <= private
    assert uses(OWNER, private), "the search finds nothing, not even where it must"
    others = [path for path in (ROOT / "clusterctl").rglob("*.py") if path != OWNER]
    assert len(others) > 200
    assert [use for path in others for use in uses(path, private)] == []


def test_paramiko_is_bounded_from_above() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    bounds = re.search(r'"paramiko>=5,<(\d+)"', text)
    assert bounds is not None and int(paramiko.__version__.partition(".")[0]) < int(bounds[1])
