"""Operating system, kernel, and virtualization of the node."""

from __future__ import annotations

import re
import shlex

from clusterctl.facts.base import Files, Fragment, Reading, Sections, Unparsable, absent, failed
from clusterctl.facts.model.host import OsRelease, System, Virtualization
from clusterctl.text.foreign import decimal
from clusterctl.text.secret.scrub import scrubbed

_DMI = "/sys/class/dmi/id"
_ARCH = "/proc/sys/kernel/arch"
_EFI = "/sys/firmware/efi"
_SECURE_BOOT = f"{_EFI}/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_LOCKDOWN = "/sys/kernel/security/lockdown"
_XEN_FEATURES = "/sys/hypervisor/properties/features"
_XEN_CAPABILITIES = "/proc/xen/capabilities"
_XEN_DOM0 = 1 << 11
"""XENFEAT_dom0 (Linux, include/xen/interface/features.h)."""

# systemd-detect-virt costs as much as ten other programs. The vendor in the DMI table gives the same result, and on
# x86 a processor flag marks virtual machines, so the program runs only without both.
FRAGMENTS = (
    Fragment(
        "system",
        f"""\
for f in /.dockerenv /run/.containerenv /run/systemd/system {_EFI}; do [ -e "$f" ] && echo "exists $f"; done
v=; {{ read -r v </etc/hosts; }} 2>/dev/null
case $v in '# Kubernetes-managed'*) echo 'exists kubernetes';; esac
[ -r {_ARCH} ] || {{ printf 'machine '; uname -m; }}
v=; {{ read -r v <{_ARCH}; }} 2>/dev/null
if [ ! -d {_DMI} ] && [ "$v" != x86_64 ] && command -v systemd-detect-virt >/dev/null 2>&1
then printf 'vm '; systemd-detect-virt --vm
fi
[ -r {_SECURE_BOOT} ] && {{ printf 'secure-boot '; od -An -tu1 {_SECURE_BOOT}; }}
return 0""",
        files=(
            *("/etc/os-release", "/proc/cmdline", "/proc/sys/kernel/random/boot_id"),
            *("/proc/sys/kernel/hostname", "/proc/sys/kernel/osrelease", _ARCH, "/proc/uptime"),
            *("/proc/1/comm", "/proc/1/cgroup", "/sys/hypervisor/type", "/run/systemd/container"),
            *(_XEN_FEATURES, _XEN_CAPABILITIES, _LOCKDOWN),
            *(f"{_DMI}/sys_vendor", f"{_DMI}/product_name", f"{_DMI}/board_vendor"),
        ),
    ),
)

_DMI_WORDS = (
    ("Amazon EC2", "amazon"),
    ("Google Compute Engine", "google"),
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("QEMU", "qemu"),
    ("Firecracker", "kvm"),
    ("VMware", "vmware"),
    ("innotek GmbH", "oracle"),
    ("VirtualBox", "oracle"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Microsoft Corporation Virtual", "microsoft"),
)
"""DMI vendor and product words of virtual machines (systemd, src/basic/virt.c), for nodes without systemd."""
_FIRST_IN_CONTAINERS = ("catatonit", "docker-init", "dumb-init", "pause", "sleep", "sshd", "tail", "tini")
"""First processes that only containers have; with cgroup v2, containerd's containers show no other sign."""
_ALSO_BARE = ("amazon", "google")
"""Clouds whose machines without a hypervisor have the same DMI words as their virtual machines."""


def parse_os_release(text: str) -> OsRelease:
    """Parse os-release(5); raise Unparsable without ID and NAME."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, raw = line.partition("=")
        if equals and not line.lstrip().startswith("#"):
            values[key.strip()] = " ".join(shlex.split(raw))
    if "ID" not in values and "NAME" not in values:
        raise Unparsable("os-release names no distribution")
    return OsRelease(
        id=values.get("ID", "linux"),
        like=tuple(values.get("ID_LIKE", "").split()),
        version_id=values.get("VERSION_ID", ""),
        pretty_name=values.get("PRETTY_NAME", values.get("NAME", "")),
        codename=values.get("VERSION_CODENAME", ""),
    )


def _word(text: str) -> str:
    if not text or len(text.split()) != 1:
        raise Unparsable(f"expected one word, not {text[:80]!r}")
    return text


def _uptime(text: str) -> float:
    return decimal(text.split(maxsplit=1)[0])


def _container(files: Files, exists: set[str]) -> str:
    told = files.text("/run/systemd/container")
    if told:
        return told.split()[0]
    if "/.dockerenv" in exists:
        return "docker"
    if "/run/.containerenv" in exists:
        return "podman"
    if "kubernetes" in exists:
        return "kubernetes"
    groups = files.text("/proc/1/cgroup") or ""
    for word, name in (
        ("kubepods", "kubernetes"),
        ("docker", "docker"),
        ("lxc", "lxc"),
        ("libpod", "podman"),
    ):
        if re.search(rf"[:/]{word}", groups):
            return name
    return "other" if files.text("/proc/1/comm") in _FIRST_IN_CONTAINERS else "none"


def _virtualization(
    files: Files, words: dict[str, str], exists: set[str], hypervisor: bool | None
) -> Reading[Virtualization]:
    container = _container(files, exists)
    if words.get("vm"):
        return Reading(Virtualization(words["vm"], container, "systemd-detect-virt"))
    if _is_dom0(files):
        # dom0 has the processor's flag like any guest, although it owns the machine (systemd, src/basic/virt.c).
        hypervisor = False
    elif files.text("/sys/hypervisor/type"):
        return Reading(Virtualization("xen", container, "/sys/hypervisor/type"))
    dmi = " ".join(
        files.text(f"{_DMI}/{name}") or "" for name in ("sys_vendor", "product_name", "board_vendor")
    )
    name = next((name for word, name in _DMI_WORDS if word in dmi), None)
    if name is not None and not (name in _ALSO_BARE and _is_bare(files, words, hypervisor)):
        return Reading(Virtualization(name, container, "DMI"))
    if hypervisor:
        return Reading(Virtualization("vm-other", container, "the hypervisor flag of /proc/cpuinfo"))
    if hypervisor is None and not dmi.strip():
        return failed("neither systemd-detect-virt, DMI nor /proc/cpuinfo shows whether the node is virtual")
    return Reading(Virtualization("none", container, "DMI and /proc/cpuinfo"))


def _is_dom0(files: Files) -> bool:
    """Return whether the node is the domain 0 of a Xen host, which owns the machine's devices."""
    features = files.text(_XEN_FEATURES)
    if features is not None and re.fullmatch(r"[0-9a-fA-F]{1,64}", features):
        return bool(int(features, 16) & _XEN_DOM0)
    return "control_d" in (files.text(_XEN_CAPABILITIES) or "")


def _is_bare(files: Files, words: dict[str, str], hypervisor: bool | None) -> bool:
    """Return whether a cloud's machine has no hypervisor, by the processor flag (x86) or Amazon's product name."""
    machine = words.get("machine") or files.text(_ARCH)
    on_x86 = machine == "x86_64" and hypervisor is not None
    return not hypervisor if on_x86 else ".metal" in (files.text(f"{_DMI}/product_name") or "")


def _words(text: str) -> tuple[str, ...]:
    return tuple(scrubbed(text).split())


def _secure_boot(words: dict[str, str], exists: set[str]) -> Reading[bool]:
    # An EFI variable file holds four bytes of attributes, then the value (kernel, efivarfs).
    digits = words.get("secure-boot", "").split()
    if len(digits) == 5:
        return Reading(digits[4] == "1")
    if _EFI not in exists:
        return absent("the node did not boot with UEFI")
    return absent("the SecureBoot variable is missing or not readable")


def _lockdown(text: str | None) -> str:
    """Return the chosen one of ``none [integrity] confidentiality``; empty if there is none."""
    found = re.search(r"\[(none|integrity|confidentiality)\]", text or "")
    return found[1] if found else ""


def parse(sections: Sections, hypervisor: bool | None) -> System:
    """Return the facts of the section ``system``; ``hypervisor`` is the processor flag, None if unknown."""
    section = sections["system"]
    files = Files(section)
    words: dict[str, str] = {}
    exists: set[str] = set()
    for line in section.text.splitlines():
        key, _, rest = line.partition(" ")
        if key == "exists":
            exists.add(rest)
        elif key in ("machine", "vm", "secure-boot"):
            words[key] = rest.strip()
    return System(
        hostname=files.one("/proc/sys/kernel/hostname", _word),
        os=files.one("/etc/os-release", parse_os_release),
        kernel=files.one("/proc/sys/kernel/osrelease", _word),
        machine=Reading(words["machine"]) if words.get("machine") else files.one(_ARCH, _word),
        cmdline=files.one("/proc/cmdline", _words),
        boot_id=files.one("/proc/sys/kernel/random/boot_id", _word),
        uptime_s=files.one("/proc/uptime", _uptime),
        virtualization=_virtualization(files, words, exists, hypervisor),
        init=files.one("/proc/1/comm", str),
        systemd_running="/run/systemd/system" in exists,
        secure_boot=_secure_boot(words, exists),
        lockdown=_lockdown(files.text(_LOCKDOWN)),
    )
