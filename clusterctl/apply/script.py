"""The runner's script: the shell text of ``templates/apply`` and one quoted call per step."""

from __future__ import annotations

import hashlib
import secrets
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from clusterctl import resources
from clusterctl.apply.payload import Payload, pack
from clusterctl.errors import PlanError
from clusterctl.plan.build import target
from clusterctl.plan.model import NodePlan, PlannedStep
from clusterctl.requirements.base import (
    Command,
    EnableUnit,
    InstallPackages,
    LoadModule,
    PutTree,
    RestartUnit,
    SetRegister,
    WriteFile,
    WriteValue,
)

STATE_DIR = "/var/lib/clusterctl"
COMMON = ("journal.sh", "files.sh", "system.sh")


@dataclass(frozen=True, slots=True)
class Header:
    """What the runner must know besides its steps. ``run`` is empty for "the latest run of this node"."""

    run: str
    operator: str
    nonce: str
    state_dir: str = STATE_DIR
    force: bool = False


def new_nonce() -> str:
    """Return a fresh mark for the runner's lines: nothing that a command prints can look like one."""
    return secrets.token_hex(8)


def quote(text: str) -> str:
    """Quote any text for a POSIX shell; raise PlanError for the one character that no shell can hold."""
    if "\0" in text:
        raise PlanError("a step holds a NUL character, which no shell can carry", hint="remove it")
    return shlex.quote(text)


def step_key(planned: PlannedStep) -> str:
    """Return the name under which a node's journal knows a step: by what it changes, not by the new value."""
    owner = planned.requirement if isinstance(planned.step, Command | RestartUnit) else ""
    parts = (owner, planned.step.kind, *target(planned.step))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def arguments(planned: PlannedStep, payload: tuple[str, str] | None = None) -> tuple[str, ...]:
    """Return what the runner's functions of this kind take (see the heads of the functions in ``*.sh``)."""
    step = planned.step
    if isinstance(step, WriteFile):
        digest = hashlib.sha256(step.content.encode()).hexdigest()
        return (step.path, f"{step.mode:o}", digest, step.content)
    if isinstance(step, WriteValue):
        return (step.path, step.value, step.prior)
    if isinstance(step, SetRegister):
        return (step.device, step.register, step.value, step.prior)
    if isinstance(step, Command):
        return (
            f"{step.timeout_s:g}",
            shlex.join(step.argv),
            shlex.join(step.undo or ()),
            shlex.join(step.guard or ()),
        )
    if isinstance(step, LoadModule):
        return (step.module,)
    if isinstance(step, EnableUnit):
        return (step.unit, "1" if step.start else "0")
    if isinstance(step, RestartUnit):
        return (step.unit,)
    if isinstance(step, InstallPackages):
        return (step.manager, *step.packages)
    assert isinstance(step, PutTree)
    assert payload is not None
    return (step.path, *payload)


def _head(header: Header) -> str:
    values: Mapping[str, str] = {
        "NONCE": header.nonce,
        "STATE": header.state_dir,
        "RUN": header.run,
        "OPERATOR": "".join(c if c.isprintable() and not c.isspace() else "_" for c in header.operator),
        "FORCE": "1" if header.force else "",
    }
    return "".join(f"{name}={quote(value)}\n" for name, value in values.items())


def _text(*names: str) -> str:
    return "\n".join(resources.text("templates", "apply", name) for name in names)


def apply_script(header: Header, plan: NodePlan, pack_tree: Callable[[str], Payload] = pack) -> str:
    """Return the script that applies one node's plan; steps are numbered from 1.

    The call that does anything is the last line, so that a script cut off on its way does nothing.
    """
    calls, bodies = [], []
    for number, planned in enumerate(plan.steps, start=1):
        payload = None
        if isinstance(planned.step, PutTree):
            packed = pack_tree(planned.step.source)
            bodies.append(
                f"payload_{number}() {{\ncat <<'END_OF_TREE'\n{packed.base64_text}END_OF_TREE\n}}\n"
            )
            payload = (packed.sha256, f"payload_{number}")
        words = (
            str(number),
            planned.requirement,
            step_key(planned),
            planned.step.kind.replace("-", "_"),
            planned.step.description,
            *arguments(planned, payload),
        )
        calls.append("  step " + " ".join(quote(word) for word in words))
    steps = "all_steps() {\n" + "\n".join([*calls, "  :"]) + "\n}\n"
    return "\n".join([_head(header), _text(*COMMON, "apply.sh"), *bodies, steps, "main_apply\n"])


def undo_script(header: Header) -> str:
    """Return the script that takes back one run on a node."""
    return "\n".join([_head(header), _text(*COMMON, "undo.sh"), "main_undo\n"])


def list_script(header: Header) -> str:
    """Return the script that names what an undo would take back, and changes nothing."""
    return "\n".join([_head(header), _text(*COMMON, "undo.sh"), "list_undo\n"])
