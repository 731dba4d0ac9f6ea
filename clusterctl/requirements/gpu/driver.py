"""``gpu-driver``: the NVIDIA driver is loaded, nvidia-smi lists every GPU, and all nodes have the same version.

Bootstrap installs a driver only if the inventory requests it (``gpu_driver.install``), and never replaces a loaded one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterctl.facts.base import ReadStatus
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.gpu import driver_install as gpu_driver_install
from clusterctl.requirements.gpu import links as gpu_links
from clusterctl.requirements.gpus import driver_is_a_containers, own_gpus, unsupported, why_none
from clusterctl.requirements.steps import LoadModule, Reboot, Step
from clusterctl.requirements.wording import UNTIL_CLEARED, because
from clusterctl.text.wording import counted, some

if TYPE_CHECKING:
    from clusterctl.facts.model.devices import PciDevice
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "gpu-driver"
TITLE = "The NVIDIA driver is loaded, the same on all nodes, and lists every GPU"
READS = frozenset({"gpu", "modules", "pci", "services", "software", "system"})
ABOUT = About(
    checks="the NVIDIA driver is loaded, drives every GPU on the bus, and has the version of the other nodes",
    why=(
        "with different drivers, jobs across nodes fail late and far from the cause; one GPU that fell "
        "off the bus makes jobs hang"
    ),
    bootstrap="nothing, unless `gpu_driver.install` sets a source",
    undo="removes the packages, the repository, its key and the blacklist file that bootstrap added",
    settings=("requirements.gpu_driver", "requirements.packages", "gpus"),
)

# What nvidia-smi prints about a GPU that is still on the PCI bus but does not answer (Xid 79 and similar).
LOST = (
    "is lost",
    "requires reset",
    "fallen off the bus",
    "Unable to determine the device handle",
    "No devices were found",
)
MISMATCH = "version mismatch"


def _may_answer(facts: NodeFacts) -> tuple[PciDevice, ...]:
    """Return the GPUs that nvidia-smi can list, without those of other drivers (a display card on nouveau)."""
    return tuple(gpu for gpu in own_gpus(facts) if gpu.driver in ("nvidia", None))


def _not_loaded(facts: NodeFacts, node: Node) -> Decision:
    settings = node.requirements.gpu_driver
    nouveau = facts.modules.is_loaded("nouveau") or any(g.driver == "nouveau" for g in own_gpus(facts))
    instead = "; nouveau drives the GPUs instead" if nouveau else ""
    if facts.in_container:
        return Decision(NAME, Status.NOT_APPLICABLE, "this is a container; the driver belongs to the host")
    if settings.install == "never":
        hint = "set requirements.gpu_driver.install to let bootstrap fix it"
        if facts.modules.is_installed("nvidia"):
            reason = f"the NVIDIA driver is installed but not loaded{instead} ({hint})"
        else:
            reason = f"the NVIDIA driver is not installed{instead} ({hint})"
        return Decision(NAME, Status.UNMET, reason)
    silence = gpu_driver_install.without_nouveau(facts) if nouveau else ()
    last: Step = (
        Reboot("Reboot without nouveau and with the NVIDIA driver")
        if nouveau
        else LoadModule("Load the NVIDIA driver", "nvidia")
    )
    if facts.modules.is_installed("nvidia"):
        reason = f"the NVIDIA driver is installed but not loaded{instead}"
        return Decision(NAME, Status.UNMET, reason, steps=(*silence, last))
    offer = gpu_driver_install.offer(facts, node)
    reason = f"the NVIDIA driver is not installed{instead}"
    if offer.steps:
        return Decision(
            NAME, Status.UNMET, reason, warnings=offer.warnings, steps=(*offer.steps, *silence, last)
        )
    return Decision(NAME, Status.UNMET, f"{reason}, and bootstrap cannot install it: {offer.why_not}")


def _without_answer(facts: NodeFacts, node: Node) -> Decision:
    """Judge a loaded driver whose nvidia-smi printed no table of GPUs."""
    reading = facts.gpu.devices
    driver = facts.gpu.driver.value
    assert driver is not None
    if MISMATCH in reading.detail:
        on_disk = facts.gpu.module_version.value
        newer = f" (the module on disk is {on_disk})" if on_disk not in (None, driver.version) else ""
        reason = (
            f"the loaded kernel module {driver.version} and the driver's libraries have different versions{newer}: "
            "the driver was upgraded while loaded; reboot the node, or reload the module"
        )
        allowed = node.requirements.gpu_driver.install != "never" and not facts.in_container
        steps = (Reboot("Reboot with the upgraded NVIDIA driver"),) if allowed else ()
        return Decision(NAME, Status.UNMET, reason, steps=steps)
    if any(words in reading.detail for words in LOST):
        reason = f"driver {driver.version} is loaded, but a GPU does not answer ({reading.detail}; {UNTIL_CLEARED})"
        return Decision(NAME, Status.UNMET, reason)
    if reading.status is ReadStatus.ABSENT:
        if facts.in_container:
            return Decision(
                NAME, Status.NOT_APPLICABLE, "this is a container; the driver belongs to the host"
            )
        reason = f"the kernel module {driver.version} is loaded, but nvidia-smi is not installed"
        if driver_is_a_containers(facts):
            reason += "; kubelet runs here: the driver and its tools may be in a container (GPU Operator)"
            return Decision(NAME, Status.UNKNOWN, reason)
        return Decision(NAME, Status.UNMET, reason)
    return Decision(NAME, Status.UNKNOWN, because("nvidia-smi's table", reading))


def _ill(facts: NodeFacts) -> str | None:
    """Return which listed GPUs have a fault that keeps programs from starting, or None."""
    ill = [gpu for gpu in facts.gpu.devices.or_else(()) if gpu.fault is not None]
    if not ill:
        return None
    named = some([f"GPU {gpu.index} ({gpu.pci_address}): {gpu.fault}" for gpu in ill])
    return f"{named} (look for Xid in the kernel log; {UNTIL_CLEARED})"


def _count(facts: NodeFacts, node: Node, fleet: Fleet) -> str | None:
    """Return which GPUs are missing compared with PCI, the inventory, or nodes with the same GPU models."""
    listed = {gpu.pci_address for gpu in facts.gpu.devices.or_else(())}
    due = _may_answer(facts)
    gone = [gpu.address for gpu in due if gpu.address not in listed]
    if not due and not listed and not facts.in_container:
        bound = [f"{gpu.address} ({gpu.driver})" for gpu in own_gpus(facts)]
        return f"the NVIDIA driver is loaded, but other drivers hold all GPUs: {some(bound)}"
    if gone and not facts.in_container:
        return (
            f"PCI shows {counted(len(due), 'GPU')}, nvidia-smi {len(listed)}: "
            f"{some(gone)} fell off the bus or did not start (look for Xid in the kernel log)"
        )
    if node.gpus is not None:
        return (
            f"{counted(len(listed), 'GPU')}, but the inventory sets gpus: {node.gpus}"
            if len(listed) < node.gpus
            else None
        )
    alike = Counter(
        len(other.gpu.devices.value)
        for other in fleet.peers(node.name).values()
        if other.gpu.devices.value is not None and _kinds(other) == _kinds(facts)
    )
    (most, nodes), *_ = alike.most_common(1) or [(0, 0)]
    if len(listed) < most and nodes >= 2 and 2 * nodes > alike.total() + 1:
        said = f"{counted(len(listed), 'GPU')}, but {nodes} other nodes with the same GPUs have {most}"
        return f"{said} (a GPU is missing; if that is intended, set gpus in the inventory)"
    return None


def _kinds(facts: NodeFacts) -> set[tuple[str, str]]:
    return {(gpu.vendor, gpu.device) for gpu in _may_answer(facts)}


def _versions(facts: NodeFacts, node: Node, fleet: Fleet) -> tuple[dict[str, str], dict[str, str]]:
    """Return two mappings of node to driver version: nodes with the same GPUs (this one first), and all others.

    Nodes without GPUs, and nodes with another version in the inventory, are in neither.
    """
    wanted = node.requirements.gpu_driver.version
    same = {other.name for other in fleet.nodes if other.requirements.gpu_driver.version == wanted}
    mine = facts.gpu.driver.value
    assert mine is not None
    alike = {node.name: mine.version}
    others: dict[str, str] = {}
    for name, other in fleet.peers(node.name).items():
        if (not same or name in same) and other.gpu.driver.value is not None and own_gpus(other):
            (alike if _kinds(other) == _kinds(facts) else others)[name] = other.gpu.driver.value.version
    return alike, others


def _against_fleet(facts: NodeFacts, node: Node, fleet: Fleet) -> str | None:
    """Return how this driver differs from that of most nodes with the same GPUs; None if it does not.

    Nodes with other GPUs are not compared, because older GPUs may need an older driver branch.
    """
    votes, others = _versions(facts, node, fleet)
    ranking = Counter(votes.values()).most_common()
    if len(ranking) == 1:
        return None
    (first, count), (_, second), *_ = ranking
    if count == second:
        groups = [f"{v} on {some([n for n, of in votes.items() if of == v], 3)}" for v, _ in ranking]
        who = "the nodes with these GPUs have" if others else "the nodes have"
        return f"{who} different driver versions: {'; '.join(groups)}"
    if votes[node.name] == first:
        return None
    nodes = "nodes with these GPUs" if others else "nodes"
    return f"{node.name} has driver {votes[node.name]}, {count} of {len(votes)} {nodes} have {first}"


def _warnings(facts: NodeFacts, node: Node, fleet: Fleet) -> tuple[str, ...]:
    driver = facts.gpu.driver.value
    assert driver is not None
    warnings = []
    on_disk = facts.gpu.module_version.value
    if on_disk is not None and on_disk != driver.version:
        warnings.append(
            f"the module on disk is {on_disk}, {driver.version} is loaded: the next reboot changes the driver"
        )
    if facts.gpu.devices.detail:
        warnings.append(f"nvidia-smi reports: {facts.gpu.devices.detail}")
    others = [f"{gpu.address} ({gpu.driver})" for gpu in own_gpus(facts) if gpu not in _may_answer(facts)]
    if others:
        warnings.append(f"not counted, because another driver holds them: {some(others)}")
    elsewhere = {n: v for n, v in _versions(facts, node, fleet)[1].items() if v != driver.version}
    if elsewhere:
        named = some([f"{version} on {name}" for name, version in elsewhere.items()], 3)
        warnings.append(
            f"nodes with other GPUs run other drivers ({named}): a job on both kinds of nodes may fail"
        )
    warnings += gpu_links.warnings(facts, fleet)
    if other_vendor := unsupported(facts):
        warnings.append(f"not counted: {other_vendor}")
    flavours = Counter(
        other.gpu.driver.value.flavour
        for other in fleet.peers(node.name).values()
        if other.gpu.driver.value is not None and own_gpus(other)
    )
    if flavours and driver.flavour not in flavours:
        warnings.append(
            f"this node has the {driver.flavour} kernel modules, the other nodes the {some(list(flavours))} ones"
        )
    return tuple(warnings)


def _decided(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    if facts.pci.devices.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the PCI tree", facts.pci.devices))
    if not own_gpus(facts):
        if other := unsupported(facts):
            skipping = "requirements.skip: [gpu-driver] in the inventory leaves the GPUs out of the check"
            return Decision(NAME, Status.UNMET, f"{other}; {skipping}")
        if node.gpus and not facts.pci.nvidia_gpus:
            return Decision(
                NAME, Status.UNMET, f"PCI shows no NVIDIA GPU, but the inventory sets gpus: {node.gpus}"
            )
        return Decision(NAME, Status.NOT_APPLICABLE, why_none(facts))
    driver = facts.gpu.driver
    if driver.value is None:
        if driver.status is ReadStatus.ABSENT:
            return _not_loaded(facts, node)
        return Decision(NAME, Status.UNKNOWN, because("the NVIDIA driver's version", driver))
    if facts.gpu.devices.value is None:
        return _without_answer(facts, node)
    warnings = _warnings(facts, node, fleet)
    settings = node.requirements.gpu_driver
    said = f"driver {driver.value.version} ({driver.value.flavour})"
    if settings.version is not None and not f"{driver.value.version}.".startswith(f"{settings.version}."):
        reason = f"{said} is loaded, but the inventory requires {settings.version}"
        return Decision(
            NAME,
            Status.UNMET,
            f"{reason}; a loaded driver is never replaced: drain the node, change it by hand",
            warnings=warnings,
        )
    if settings.flavour not in ("any", driver.value.flavour):
        reason = f"{said} is loaded, but the inventory requires the {settings.flavour} kernel modules"
        return Decision(NAME, Status.UNMET, reason, warnings=warnings)
    for difference in (_ill(facts), _count(facts, node, fleet), _against_fleet(facts, node, fleet)):
        if difference is not None:
            return Decision(NAME, Status.UNMET, difference, warnings=warnings)
    return Decision(
        NAME, Status.MET, f"{said}, {counted(len(facts.gpu.devices.value), 'GPU')}", warnings=warnings
    )


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return met if the driver is loaded, nvidia-smi lists every GPU, and the version matches the fleet's.

    The steps install and load the driver, if the inventory allows it.
    """
    driver = facts.gpu.driver.value
    evidence: dict[str, Json] = {
        "version": None if driver is None else driver.version,
        "flavour": None if driver is None else driver.flavour,
        "module_on_disk": facts.gpu.module_version.value,
        "gpus_on_the_bus": [gpu.address for gpu in own_gpus(facts)],
        "gpus_that_answer": [gpu.pci_address for gpu in facts.gpu.devices.or_else(())],
    }
    return replace(_decided(facts, node, fleet), evidence=evidence)
