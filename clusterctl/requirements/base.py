"""Define requirements: pure judges of facts, and the steps (with their undo) that meet them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal, Protocol, Union

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

Json = Union[None, bool, int, float, str, "list[Json]", "dict[str, Json]"]


class Status(str, Enum):
    """The possible results of a judge."""

    MET = "met"
    UNMET = "unmet"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not-applicable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a judge, with its reason and the evidence it is based on."""

    requirement: str
    status: Status
    reason: str
    evidence: Mapping[str, Json] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Write a file with this content and mode; undo restores the old bytes, mode and owner, or removes the file.

    ``made_from``: the SHA-256 of the node's old content without its blanks, if ``content`` was merged from it. A file
    that has changed since then is left alone.
    """

    description: str
    path: str
    content: str
    mode: int = 0o644
    made_from: str | None = field(default=None, compare=False)
    kind: Literal["write-file"] = "write-file"


@dataclass(frozen=True, slots=True)
class WriteBlock:
    """Write a marked block into a file that other programs write too; undo removes only the block.

    The block stands between ``# BEGIN clusterctl NAME`` and ``# END clusterctl NAME``. A missing file is created
    with ``mode`` and ``owner`` (a user name; it also owns a directory created for the file). An existing file
    keeps its mode and owner.
    """

    description: str
    path: str
    name: str
    content: str
    mode: int = 0o644
    owner: str | None = None
    kind: Literal["write-block"] = "write-block"


@dataclass(frozen=True, slots=True)
class WriteValue:
    """Write a value to a sysfs or procfs file and read it back; undo writes ``prior``, the value before."""

    description: str
    path: str
    value: str
    prior: str
    kind: Literal["write-value"] = "write-value"


@dataclass(frozen=True, slots=True)
class SetRegister:
    """Write a PCI configuration register by its ``setpci`` name and read it back as a number.

    ``value`` and ``prior`` are hexadecimal; undo writes ``prior``.
    """

    description: str
    device: str
    register: str
    value: str
    prior: str
    kind: Literal["set-register"] = "set-register"


@dataclass(frozen=True, slots=True)
class Command:
    """Run a command that changes the node; ``undo`` is the command that reverts it (None: nothing to revert).

    ``guard``: a command that succeeds if the change is already made; it also verifies the change afterwards. All
    three must be idempotent, because they may run again after a crash. ``timeout_s`` is in seconds.
    """

    description: str
    argv: tuple[str, ...]
    undo: tuple[str, ...] | None
    guard: tuple[str, ...] | None = None
    timeout_s: float = 600.0
    kind: Literal["command"] = "command"


@dataclass(frozen=True, slots=True)
class LoadModule:
    """Load a kernel module; undo unloads it if this step loaded it."""

    description: str
    module: str
    kind: Literal["load-module"] = "load-module"


@dataclass(frozen=True, slots=True)
class EnableUnit:
    """Enable a systemd unit and, with ``start``, start it; undo restores its former enabled and active states."""

    description: str
    unit: str
    start: bool = True
    kind: Literal["enable-unit"] = "enable-unit"


@dataclass(frozen=True, slots=True)
class RestartUnit:
    """Restart a running systemd unit so that it reads its files again; undo restarts it after restoring the files."""

    description: str
    unit: str
    kind: Literal["restart-unit"] = "restart-unit"


@dataclass(frozen=True, slots=True)
class InstallPackages:
    """Install packages with the distribution's package manager; undo removes those that this step installed.

    For sites without repositories, the packages come from a directory on the controller, which holds the files and
    their ``SHA256SUMS``: clusterctl copies the files to the node and installs from them.
    """

    description: str
    manager: Literal["apt", "dnf"]
    packages: tuple[str, ...]
    folder: str | None = None
    kind: Literal["install-packages"] = "install-packages"


@dataclass(frozen=True, slots=True)
class PutTree:
    """Copy a directory or tarball from the controller to the node; undo restores the previous content."""

    description: str
    source: str
    path: str
    kind: Literal["put-tree"] = "put-tree"


@dataclass(frozen=True, slots=True)
class Reboot:
    """Reboot the node if reboots are allowed and no user works on it; always the last step of a node's round.

    ``timeout_s``: seconds until the node must answer again. Later steps are planned from facts gathered afterwards.
    """

    description: str
    timeout_s: float = 900.0
    kind: Literal["reboot"] = "reboot"


Step = Union[  # noqa: UP007 - evaluated at run time on 3.10
    WriteFile,
    WriteBlock,
    WriteValue,
    SetRegister,
    Command,
    LoadModule,
    EnableUnit,
    RestartUnit,
    InstallPackages,
    PutTree,
    Reboot,
]


class Requirement(Protocol):
    """The interface of a requirement module: ``NAME``, ``TITLE``, ``READS``, ``judge`` and ``steps``.

    ``READS`` lists the subjects (``facts.subjects``) whose facts the module uses, of this node and of others. The
    module must judge and plan the same if no other subject was probed.
    """

    NAME: str
    TITLE: str
    READS: frozenset[str]

    def judge(self, facts: NodeFacts, node: Node, fleet: Fleet) -> Verdict:
        """Return whether the node meets the requirement, considering the other nodes of its fleet; pure."""

    def steps(self, facts: NodeFacts, node: Node, fleet: Fleet) -> tuple[Step, ...]:
        """Return the steps that meet the requirement, in order; empty if it is met or cannot be fixed now; pure.

        Steps that depend on these (on a key that must exist first, or on a reboot) are planned in the next
        round, from facts gathered after this one.
        """
