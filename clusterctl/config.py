"""Resolve clusterctl's own settings, and record where each value came from.

Precedence: command-line option, environment variable, ``config.yaml``, default.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml

from clusterctl.errors import ConfigError
from clusterctl.text import user_files

MAX_BYTES = 1 << 16
T = TypeVar("T", bound="int | float | str")


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """Describe one setting: its name in ``config.yaml``, its default, which also gives its type, and its purpose."""

    name: str
    default: T
    help: str

    @property
    def variable(self) -> str:
        return f"CLUSTERCTL_{self.name.upper()}"


@dataclass(frozen=True, slots=True)
class Chosen(Generic[T]):
    """Hold a setting's value and its origin (``flag``, ``$VARIABLE``, a file's path, or ``default``)."""

    value: T
    origin: str


FANOUT = Setting("fanout", 64, "nodes contacted at once")
CONNECT_TIMEOUT_S = Setting("connect_timeout_s", 10.0, "seconds to wait for a node to answer SSH")
COMMAND_TIMEOUT_S = Setting("command_timeout_s", 120.0, "seconds a node may take to gather its facts")
APPLY_TIMEOUT_S = Setting("apply_timeout_s", 3600.0, "seconds a node may take for all its changes")
SETTINGS: tuple[Setting[Any], ...] = (FANOUT, CONNECT_TIMEOUT_S, COMMAND_TIMEOUT_S, APPLY_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """Describe an environment variable that is not a setting of ``config.yaml``, with its default in words."""

    name: str
    default: str
    help: str
    secret: bool = False


_PREFIX = "CLUSTERCTL_"
VARIABLES = (
    EnvironmentVariable(
        "CLUSTERCTL_INVENTORY", "./inventory.yaml, else this machine", "inventory file, or targets"
    ),
    EnvironmentVariable(
        "CLUSTERCTL_RUNS",
        "beside the inventory, else ~/.local/state",
        "directory for run folders and stored results",
    ),
    EnvironmentVariable("CLUSTERCTL_KNOWN_HOSTS", "~/.ssh/known_hosts and the system's", "known host keys"),
    EnvironmentVariable("CLUSTERCTL_SSH_CONFIG", "~/.ssh/config and the system's", "the ssh_config to read"),
    EnvironmentVariable(
        "CLUSTERCTL_SUDO_PASSWORD", "asked on a terminal", "sudo password of the nodes", secret=True
    ),
)
# clusterctl sets these for the ranks that it starts.
_OF_RANKS = frozenset({"CLUSTERCTL_LAUNCH", "CLUSTERCTL_SHARE_GPUS"})


def unknown_variables(names: Iterable[str]) -> dict[str, str | None]:
    """Return each name that looks like a variable of clusterctl and is not one, with the nearest real name."""
    known = {*(setting.variable for setting in SETTINGS), *(one.name for one in VARIABLES)}
    unknown = {name for name in names if name.startswith(_PREFIX)} - known - _OF_RANKS
    return {
        name: next(iter(get_close_matches(name, known, n=1, cutoff=0.8)), None) for name in sorted(unknown)
    }


def of_variable(variable: EnvironmentVariable) -> tuple[str, str]:
    """Return the value of a variable, stars for a secret, and its origin."""
    value = os.environ.get(variable.name)
    if not value:
        return variable.default, "default"
    return "***" if variable.secret else value, f"${variable.name}"


def config_path() -> Path:
    """Return the configuration file's path (XDG base directory specification)."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return Path(home) / "clusterctl" / "config.yaml"


def _from_file(path: Path) -> dict[str, Any]:
    # os.path.exists returns False where Path.exists raises: in a $HOME that belongs to another user.
    if not os.path.exists(path):  # noqa: PTH110
        return {}
    try:
        document = yaml.safe_load(user_files.read_text(path, MAX_BYTES)) or {}
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}",
            hint=user_files.hint_of(error, "fix or remove the file"),
        ) from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read as YAML: {error}", hint="fix or remove the file") from None
    known = {setting.name for setting in SETTINGS}
    if not isinstance(document, dict):
        raise ConfigError(
            f"{path}: expected lines of the form 'SETTING: VALUE', not {_shown(document)}",
            hint=f"write one setting a line, or remove the file; settings are: {', '.join(sorted(known))}",
        )
    unknown = sorted(map(str, set(document) - known))
    if unknown:
        raise ConfigError(
            f"{path}: unknown settings: {', '.join(unknown)}",
            hint=f"{_meant(unknown[0], known)}known settings are: {', '.join(sorted(known))}",
        )
    return document


def _meant(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}? " if close else ""


def _shown(value: Any) -> str:
    """Return a value for a message, shortened: YAML aliases turn a few bytes into lists too long to print."""
    if not isinstance(value, (str, int, float)):
        return f"a {type(value).__name__}"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    return repr(value)[:100]


def resolve(setting: Setting[T], flag: T | None = None) -> Chosen[T]:
    """Return a setting's value and its origin; raise ConfigError when a value has the wrong type."""
    if flag is not None:
        return Chosen(flag, "flag")
    raw: Any = os.environ.get(setting.variable)
    origin = f"${setting.variable}"
    if raw is None:
        path = config_path()
        document = _from_file(path)
        if setting.name not in document:
            return Chosen(setting.default, "default")
        raw, origin = document[setting.name], str(path)
    kind = type(setting.default)
    try:
        value = kind(raw)
        # int() would turn YAML's true into 1 and 3.7 into 3. A waiting time must also be finite.
        if (
            isinstance(raw, bool)
            or (isinstance(raw, float) and value != raw)
            or str(value) in ("nan", "inf", "-inf")
        ):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        wanted = {int: "a whole number", float: "a number"}.get(kind, "text")
        raise ConfigError(
            f"{origin}: {setting.name} is {_shown(raw)}, but {wanted} was expected",
            hint=f"{setting.name}: {setting.help}",
        ) from None
    if not isinstance(value, str) and value <= 0:
        raise ConfigError(f"{origin}: {setting.name} must be above zero, not {_shown(raw)}")
    return Chosen(value, origin)
