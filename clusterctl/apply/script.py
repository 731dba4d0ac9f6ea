"""Generate the runner's script: the shell text of ``runner/*.sh`` and one quoted call per step."""

from __future__ import annotations

import hashlib
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterctl.apply.payload import Payload, pack
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.errors import PlanError
from clusterctl.requirements.steps import InstallPackages, MakeVenv, PutTree, Sent, WriteFile

STATE_DIR = "/var/lib/clusterctl"
RUNNER = Path(__file__).with_name("runner")
COMMON = (
    "journal.sh",
    "seal.sh",
    "files.sh",
    "theirs.sh",
    "blocks.sh",
    "system.sh",
    "units.sh",
    "packages.sh",
    "venv.sh",
    "remains.sh",
    "reboot.sh",
)
APPLY = ("file_batch.sh", "apply.sh")
UNDO = ("undo.sh",)
LOCK_WAIT_S = 120
"""Seconds to wait for another process that holds the locks of apt or dnf; then the step fails and names it."""


@dataclass(frozen=True, slots=True)
class Header:
    """The runner's parameters besides its steps. ``run`` is empty for "the latest run of this node".

    ``controller_boot`` is the boot ID of the machine that clusterctl runs on, which is never rebooted.
    ``booted_from`` is the boot ID before this run's reboot, if the script only completes the reboot's journal entry.
    ``left_over`` are keys of steps that only an earlier part of the run required.
    """

    run: str
    operator: str
    nonce: str
    state_dir: str = STATE_DIR
    force: bool = False
    force_reboot: bool = False
    lock_wait_s: int = LOCK_WAIT_S
    controller_boot: str = ""
    booted_from: str = ""
    left_over: frozenset[str] = frozenset()


def new_nonce() -> str:
    """Return a random mark for the runner's lines, which the output of commands cannot imitate."""
    return secrets.token_hex(8)


def quote(text: str) -> str:
    """Quote any text for a POSIX shell; raise PlanError for a NUL character, which shells cannot represent."""
    if "\0" in text:
        raise PlanError(
            "a step contains a NUL character, which a shell cannot represent",
            hint="remove the character from the inventory or the file that the step is made from",
        )
    return shlex.quote(text)


def step_key(planned: PlannedStep) -> str:
    """Return the key of a step in a node's journal; it depends on what the step changes, not on the new value."""
    step = planned.step
    owner = planned.requirement if step.per_requirement else ""
    parts = (owner, step.kind, *step.target())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _head(header: Header) -> str:
    values: Mapping[str, str] = {
        "NONCE": header.nonce,
        "STATE": header.state_dir,
        "RUN": header.run,
        "OPERATOR": "".join(c if c.isprintable() and not c.isspace() else "_" for c in header.operator),
        "FORCE": "1" if header.force else "",
        "FORCE_REBOOT": "1" if header.force_reboot else "",
        "CONTROLLER_BOOT": header.controller_boot,
        "BOOTED_FROM": header.booted_from,
        "LOCK_WAIT": str(header.lock_wait_s),
    }
    return "".join(f"{name}={quote(value)}\n" for name, value in values.items())


def _text(*names: str) -> str:
    return "\n".join((RUNNER / name).read_text(encoding="utf-8") for name in names)


def apply_script(
    header: Header,
    plan: NodePlan,
    pack_tree: Callable[[str], Payload] = pack,
    carried: Mapping[str, str] | None = None,
) -> str:
    """Return the script that applies one node's plan; steps are numbered from 1.

    ``carried`` maps each package directory and wheel to its name on the node (see ``carry``).
    The only call that acts is the last line, so that a truncated script does nothing.
    """
    calls, bodies = [], []
    for number, planned in enumerate(plan.steps, start=1):
        sent = Sent()
        if isinstance(planned.step, PutTree):
            packed = pack_tree(planned.step.source)
            bodies.append(
                f"payload_{number}() {{\ncat <<'END_OF_TREE'\n{packed.base64_text}END_OF_TREE\n}}\n"
            )
            sent = Sent(tree=(packed.sha256, f"payload_{number}"))
        if isinstance(planned.step, InstallPackages) and planned.step.folder is not None:
            sent = Sent(packages=(carried or {})[planned.step.folder])
        if isinstance(planned.step, MakeVenv) and planned.step.wheel:
            sent = Sent(packages=(carried or {})[planned.step.wheel])
        calls.append(_call(number, planned, planned.step.arguments(sent)))
    steps = "all_steps() {\n" + "\n".join([*_batched(plan, calls, header.left_over), "  :"]) + "\n}\n"
    return "\n".join([_head(header), _text(*COMMON, *APPLY), *bodies, steps, "main_apply\n"])


def _call(number: int, planned: PlannedStep, words: tuple[str, ...]) -> tuple[str, ...]:
    kind = planned.step.kind.replace("-", "_")
    return (str(number), planned.requirement, step_key(planned), kind, planned.step.description, *words)


def _batched(plan: NodePlan, calls: Sequence[tuple[str, ...]], left_over: frozenset[str]) -> Iterator[str]:
    """Yield the runner's calls: one for each step, or one for several consecutive files."""
    pending: dict[str, tuple[str, ...]] = {}

    def flushed() -> Iterator[str]:
        if len(pending) > 1:
            # All steps of a batch are of the same kind, so the kind is omitted.
            words = [word for call in pending.values() for word in (*call[:3], *call[4:])]
            yield "  files " + " ".join(map(quote, words))
        else:
            yield from ("  step " + " ".join(map(quote, call)) for call in pending.values())
        pending.clear()

    for planned, call in zip(plan.steps, calls, strict=True):
        step, left = planned.step, call[2] in left_over
        path = step.path if isinstance(step, WriteFile) and step.made_from is None and not left else None
        if path is None or path in pending:
            yield from flushed()
        if path is not None:
            pending[path] = call
        else:
            yield f"  {'left_over' if left else 'step'} " + " ".join(map(quote, call))
    yield from flushed()


def undo_script(header: Header) -> str:
    """Return the script that undoes one run on a node."""
    return "\n".join([_head(header), _text(*COMMON, *UNDO), "main_undo\n"])


def list_script(header: Header) -> str:
    """Return the script that lists what an undo would revert, without changing anything."""
    return "\n".join([_head(header), _text(*COMMON, *UNDO), "list_undo\n"])


def busy_script(header: Header) -> str:
    """Return the script that reports whether another run works on a node, without changing anything."""
    return "\n".join([_head(header), _text("journal.sh"), "report_busy\n"])
