"""``fabric-manager``: on NVSwitch machines, the fabric manager has the driver's version and has joined every GPU.

Without it CUDA programs fail to start (error 802) or do not use NVLink. Up to NVLink 4 the switches are PCI bridges of
this machine. With NVLink 5 they are reached through InfiniBand-like devices, and in GB200 racks they belong to another
machine. Sources: NVIDIA Fabric Manager user guide; NVIDIA IMEX service guide; leptonai/gpud #1140, #1147 and #1206 for
single GPUs, PCIe cards and GH200; Amazon EC2 user guide (NVIDIA drivers) and aws-parallelcluster-cookbook #3022 for
P6-B200.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from clusterctl.facts.vendors import tables
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.gpu import fabric_manager_install
from clusterctl.requirements.gpus import driver_is_a_containers, own_gpus
from clusterctl.requirements.packages import by_hand
from clusterctl.requirements.steps import EnableUnit, LoadModule, Step, WriteFile
from clusterctl.requirements.wording import because
from clusterctl.text.foreign import whole
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "fabric-manager"
TITLE = "The NVSwitch fabric is up, and its manager has the driver's version"
READS = frozenset({"gpu", "modules", "pci", "rdma", "services", "software", "system"})
ABOUT = About(
    checks=(
        "on NVSwitch machines: the fabric manager runs in exactly the driver's version, and the fabric is up"
    ),
    why=(
        'without the fabric manager, CUDA programs fail with "system not yet initialized" (802), or run '
        "without NVLink"
    ),
    bootstrap="installs the fabric manager in the version of the driver, and enables it",
    undo="restores the former package and version, and the unit's state",
    settings=("requirements.gpu_driver.install", "requirements.packages"),
)

UNIT = fabric_manager_install.UNIT
MOST_WITHOUT_SWITCHES = 4
"""Baseboards with four GPUs connect them directly by NVLink; those with eight use switches (NVIDIA HGX)."""
UMAD_AT_BOOT = "/etc/modules-load.d/clusterctl-ib_umad.conf"
_UMAD, _SWITCH_DRIVER = "ib_umad", "mlx5_ib"


def _states(facts: NodeFacts) -> dict[int, str]:
    """Return the fabric state by GPU index; ``Completed/Success`` is healthy. GPUs without a state are left out."""
    return {
        gpu.index: f"{gpu.fabric_state}/{gpu.fabric_status or 'unknown'}"
        for gpu in facts.gpu.devices.or_else(())
        if gpu.fabric_state not in (None, "Not Supported")
    }


def _unwell(facts: NodeFacts) -> str | None:
    bad = {index: state for index, state in _states(facts).items() if state != "Completed/Success"}
    if not bad:
        return None
    return "the fabric state is " + some([f"{state} on GPU {index}" for index, state in bad.items()])


def _was_given_the_switches(facts: NodeFacts) -> bool:
    """Whether a guest manages NVLink 5 switches, which its PCI bus does not show.

    True in the clouds that assign them, and in any guest whose manager runs: without switches a manager exits at once.
    """
    virtualization, unit = facts.system.virtualization.value, facts.services.unit(UNIT)
    cloud = None if virtualization is None else virtualization.vm
    by_cloud = tables.machine_has(cloud, "", "guest-manages-nvlink-5")
    return by_cloud or (unit is not None and unit.active == "active")


def _guest(facts: NodeFacts, nvlink_5: bool) -> Decision:
    """Judge a guest with GPUs in a fabric and no switches: its host manages the fabric."""
    unwell = _unwell(facts)
    if unwell is None:
        reason = (
            "the host of this virtual machine manages the NVSwitch fabric of these GPUs (shared NVSwitches); its state "
            "is Completed, and no fabric manager is needed here"
        )
        return Decision(NAME, Status.NOT_APPLICABLE, reason)
    where = "this machine has no switches: check the fabric manager of the host"
    if nvlink_5:
        where = "check the fabric manager of the host, or of this guest if the switches are assigned to it"
    return Decision(NAME, Status.UNMET, f"{unwell}; {where}")


def _without_switch(facts: NodeFacts) -> Decision:
    """Judge GPUs that report a fabric state on a machine without switches, where the state is meaningless."""
    gpus = facts.gpu.devices.or_else(())
    unwell = _unwell(facts)
    if unwell is None:
        reason = "the node has no NVSwitch, although the fabric state is Completed"
        return Decision(NAME, Status.NOT_APPLICABLE, reason)
    on_baseboard = [gpu for gpu in gpus if not tables.gpu_named(gpu.name, "without-switch")]
    if len(on_baseboard) > MOST_WITHOUT_SWITCHES:
        reason = f"{unwell}, but PCI shows no NVSwitch, which a board with {len(on_baseboard)} GPUs needs (see dmesg)"
        return Decision(NAME, Status.UNMET, reason)
    note = (
        f"{unwell}: a known false alarm on PCIe cards and single GPUs (leptonai/gpud #1140); if CUDA programs fail "
        "with error 802, the GPU belongs to a fabric and its switches are missing"
    )
    reason = "no NVSwitch connects these GPUs"
    return Decision(NAME, Status.NOT_APPLICABLE, reason, warnings=(note,))


def _rack(facts: NodeFacts) -> Decision:
    """Judge a node of a GB200 or GB300 rack: the switch trays manage the fabric, IMEX shares memory between nodes."""
    imex = facts.services.unit("nvidia-imex.service")
    channels = sum("imex" in device for device in facts.gpu.fabric_devices)
    seen = f"nvidia-imex.service is {imex.active if imex else 'not installed'}, {channels} IMEX channels"
    if not _states(facts):
        reason = f"this multi-node NVLink machine is not part of a fabric; {seen}"
        return Decision(NAME, Status.NOT_APPLICABLE, reason)
    unwell = _unwell(facts)
    if unwell is not None:
        return Decision(NAME, Status.UNMET, f"{unwell}; the rack's switch trays manage the fabric; {seen}")
    ready = imex is not None and imex.active == "active" and channels > 0
    note = "" if ready else "NVLink between nodes needs IMEX: its service on every node, and a channel"
    reason = f"the rack's NVLink fabric is Completed; it uses IMEX instead of a fabric manager: {seen}"
    return Decision(NAME, Status.MET, reason, warnings=(note,) if note else ())


def _nvlink_5_gap(facts: NodeFacts, version: str) -> Decision | None:
    first = tables.branch("first-with-nvlink-5")
    if whole(version.partition(".")[0]) < first:
        reason = (
            f"driver {version} is too old for NVLink 5: it needs driver and fabric manager {first} or newer"
        )
        return Decision(NAME, Status.UNMET, reason)
    lacking = [module for module in (_SWITCH_DRIVER, _UMAD) if _is_lacking(facts, module)]
    if not lacking:
        return None
    at_boot = tuple(dict.fromkeys((*lacking, _UMAD)))
    steps: tuple[Step, ...] = (
        *(LoadModule(f"Load {name}, which gives access to the switches", name) for name in lacking),
        WriteFile(
            f"Load {' and '.join(at_boot)} at boot",
            UMAD_AT_BOOT,
            "".join(f"{line}\n" for line in ("# Written by clusterctl (fabric-manager).", *at_boot)),
        ),
    )
    are, them = ("are", "them") if len(lacking) > 1 else ("is", "it")
    reason = (
        f"{' and '.join(lacking)} {are} not loaded: the NVLink 5 switches cannot be reached without {them}"
    )
    if _SWITCH_DRIVER in lacking:
        reason += f" (on Ubuntu, linux-modules-extra contains {_SWITCH_DRIVER})"
    return Decision(NAME, Status.UNMET, reason, steps=steps)


def _is_lacking(facts: NodeFacts, module: str) -> bool:
    """Whether a needed module is not loaded; existing RDMA devices show that the switch driver is in the kernel."""
    if module == _SWITCH_DRIVER and (facts.rdma.devices.is_unknown or facts.rdma.devices.value):
        return False
    return facts.modules.is_loaded(module) is False


def _next_boots_version(facts: NodeFacts, loaded: str) -> str | None:
    """Return the driver version after the next reboot, if it differs from the loaded one."""
    on_disk = facts.gpu.module_version.value
    return on_disk if on_disk not in (None, loaded) else None


def _pending(found: str | None, on_disk: str, loaded: str) -> Decision:
    """Judge a manager that does not match the loaded driver while a reboot to another driver is pending.

    Installing the loaded driver's version would be wrong after that reboot, and would end running NVLink jobs.
    """
    boot = f"the driver on disk is {on_disk}, loaded is {loaded}: reboot pending"
    if found == on_disk:
        return Decision(
            NAME, Status.UNMET, f"{boot}; the fabric manager on disk is {found} and matches after the reboot"
        )
    is_now = "no fabric manager is installed" if found is None else f"the fabric manager is {found}"
    return Decision(
        NAME, Status.UNMET, f"{boot}; {is_now}, and bootstrap does not change that before the reboot"
    )


def _may_run(facts: NodeFacts) -> bool:
    """Whether a manager may be running: its unit is active, or the units could not be listed."""
    unit = facts.services.unit(UNIT)
    if facts.services.units.value is None:
        return facts.system.systemd_running
    return unit is not None and unit.active not in ("inactive", "failed")


def _managed_here(facts: NodeFacts, node: Node, nvlink_5: bool) -> Decision:
    driver = facts.gpu.driver
    if driver.value is None:
        if driver.status.value == "absent":
            return Decision(
                NAME,
                Status.UNMET,
                "there are NVSwitches, but the NVIDIA driver is not loaded (see gpu-driver)",
                follows="gpu-driver",
            )
        return Decision(NAME, Status.UNKNOWN, because("the NVIDIA driver's version", driver))
    version = driver.value.version
    if driver_is_a_containers(facts) and facts.gpu.fabric_manager.value is None:
        reason = (
            f"driver {version} is loaded without nvidia-smi, and kubelet runs here: a driver container may run the "
            "fabric manager, so bootstrap does not install another one"
        )
        return Decision(NAME, Status.UNKNOWN, reason)
    found = fabric_manager_install.installed_version(facts)
    on_disk = _next_boots_version(facts, version)
    known = found is not None or facts.gpu.fabric_manager.status.value in ("absent", "empty")
    if on_disk is not None and known and found != version:
        return _pending(found, on_disk, version)
    gap = _nvlink_5_gap(facts, version) if nvlink_5 else None
    before = gap.steps if gap is not None else ()
    enable = (EnableUnit(f"Enable and start {UNIT}", UNIT),) if facts.system.systemd_running else ()
    if gap is not None and not gap.steps:
        return gap
    if not known:
        return Decision(
            NAME, Status.UNKNOWN, because("the fabric manager's version", facts.gpu.fabric_manager)
        )
    if found != version:
        if found is None:
            reason = f"there are NVSwitches, but no fabric manager is installed (driver {version})"
            reason += by_hand(facts, "it")
        else:
            reason = f"the fabric manager is {found}, the driver {version}: their full versions must be equal"
            if _may_run(facts):
                # The running manager may be older than the package on disk, and all NVLink traffic depends on it.
                reason += f"; {UNIT} may be running under jobs: drain the node and stop it first"
                return Decision(NAME, Status.UNMET, reason)
        change = fabric_manager_install.change_to(facts, node, version, nvlink_5)
        return Decision(NAME, Status.UNMET, reason, steps=(*before, *change, *enable) if change else before)
    if gap is not None:
        return replace(gap, steps=(*gap.steps, *enable))
    unit = facts.services.unit(UNIT)
    if facts.services.units.value is not None and facts.system.systemd_running:
        state = "not installed" if unit is None else unit.active
        if unit is None or unit.active != "active":
            reason, brings = f"{UNIT} is {state}", fabric_manager_install.subnet_manager(facts, node)
            if nvlink_5 and brings and facts.software.packages.value is not None:
                return Decision(
                    NAME,
                    Status.UNMET,
                    f"{reason}, and nvlsm, which it needs, is not installed",
                    steps=(*brings, *enable),
                )
            if nvlink_5 and not brings and facts.software.package("nvlsm") is None:
                reason += by_hand(facts, "nvlsm")
            return Decision(NAME, Status.UNMET, reason, steps=enable if unit is not None else ())
        if unit.enabled == "disabled":
            return Decision(NAME, Status.UNMET, f"{UNIT} runs, but is not enabled at boot", steps=enable)
    unwell = _unwell(facts)
    if unwell is not None:
        return Decision(
            NAME, Status.UNMET, f"{unwell}, although fabric manager {version} runs (see journalctl -u {UNIT})"
        )
    later = (
        ()
        if on_disk is None
        else (f"the next reboot loads driver {on_disk}: update the fabric manager to it",)
    )
    return Decision(NAME, Status.MET, f"fabric manager {version}, same as the driver", warnings=later)


def _decided(facts: NodeFacts, node: Node) -> Decision:
    devices = facts.pci.devices
    if devices.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the PCI tree", devices))
    if not own_gpus(facts):
        return Decision(NAME, Status.NOT_APPLICABLE, "the node has no NVIDIA GPU")
    if facts.in_container:
        return Decision(NAME, Status.NOT_APPLICABLE, "this is a container; its host manages the fabric")
    gpus = facts.gpu.devices.or_else(())
    if any(device.is_nvswitch for device in devices.value):
        return _managed_here(facts, node, nvlink_5=False)
    if any(tables.gpu_named(gpu.name, "rack") for gpu in gpus):
        return _rack(facts)
    nvlink_5 = any(tables.gpu_named(gpu.name, "nvlink-5") for gpu in gpus)
    # In most guests the host keeps the switches, in every generation; a single GPU is not part of a fabric.
    if len(gpus) > 1 and nvlink_5 and (not facts.in_vm or _was_given_the_switches(facts)):
        return _managed_here(facts, node, nvlink_5=True)
    if _states(facts):
        return _guest(facts, nvlink_5) if facts.in_vm and len(gpus) > 1 else _without_switch(facts)
    if facts.gpu.devices.is_unknown and facts.gpu.driver.value is not None:
        return Decision(NAME, Status.UNKNOWN, because("nvidia-smi's table", facts.gpu.devices))
    return Decision(NAME, Status.NOT_APPLICABLE, "the node has no NVSwitch, and no GPU is part of a fabric")


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return met if the manager has the driver's version and runs, and the fabric state is Completed/Success.

    The steps install the driver's version of the fabric manager and start it.
    """
    driver = facts.gpu.driver.value
    evidence: dict[str, Json] = {
        "driver": None if driver is None else driver.version,
        "fabric_manager": fabric_manager_install.installed_version(facts),
        "switches": [d.address for d in facts.pci.devices.or_else(()) if d.is_nvswitch],
        "states": {str(index): state for index, state in _states(facts).items()},
        "devices": list(facts.gpu.fabric_devices),
    }
    return replace(_decided(facts, node), evidence=evidence)
