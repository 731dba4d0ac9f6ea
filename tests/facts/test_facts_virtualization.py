"""What a node runs on where the firmware's words alone would not tell."""

from __future__ import annotations

import pytest

from clusterctl.facts.base import Section, Sections
from clusterctl.facts.subjects import system


def _vm(vendor: str, product: str, machine: str, hypervisor: bool | None, *more: str) -> str:
    text = (
        f"/sys/class/dmi/id/sys_vendor:{vendor}\n/sys/class/dmi/id/product_name:{product}\n"
        f"/proc/sys/kernel/arch:{machine}\n"
    )
    text += "".join(f"{line}\n" for line in more)
    found = system.parse(Sections({"system": Section("system", text)}), hypervisor).virtualization.value
    assert found is not None
    return found.vm


@pytest.mark.parametrize(
    ("said", "container"),
    [
        ("/proc/1/comm:systemd\n/proc/1/cgroup:0::/init.scope", "none"),
        ("/proc/1/comm:init\n/proc/1/cgroup:0::/", "none"),
        ("/proc/1/comm:sshd\n/proc/1/cgroup:0::/", "other"),
        ("/proc/1/comm:bash\n/proc/1/cgroup:0::/\nexists kubernetes", "kubernetes"),
        ("/proc/1/comm:sshd\n/proc/1/cgroup:0::/kubepods.slice/x", "kubernetes"),
        ("/proc/1/comm:systemd\nexists /.dockerenv", "docker"),
    ],
)
def test_a_container_is_known_whatever_runs_it(said, container):
    """Taken for a machine, a pod would be required to change what is its host's."""
    found = system.parse(Sections({"system": Section("system", f"{said}\n")}), False).virtualization.value
    assert found is not None
    assert found.container == container


@pytest.mark.parametrize(
    ("vendor", "product", "machine", "hypervisor", "vm"),
    [
        ("Amazon EC2", "p5.48xlarge", "x86_64", True, "amazon"),
        ("Amazon EC2", "g4dn.metal", "x86_64", False, "none"),
        ("Amazon EC2", "g5g.metal", "aarch64", False, "none"),
        ("Amazon EC2", "g5g.16xlarge", "aarch64", False, "amazon"),
        ("Google", "Google Compute Engine", "x86_64", True, "google"),
        ("Google", "Google Compute Engine", "x86_64", False, "none"),
        ("Google", "Google Compute Engine", "aarch64", False, "google"),
        # Passthrough guests may hide that they are guests from the driver, and so the processor's flag.
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "x86_64", False, "qemu"),
    ],
)
def test_a_clouds_bare_machine_is_no_virtual_one(vendor, product, machine, hypervisor, vm):
    """In a virtual machine ACS is left alone: taken for one, a bare machine would go on redirecting."""
    assert _vm(vendor, product, machine, hypervisor) == vm


@pytest.mark.parametrize(
    ("vendor", "more", "vm"),
    [
        ("Supermicro", ["/sys/hypervisor/properties/features:00002f05"], "none"),
        ("Supermicro", ["/proc/xen/capabilities:control_d"], "none"),
        ("Supermicro", ["/sys/hypervisor/properties/features:00002705"], "xen"),
        ("Supermicro", [], "xen"),
        # Xen that runs in a virtual machine itself.
        ("QEMU", ["/sys/hypervisor/properties/features:00002f05"], "qemu"),
    ],
)
def test_the_domain_that_runs_a_xen_host_is_no_guest(vendor, more, vm):
    """Its processors have the hypervisor's flag, and its ports' ACS is its own to clear."""
    assert _vm(vendor, "SYS-821GE", "x86_64", True, "/sys/hypervisor/type:xen", *more) == vm
