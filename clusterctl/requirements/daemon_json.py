"""Docker's ``/etc/docker/daemon.json``: what it says, and the same with something added."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from clusterctl.foreign import NotUnderstood, json_value
from clusterctl.requirements.base import Step, WriteFile
from clusterctl.requirements.wording import because
from clusterctl.secret.scrub import scrubbed_json

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts

PATH = "/etc/docker/daemon.json"
_WITHOUT_BLANKS = dict.fromkeys(map(ord, " \t\r\n\f\v"))


def read(facts: NodeFacts) -> dict[str, Any] | None:
    """Return what the file says, an empty one where there is none.

    None when it was not seen, is no JSON object, or names a key twice: written anew it would lose something.
    """
    reading = facts.docker.daemon_config
    if reading.value is None:
        return None if reading.is_unknown else {}
    if not reading.value.strip():
        return {}
    try:
        found = json_value(reading.value, pairs=_once)
    except NotUnderstood:
        return None
    return found if isinstance(found, dict) else None


def why_not(facts: NodeFacts) -> str:
    """Say why ``read`` has nothing: many sites keep the file to root."""
    reading = facts.docker.daemon_config
    return because(PATH, reading) if reading.is_unknown else f"{PATH} is not understood"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key is named twice")
    return dict(pairs)


def write(facts: NodeFacts, description: str, text: str) -> WriteFile:
    """Return the step that writes what ``merged`` has made of the file, if it still says what was read."""
    return WriteFile(description, PATH, text, _mode(facts), _sum(facts.docker.daemon_config.value or ""))


def _mode(facts: NodeFacts) -> int:
    # A site may keep it to root for a proxy's password in it.
    return 0o644 if facts.docker.daemon_mode is None else facts.docker.daemon_mode


def _sum(text: str) -> str:
    # Without blanks, as files.sh takes it: the ends of lines are not facts.
    return hashlib.sha256(text.translate(_WITHOUT_BLANKS).encode(errors="replace")).hexdigest()


def is_written_by(step: Step) -> TypeGuard[WriteFile]:
    """Whether a step writes the file: the one step with a node's own text, and its secrets, in it."""
    return isinstance(step, WriteFile) and step.path == PATH


def merged(found: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    """Return the file's text with ``changes`` merged in depth; everything else stays, in its order."""
    return json.dumps(_deep(found, changes), indent=2, allow_nan=False) + "\n"


def recorded(text: str) -> str:
    """Return the file's text as a plan on disk holds it: the logins of proxies in it read as stars."""
    return scrubbed_json(text)


def restored(stored: str, facts: NodeFacts) -> str | None:
    """Return the text that a stored one stands for, which is the node's file; None where that is another one."""
    standing = facts.docker.daemon_config.value
    if standing is not None and recorded(f"{standing}\n").rstrip("\n") == stored.rstrip("\n"):
        return f"{standing}\n"
    return None


def _deep(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = _deep(old, value) if both and old is not None else value
    return result


def default_memlock(found: Mapping[str, Any]) -> int | None:
    """Return the soft memlock limit (bytes; -1: unlimited) that containers get by default, if it says one."""
    ulimits = found.get("default-ulimits")
    limit = ulimits.get("memlock") if isinstance(ulimits, dict) else None
    soft = limit.get("Soft") if isinstance(limit, dict) else None
    return soft if isinstance(soft, int) else None
