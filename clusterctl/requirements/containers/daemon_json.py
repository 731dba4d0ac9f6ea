"""Read docker's ``/etc/docker/daemon.json`` and merge settings into it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from clusterctl.requirements.steps import Step, WriteFile
from clusterctl.requirements.wording import because
from clusterctl.text.foreign import NotUnderstood, json_value
from clusterctl.text.secret.scrub import scrubbed_json

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts

PATH = "/etc/docker/daemon.json"
_WITHOUT_BLANKS = dict.fromkeys(map(ord, " \t\r\n\f\v"))


def read(facts: NodeFacts) -> dict[str, Any] | None:
    """Return the file's settings, or an empty dictionary if the file does not exist or is empty.

    Return None if the file could not be read, is not a JSON object, or contains a key twice: rewriting it would
    lose settings.
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
    """Return why ``read`` returned None; at many sites only root may read the file."""
    reading = facts.docker.daemon_config
    return because(PATH, reading) if reading.is_unknown else f"{PATH} is not a JSON object with unique keys"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key appears twice")
    return dict(pairs)


def write(facts: NodeFacts, description: str, text: str) -> WriteFile:
    """Return the step that writes the merged text, if the file has not changed since it was read."""
    return WriteFile(description, PATH, text, _mode(facts), _sum(facts.docker.daemon_config.value or ""))


def _mode(facts: NodeFacts) -> int:
    # Keep a site's restricted mode: the file may contain a proxy's password.
    return 0o644 if facts.docker.daemon_mode is None else facts.docker.daemon_mode


def _sum(text: str) -> str:
    # files.sh also removes blanks before hashing, because facts do not keep line ends.
    return hashlib.sha256(text.translate(_WITHOUT_BLANKS).encode(errors="replace")).hexdigest()


def is_written_by(step: Step) -> TypeGuard[WriteFile]:
    """Whether a step writes the file: the only step that contains a node's own text, including secrets."""
    return isinstance(step, WriteFile) and step.path == PATH


def merged(found: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    """Return the file's text with ``changes`` merged recursively; other settings and the key order stay."""
    return json.dumps(_deep(found, changes), indent=2, allow_nan=False) + "\n"


def recorded(text: str) -> str:
    """Return the file's text as stored in a plan on disk, with the logins of proxies replaced by stars."""
    return scrubbed_json(text)


def restored(stored: str, facts: NodeFacts) -> str | None:
    """Return the node's text for a stored one, secrets included; None if the node's file has changed."""
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
    """Return the default soft memlock limit of containers (bytes; -1: unlimited), or None if the file sets none."""
    ulimits = found.get("default-ulimits")
    limit = ulimits.get("memlock") if isinstance(ulimits, dict) else None
    soft = limit.get("Soft") if isinstance(limit, dict) else None
    return soft if isinstance(soft, int) else None
