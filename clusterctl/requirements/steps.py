"""The kinds of steps: what each one changes on a node, and the arguments of its functions in ``apply/runner/*.sh``."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Union


@dataclass(frozen=True, slots=True)
class Sent:
    """What the controller sends to the node for one step besides its arguments.

    ``tree``: the SHA-256 of a packed tree, and the shell function that prints the tree. ``packages``: the name of the
    directory on the node with the copied packages; empty: none were copied.
    """

    tree: tuple[str, ...] = ()
    packages: str = ""


class StepKind:
    """What the plan and the runner need from every kind of step.

    A kind is a frozen dataclass with ``description`` as its first field and ``kind`` as its last one: the name of the
    kind in plans and journals, and, with ``_`` instead of ``-``, of its functions in the runner.
    """

    __slots__ = ()

    per_requirement: ClassVar[bool] = False
    """Whether each requirement gets its own step, because it may have to follow that requirement's files."""

    def target(self) -> tuple[str, ...]:
        """Return what the step changes: two steps with the same target are either equal or contradict each other.

        The journal identifies a step by its kind and target, so a target must not change between versions.
        """
        raise NotImplementedError

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        """Return the arguments of the kind's functions in the runner; ``script`` quotes them for the shell."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class WriteFile(StepKind):
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

    def target(self) -> tuple[str, ...]:
        return ("file", self.path)

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        digest = hashlib.sha256(self.content.encode()).hexdigest()
        made_from = () if self.made_from is None else (self.made_from,)
        return (self.path, f"{self.mode:o}", digest, self.content, *made_from)


@dataclass(frozen=True, slots=True)
class WriteBlock(StepKind):
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

    def target(self) -> tuple[str, ...]:
        return ("block", self.path, self.name)

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        text = self.content if not self.content or self.content.endswith("\n") else self.content + "\n"
        digest = hashlib.sha256(text.encode()).hexdigest()
        return (self.path, self.name, f"{self.mode:o}", self.owner or "", digest, text)


@dataclass(frozen=True, slots=True)
class WriteValue(StepKind):
    """Write a value to a sysfs or procfs file and read it back; undo writes ``prior``, the value before."""

    description: str
    path: str
    value: str
    prior: str
    kind: Literal["write-value"] = "write-value"

    def target(self) -> tuple[str, ...]:
        return ("file", self.path)

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        return (self.path, self.value, self.prior)


@dataclass(frozen=True, slots=True)
class SetRegister(StepKind):
    """Write a PCI configuration register by its ``setpci`` name and read it back as a number.

    ``value`` and ``prior`` are hexadecimal; undo writes ``prior``.
    """

    description: str
    device: str
    register: str
    value: str
    prior: str
    kind: Literal["set-register"] = "set-register"

    def target(self) -> tuple[str, ...]:
        return ("register", self.device, self.register)

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        return (self.device, self.register, self.value, self.prior)


@dataclass(frozen=True, slots=True)
class Command(StepKind):
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
    per_requirement: ClassVar[bool] = True

    def target(self) -> tuple[str, ...]:
        return ("command", *self.argv)

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        commands = (self.argv, self.undo or (), self.guard or ())
        return (f"{self.timeout_s:g}", *map(shlex.join, commands))


@dataclass(frozen=True, slots=True)
class LoadModule(StepKind):
    """Load a kernel module; undo unloads it if this step loaded it."""

    description: str
    module: str
    kind: Literal["load-module"] = "load-module"

    def target(self) -> tuple[str, ...]:
        return ("module", self.module)

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        return (self.module,)


@dataclass(frozen=True, slots=True)
class EnableUnit(StepKind):
    """Enable a systemd unit and, with ``start``, start it; undo restores its former enabled and active states."""

    description: str
    unit: str
    start: bool = True
    kind: Literal["enable-unit"] = "enable-unit"

    def target(self) -> tuple[str, ...]:
        return ("unit", self.unit)

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        return (self.unit, "1" if self.start else "0")


@dataclass(frozen=True, slots=True)
class RestartUnit(StepKind):
    """Restart a running systemd unit so that it reads its files again; undo restarts it after restoring the files."""

    description: str
    unit: str
    kind: Literal["restart-unit"] = "restart-unit"
    per_requirement: ClassVar[bool] = True

    def target(self) -> tuple[str, ...]:
        return ("restart", self.unit)

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        return (self.unit,)


@dataclass(frozen=True, slots=True)
class InstallPackages(StepKind):
    """Install packages with the distribution's package manager; undo removes those that this step installed.

    For sites without repositories, the packages come from a directory on the controller, which holds the files and
    their ``SHA256SUMS``: clusterctl copies the files to the node and installs from them.
    """

    description: str
    manager: Literal["apt", "dnf"]
    packages: tuple[str, ...]
    folder: str | None = None
    kind: Literal["install-packages"] = "install-packages"

    def target(self) -> tuple[str, ...]:
        return ("packages", *self.packages)

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        return (self.manager, sent.packages, *self.packages)


@dataclass(frozen=True, slots=True)
class PutTree(StepKind):
    """Copy a directory or tarball from the controller to the node; undo restores the previous content."""

    description: str
    source: str
    path: str
    kind: Literal["put-tree"] = "put-tree"

    def target(self) -> tuple[str, ...]:
        return ("file", self.path)

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        assert sent.tree
        return (self.path, *sent.tree)


@dataclass(frozen=True, slots=True)
class MakeVenv(StepKind):
    """Make a virtual environment of Python and install into it; undo removes it if this run made it.

    ``base``: the interpreter to make it with. ``content``: what the environment records of its content; one with
    another content gets what it lacks. ``wheel``: the file name of the collective_core that the controller copies to
    the node, which is unpacked; empty for none. ``packages``: requirements of pip, from ``index_url`` (empty: pip's
    own configuration); with any, ``base`` needs the module ensurepip.
    """

    description: str
    path: str
    base: str
    content: str
    wheel: str = ""
    packages: tuple[str, ...] = ()
    index_url: str = ""
    kind: Literal["make-venv"] = "make-venv"

    def target(self) -> tuple[str, ...]:
        return ("file", self.path)

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        return (
            self.path, self.base, self.content, sent.packages, self.wheel, self.index_url, *self.packages,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reboot(StepKind):
    """Reboot the node if reboots are allowed and no user works on it; always the last step of a node's round.

    ``timeout_s``: seconds until the node must answer again. Later steps are planned from facts gathered afterwards.
    """

    description: str
    timeout_s: float = 900.0
    kind: Literal["reboot"] = "reboot"
    per_requirement: ClassVar[bool] = True

    def target(self) -> tuple[str, ...]:
        # A run may reboot a node more than once for different reasons.
        return ("reboot", self.description)

    def arguments(self, sent: Sent) -> tuple[str, ...]:
        return ()


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
    MakeVenv,
    Reboot,
]
