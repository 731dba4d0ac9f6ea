"""``rdma-userspace``: programs see the kernel's RDMA devices; otherwise NCCL silently uses sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.rdma_providers import is_listed, missing_provider
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.packages import by_hand, install
from clusterctl.requirements.rdma import ports as rdma_ports
from clusterctl.requirements.steps import LoadModule, Step
from clusterctl.requirements.wording import because
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.fabric import RdmaDevice
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "rdma-userspace"
TITLE = "libibverbs and its providers list the RDMA devices"
READS = frozenset({"modules", "network", "pci", "rdma", "software", "system"})
ABOUT = About(
    checks="libibverbs has providers and lists the devices that the kernel has",
    why=(
        "without a provider libibverbs lists no device and reports no error; NCCL then uses sockets and "
        "is forty times slower"
    ),
    bootstrap="installs the distribution's packages",
    undo="removes the packages that bootstrap added, and unloads the module",
    settings=("requirements.packages",),
)

APT_PACKAGES = ("ibverbs-providers", "ibverbs-utils", "libibverbs1", "librdmacm1", "rdma-core")
DNF_PACKAGES = ("libibverbs", "libibverbs-utils", "librdmacm", "rdma-core")


def _has_device_files(facts: NodeFacts) -> bool:
    """Return whether programs can open a device; rdma_cm and umad0 (connection, subnet manager) are not enough."""
    return any("uverbs" in path.rpartition("/")[2] for path in facts.rdma.uverbs)


def _why_no_device_files(facts: NodeFacts) -> str:
    if facts.in_container:
        return "start the container with --device /dev/infiniband"
    if facts.modules.is_loaded("ib_uverbs"):
        return "ib_uverbs is loaded, so devtmpfs or udev should have created them"
    return "ib_uverbs is not loaded"


def _by_hand(facts: NodeFacts) -> str:
    """Return what the operator must do when bootstrap cannot install the userspace."""
    ofed = facts.gpudirect.ofed_version.value
    if ofed is not None:
        return (
            f"; OFED {ofed} has its own userspace, which the distribution's packages would replace: install the "
            "userspace of that release"
        )
    return by_hand(facts, "rdma-core")


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return MET when the library, each device's provider and the device files exist, and ibv_devices lists them."""
    rdma = facts.rdma
    if rdma.devices.is_unknown:
        return Decision(NAME, Status.UNKNOWN, because("the list of RDMA devices", rdma.devices))
    devices = rdma_ports.devices(facts, node)
    evidence: dict[str, Json] = {
        "devices": [device.name for device in rdma.devices.or_else(())],
        "libibverbs": rdma.libibverbs,
        "providers": list(rdma.providers),
        "listed": None if rdma.listed.value is None else list(rdma.listed.value),
        "ofed": facts.gpudirect.ofed_version.value,
    }
    if not devices:
        return Decision(NAME, Status.NOT_APPLICABLE, "the node has no RDMA device", evidence)
    steps = _steps(facts, node, devices)
    unproven = [device for device in devices if not is_listed(facts, device)]
    if rdma.libibverbs is None and unproven:
        reason = f"libibverbs is not installed: programs cannot use RDMA{_by_hand(facts)}"
        return Decision(NAME, Status.UNMET, reason, evidence, steps=steps)
    if not rdma.providers and unproven:
        reason = "libibverbs has no providers: it finds no device, and NCCL silently uses sockets"
        reason += _by_hand(facts)
        return Decision(NAME, Status.UNMET, reason, evidence, steps=steps)
    lacking = {device.name: missing_provider(facts, device) for device in devices}
    named = [f"{provider} (for {name})" for name, provider in lacking.items() if provider is not None]
    if named:
        reason = f"libibverbs lacks the provider {some(named)}{_by_hand(facts)}"
        return Decision(NAME, Status.UNMET, reason, evidence, steps=steps)
    if not _has_device_files(facts):
        reason = f"no device files below /dev/infiniband ({_why_no_device_files(facts)})"
        return Decision(NAME, Status.UNMET, reason, evidence, steps=steps)
    if rdma.listed.value is not None or rdma.listed.status.value == "empty":
        unlisted = [device.name for device in devices if device.name not in rdma.listed.or_else(())]
        if unlisted:
            reason = f"the kernel has {some(unlisted)}, but ibv_devices does not list it"
            return Decision(NAME, Status.UNMET, reason, evidence, steps=steps)
        return Decision(NAME, Status.MET, f"ibv_devices lists all {len(devices)} devices", evidence)
    return Decision(NAME, Status.MET, f"libibverbs has providers {some(rdma.providers)}", evidence)


def _steps(facts: NodeFacts, node: Node, devices: tuple[RdmaDevice, ...]) -> tuple[Step, ...]:
    """Return the steps that make the devices usable; an out-of-tree stack has its own userspace, which stays."""
    found: list[Step] = []
    there = _has_device_files(facts) or facts.modules.is_loaded("ib_uverbs")
    if not there and not facts.in_container:
        found.append(LoadModule("Load ib_uverbs", "ib_uverbs"))
    complete = facts.rdma.libibverbs is not None and bool(facts.rdma.providers)
    complete = complete or all(is_listed(facts, device) for device in devices)
    complete = complete and not any(missing_provider(facts, device) for device in devices)
    if complete or facts.gpudirect.ofed_version.value is not None:
        return tuple(found)
    names = APT_PACKAGES if facts.software.manager == "apt" else DNF_PACKAGES
    package = install(facts, node, "Install the RDMA userspace", *names)
    return (*found, package) if package is not None else tuple(found)
