"""Word why a reading has no value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusterctl.facts.base import Reading, ReadStatus

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts

NO_SYSTEMD = "the node does not run systemd"
"""Why a node has no step that installs or starts a service."""
ENROLL = (
    "the kernel rejects modules built on this machine until their key is enrolled: mokutil --import "
    "/var/lib/dkms/mok.pub (Ubuntu: /var/lib/shim-signed/mok/MOK.der), then reboot and confirm at the console"
)
"""What a person must do before a module that DKMS built can be loaded (dkms README, "Secure Boot")."""
UNTIL_CLEARED = (
    "drain the node; until the fault is cleared: 1. nvidia-smi --gpu-reset, 2. reboot, 3. have it serviced"
)
"""What a person does with a GPU that has a fault, in this order."""
_WORDS = {
    ReadStatus.ABSENT: "was not found",
    ReadStatus.EMPTY: "is empty",
    ReadStatus.FAILED: "could not be read",
    ReadStatus.DENIED: "can be read only by root",
    ReadStatus.UNPARSABLE: "could not be parsed",
}


def because(what: str, reading: Reading[Any]) -> str:
    """Return why a reading has no value, with its detail."""
    words = f"{what} {_WORDS.get(reading.status, 'has no value')}"
    return f"{words} ({reading.detail})" if reading.detail else words


def at_boot(facts: NodeFacts, parameter: str) -> str:
    """Return how a person adds a parameter to the kernel's command line on this node's distribution."""
    system = facts.system.os.value
    if system is not None and system.family == "rhel":
        return f"grubby --update-kernel=ALL --args='{parameter}'"
    if system is not None and system.family == "debian":
        return f"'{parameter}' in GRUB_CMDLINE_LINUX of /etc/default/grub, then update-grub"
    return f"kernel parameter {parameter}"
