"""What a requirement is: a pure judgement of facts, and the steps (with their undo) that make it true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal, Protocol, Union

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet import Fleet

Json = Union[None, bool, int, float, str, "list[Json]", "dict[str, Json]"]


class Status(str, Enum):
    """What a requirement's judge can say."""

    MET = "met"
    UNMET = "unmet"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not-applicable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement: never without a reason, and with the evidence that it rests on."""

    requirement: str
    status: Status
    reason: str
    evidence: Mapping[str, Json] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Make a file have this content and mode; undo restores the old bytes, mode and owner, or removes it.

    ``made_from``: of a content that keeps what the node's file said, the SHA-256 of that without its blanks. A file
    that says something else by then is left alone.
    """

    description: str
    path: str
    content: str
    mode: int = 0o644
    made_from: str | None = field(default=None, compare=False)
    kind: Literal["write-file"] = "write-file"


@dataclass(frozen=True, slots=True)
class WriteBlock:
    """Keep a marked block in a file that others write too; undo takes out the block and nothing else.

    The block stands between ``# BEGIN clusterctl NAME`` and ``# END clusterctl NAME``. A file that is not
    there is made with ``mode`` and ``owner`` (a user's name, also for the folder it has to make); one that is
    there keeps its own.
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
    """Write a value to a sysfs or procfs file, with read-back; ``prior`` is what it held."""

    description: str
    path: str
    value: str
    prior: str
    kind: Literal["write-value"] = "write-value"


@dataclass(frozen=True, slots=True)
class SetRegister:
    """Write a PCI configuration register by ``setpci`` name, with numeric read-back; ``prior`` in hex."""

    description: str
    device: str
    register: str
    value: str
    prior: str
    kind: Literal["set-register"] = "set-register"


@dataclass(frozen=True, slots=True)
class Command:
    """Run a command that changes something, and the command that takes it back (None: leaves nothing).

    ``guard``: a command whose success says that there is nothing to do, and that reads back the change once
    it was made. All three may be run again after a crash, and so must be safe to repeat.
    """

    description: str
    argv: tuple[str, ...]
    undo: tuple[str, ...] | None
    guard: tuple[str, ...] | None = None
    timeout_s: float = 600.0
    kind: Literal["command"] = "command"


@dataclass(frozen=True, slots=True)
class LoadModule:
    """Load a kernel module; undo unloads it if it was this step that loaded it."""

    description: str
    module: str
    kind: Literal["load-module"] = "load-module"


@dataclass(frozen=True, slots=True)
class EnableUnit:
    """Enable (and start) a systemd unit; undo restores whether it was enabled and active."""

    description: str
    unit: str
    start: bool = True
    kind: Literal["enable-unit"] = "enable-unit"


@dataclass(frozen=True, slots=True)
class RestartUnit:
    """Let a running systemd unit read its files anew; its undo does so again, after all files are back."""

    description: str
    unit: str
    kind: Literal["restart-unit"] = "restart-unit"


@dataclass(frozen=True, slots=True)
class InstallPackages:
    """Install packages with the distribution's manager; undo removes those that this step newly brought.

    ``folder``: a folder of the controller with package files and their ``SHA256SUMS``; they are carried to the
    node and installed from there, without any repository.
    """

    description: str
    manager: Literal["apt", "dnf"]
    packages: tuple[str, ...]
    folder: str | None = None
    kind: Literal["install-packages"] = "install-packages"


@dataclass(frozen=True, slots=True)
class PutTree:
    """Copy a directory or tarball of the controller to the node; undo puts back what was there."""

    description: str
    source: str
    path: str
    kind: Literal["put-tree"] = "put-tree"


@dataclass(frozen=True, slots=True)
class Reboot:
    """Boot the node anew, when reboots are allowed and nobody works on it; always a node's last step of a round.

    ``timeout_s``: how long it may take to answer again. What follows is planned from what it then looks like.
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
    """A module of this package: ``NAME``, ``TITLE``, ``READS``, ``judge`` and ``steps``.

    ``READS`` names the subjects (``facts.subjects``) whose facts it looks at, on this node and on others: it has to
    judge and plan the same when nodes were asked about nothing else.
    """

    NAME: str
    TITLE: str
    READS: frozenset[str]

    def judge(self, facts: NodeFacts, node: Node, fleet: Fleet) -> Verdict:
        """Say whether the node meets the requirement, seen among its fleet; pure."""

    def steps(self, facts: NodeFacts, node: Node, fleet: Fleet) -> tuple[Step, ...]:
        """Return what would make it true, in order; empty when it is met or nothing can be done now; pure.

        What can only follow once these are done (a key that must exist first, a reboot) is planned in the next
        round, from the facts that are gathered after this one.
        """
