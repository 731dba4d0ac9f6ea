"""``gpu-persistence``: the driver keeps idle GPUs initialised, now and after a reboot.

Without persistence mode, the first use of an idle GPU takes seconds for its initialisation, clocks and ECC counts are
lost in between, and an NVSwitch machine trains its fabric again. The daemon is preferred to the driver's own mode
(NVIDIA driver documentation, driver persistence).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.vendors import tables
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.boot_unit import BootUnit
from clusterctl.requirements.gpus import own_gpus
from clusterctl.requirements.rendering import render
from clusterctl.requirements.steps import Command, EnableUnit, Step
from clusterctl.requirements.wording import because
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.devices import Gpu
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "gpu-persistence"
TITLE = "The driver keeps every GPU initialised"
READS = frozenset({"configuration", "gpu", "pci", "services", "system"})
ABOUT = About(
    checks="GPUs stay initialised between jobs",
    why=(
        "without persistence the first program of each job waits seconds for each GPU, and ECC counts and"
        " the MIG mode are lost between jobs"
    ),
    bootstrap="enables the daemon, or a boot unit",
    undo="turns the mode off for the GPUs that bootstrap changed, and restores the daemon's state",
)

UNIT = "nvidia-persistenced.service"
AT_BOOT = BootUnit("/usr/local/lib/clusterctl/gpu-persistence", "clusterctl-gpu-persistence.service")


def _off(facts: NodeFacts) -> tuple[Gpu, ...]:
    return tuple(gpu for gpu in facts.gpu.devices.or_else(()) if gpu.persistence is False)


def _held_at_boot(facts: NodeFacts) -> bool:
    """Whether the daemon or clusterctl's unit sets the mode at every boot."""
    if facts.managed_file(AT_BOOT.unit_path) is not None and AT_BOOT.gap(facts) is None:
        return True
    daemon = facts.services.unit(UNIT)
    return daemon is not None and daemon.enabled in ("enabled", "static", "indirect", "generated")


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return met if every GPU is in persistence mode and the daemon or clusterctl's unit sets it at boot."""
    if facts.pci.devices.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the PCI tree", facts.pci.devices))
    if not own_gpus(facts):
        return Decision(NAME, Status.NOT_APPLICABLE, "the node has no NVIDIA GPU")
    if facts.in_container:
        return Decision(NAME, Status.NOT_APPLICABLE, "this is a container; the driver belongs to the host")
    daemon = facts.services.unit(UNIT)
    gpus = facts.gpu.devices
    evidence: dict[str, Json] = {
        "daemon": None if daemon is None else f"{daemon.active}, {daemon.enabled}",
        "modes": {gpu.pci_address: gpu.persistence for gpu in gpus.or_else(())},
    }
    if facts.gpu.driver.value is None and facts.gpu.driver.status.value == "absent":
        reason = "the NVIDIA driver is not loaded (see gpu-driver)"
        return Decision(NAME, Status.UNMET, reason, evidence, follows="gpu-driver")
    if gpus.value is None:
        return Decision(NAME, Status.UNKNOWN, because("nvidia-smi's table", gpus), evidence)
    if all(gpu.persistence is None for gpu in gpus.value):
        reason = "these GPUs do not support persistence mode (as in a vGPU guest, where the host sets it)"
        return Decision(NAME, Status.NOT_APPLICABLE, reason, evidence)
    off = _off(facts)
    warnings = tuple(
        f"GPU {gpu.index} loses its MIG mode whenever the driver releases it"
        for gpu in off
        if gpu.mig and tables.gpu_named(gpu.name, "forgets-mig")
    )
    if off:
        named = f"persistence mode is off for {some([f'GPU {gpu.index}' for gpu in off])}"
        if daemon is not None and daemon.active == "active":
            named += f", although {UNIT} runs (Ubuntu's unit passes --no-persistence-mode)"
        return Decision(NAME, Status.UNMET, named, evidence, warnings, _steps(facts))
    gap = AT_BOOT.gap(facts)
    if gap is not None:
        reason = f"persistence mode is on now, but nothing sets it at the next boot: {gap}"
        return Decision(NAME, Status.UNMET, reason, evidence, steps=_steps(facts))
    if AT_BOOT.has_failed(facts):
        reason = f"persistence mode is on now, but {AT_BOOT.unit} failed at boot (see journalctl -u {AT_BOOT.unit})"
        return Decision(NAME, Status.UNMET, reason, evidence, steps=_steps(facts))
    if facts.system.systemd_running and not _held_at_boot(facts):
        if daemon is not None:
            reason = f"persistence mode is on now, but {UNIT} is {daemon.enabled or 'not enabled'}"
            return Decision(NAME, Status.UNMET, reason, evidence, steps=_steps(facts))
        note = f"neither {UNIT} nor a unit of clusterctl sets the mode at boot; something else did"
        return Decision(NAME, Status.MET, "persistence mode is on for all GPUs", evidence, (note,))
    return Decision(NAME, Status.MET, "persistence mode is on for all GPUs", evidence)


def _steps(facts: NodeFacts) -> tuple[Step, ...]:
    """Return the steps that enable the daemon; if it is missing or leaves the mode off, a boot unit sets it."""
    if facts.gpu.driver.value is None:
        return ()
    found: list[Step] = []
    daemon = facts.services.unit(UNIT)
    # The operator masked a masked unit on purpose, and a static unit (started by udev) cannot be enabled.
    usable = daemon is not None and daemon.load != "masked" and daemon.enabled in ("enabled", "disabled", "")
    useless = daemon is not None and daemon.active == "active" and bool(_off(facts))
    if facts.system.systemd_running:
        if daemon is not None and usable and (daemon.active != "active" or not _held_at_boot(facts)):
            found.append(EnableUnit(f"Enable and start {UNIT}", UNIT))
        failed = AT_BOOT.has_failed(facts)
        if not usable or useless or failed or AT_BOOT.gap(facts) is not None:
            found += AT_BOOT.steps(render("apply", "gpu-persistence.sh"), start=failed)
    for gpu in _off(facts):
        asked = ("nvidia-smi", "--query-gpu=persistence_mode", "--format=csv,noheader", "-i", gpu.uuid)
        found.append(
            Command(
                f"Set persistence mode on GPU {gpu.index}",
                ("nvidia-smi", "-i", gpu.uuid, "-pm", "1"),
                undo=("nvidia-smi", "-i", gpu.uuid, "-pm", "0"),
                guard=("sh", "-c", 'test "$("$@")" = Enabled', "is-enabled", *asked),
                timeout_s=120.0,
            )
        )
    return tuple(found)
