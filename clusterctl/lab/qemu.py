"""Run guests: q35 machines with real PCIe root ports (and so ACS registers), on a fabric network."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clusterctl import log
from clusterctl.documents.lab import Accelerator, GuestSize, LabNode, ProcessMark
from clusterctl.errors import LabError
from clusterctl.lab import host, initramfs, processes
from clusterctl.lab.model import Lab
from clusterctl.lab.node_files import NodeFile
from clusterctl.lab.python_mounts import BindMount
from clusterctl.lab.rootfs import Image

_logger = log.get(__name__)

FABRIC_INTERFACE = "fabric0"
FABRIC_NETWORK = "10.83.0"
_LOOPBACK = "127.83.0"
MOST_MOUNTS = 12
"""Mounts have the PCI slots from 0x4 to the one before the first root port."""

_START_TIMEOUT_S = 60.0
_KVM_PROBE_S = 10.0
_ACCELERATORS: dict[Accelerator, tuple[str, ...]] = {
    "kvm": ("-accel", "kvm", "-cpu", "host"),
    # Page tables of four levels instead of five: without KVM each walk through them is emulated.
    "tcg": ("-accel", "tcg,thread=multi", "-cpu", "max,la57=off"),
}


def choose_accelerator(image: Image) -> Accelerator:
    """Return ``kvm`` where the lab's kernel really boots with it, else ``tcg`` (20 to 50 times slower).

    Inside some virtual machines /dev/kvm exists and opens, but no guest runs.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    # Without a first process the kernel panics, resets at once, and QEMU exits: a second or two of work.
    kernel_line = "rdinit=/none root=none panic=-1"
    argv = (
        "qemu-system-x86_64", "-machine", "q35", *_ACCELERATORS["kvm"], "-m", "512", "-nodefaults",
        "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(image.kernel), "-append", kernel_line,
    )  # fmt: skip
    try:
        host.run(argv, _KVM_PROBE_S)
    except LabError as error:
        _logger.info("/dev/kvm exists but does not run guests; continuing without it (%s)", error)
        return "tcg"
    return "kvm"


def plan_nodes(count: int) -> tuple[LabNode, ...]:
    """Choose names, addresses and free ports for the guests."""
    return tuple(
        # Each guest has a loopback address of its own: no two nodes share one in the inventory.
        LabNode(
            name=f"node{number}", address=f"{_LOOPBACK}.{10 + number}",
            port=_free_port(f"{_LOOPBACK}.{10 + number}"),
            user="root", fabric_address=f"{FABRIC_NETWORK}.{10 + number}", fabric_interface=FABRIC_INTERFACE,
        )
        for number in range(1, count + 1)
    )  # fmt: skip


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def guest_name(lab_id: str, node: str) -> str:
    """Return the name of the guest on the command line of its process."""
    return f"clusterctl-lab-{lab_id}-{node}"


def _mac(network: int, lab_id: str, node: LabNode) -> str:
    number = int(node.fabric_address.rpartition(".")[2])
    return f"52:54:{network:02x}:{lab_id[0:2]}:{lab_id[2:4]}:{number:02x}"


def _fabric_group(lab_id: str) -> str:
    """Return a multicast group and port of this lab's own (239/8 is for private use, RFC 2365)."""
    digest = hashlib.sha256(lab_id.encode()).digest()
    return f"239.83.{digest[0]}.{digest[1]}:{20000 + int.from_bytes(digest[2:4], 'big') % 10000}"


def network_files(lab_id: str, node: LabNode) -> tuple[NodeFile, ...]:
    """Return the guest's settings for its two networks (systemd.link(5), systemd.network(5))."""
    fabric, management = _mac(1, lab_id, node), _mac(0, lab_id, node)
    return (
        NodeFile(
            "etc/systemd/network/10-fabric.link",
            f"[Match]\nMACAddress={fabric}\n\n[Link]\nName={FABRIC_INTERFACE}\n",
        ),
        # The fabric echoes a guest's own frames; duplicate address detection would see another node in them.
        NodeFile(
            "etc/systemd/network/10-fabric.network",
            f"[Match]\nMACAddress={fabric}\n\n[Network]\nAddress={node.fabric_address}/24\n"
            "IPv6DuplicateAddressDetection=0\nIPv6AcceptRA=no\n",
        ),
        # The addresses are those of QEMU's user network, the same in every guest.
        NodeFile(
            "etc/systemd/network/20-management.network",
            f"[Match]\nMACAddress={management}\n\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\n"
            "IPv6AcceptRA=no\n",
        ),
        NodeFile("etc/resolv.conf", "nameserver 10.0.2.3\n"),
    )


def mount_files(mounts: Sequence[BindMount]) -> tuple[NodeFile, ...]:
    """Return the fstab(5) by which a guest mounts directories of this machine over 9p."""
    lines = []
    for tag, mount in enumerate(mounts):
        target = "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in mount.target)
        # A cache of what this machine may change would be stale; what is read only is taken as it is.
        access = "ro,cache=loose" if mount.read_only else "rw,cache=mmap"
        lines.append(f"mount{tag} {target} 9p {access},trans=virtio,version=9p2000.L,msize=524288 0 0\n")
    return (NodeFile("etc/fstab", "".join(lines)),) if lines else ()


def _mount_words(mounts: Sequence[BindMount]) -> tuple[str, ...]:
    words: list[str] = []
    for tag, mount in enumerate(mounts):
        source = mount.source.replace(",", ",,")
        access = ",readonly=on" if mount.read_only else ""
        words += ["-fsdev", f"local,id=mount{tag},path={source},security_model=none{access}"]
        words += ["-device", f"virtio-9p-pci,fsdev=mount{tag},mount_tag=mount{tag},addr={4 + tag:#x}"]
    return tuple(words)


def guest_argv(
    lab_id: str, node: LabNode, image: Image, folder: Path, size: GuestSize, mounts: Sequence[BindMount] = ()
) -> tuple[str, ...]:
    """Return the command line of one guest; ``folder`` holds its disk, initramfs, console log and pid.

    The layout of the PCI bus is fixed, and tests rely on it: root ports at 00:10.0 to 00:13.0, with the
    stand-in for a GPU behind the first, the stand-in for a NIC behind the second, a device of neither kind
    behind the third, and none behind the fourth.
    """
    user_net = f"user,id=management,hostfwd=tcp:{node.address}:{node.port}-:22"
    # localaddr keeps the fabric's frames on this machine.
    fabric_net = f"socket,id=fabric,mcast={_fabric_group(lab_id)},localaddr=127.0.0.1"
    kernel_line = (
        "root=/dev/vda rw console=ttyS0 quiet loglevel=4 panic=10 systemd.show_status=0 "
        # Speculation is not modelled without KVM; guarding against it only costs time. Neither AppArmor's nor
        # audit's userspace is installed.
        "mitigations=off apparmor=0 audit=0"
    )
    # cache=unsafe hands what a guest flushes to this machine's kernel, which keeps it when the guest is killed: its
    # power loss stays one. It does not wait for this machine's disk, whose own power loss is not rehearsed.
    return (
        "qemu-system-x86_64",
        "-name", f"guest={guest_name(lab_id, node.name)}",
        "-machine", "q35", *_ACCELERATORS[size.accelerator],
        "-smp", str(size.vcpus), "-m", str(size.memory_mib), *_memory_nodes(size),
        "-nodefaults", "-no-user-config", "-display", "none", "-rtc", "base=utc",
        "-serial", f"file:{folder / 'console.log'}",
        "-kernel", str(image.kernel), "-initrd", str(folder / "initramfs"), "-append", kernel_line,
        "-netdev", user_net,
        "-device", f"virtio-net-pci,netdev=management,addr=0x2,romfile=,mac={_mac(0, lab_id, node)}",
        "-drive", f"if=none,id=disk,file={folder / 'disk.qcow2'},format=qcow2,cache=unsafe,discard=unmap",
        "-device", "virtio-blk-pci,drive=disk,addr=0x3",
        "-device", "pcie-root-port,id=port0,addr=0x10,chassis=1,slot=1",
        "-device", "edu,bus=port0",
        "-device", "pcie-root-port,id=port1,addr=0x11,chassis=2,slot=2",
        "-netdev", fabric_net,
        "-device", f"e1000e,bus=port1,netdev=fabric,romfile=,mac={_mac(1, lab_id, node)}",
        "-device", "pcie-root-port,id=port2,addr=0x12,chassis=3,slot=3",
        "-device", "virtio-rng-pci,bus=port2",
        "-device", "pcie-root-port,id=port3,addr=0x13,chassis=4,slot=4",
        *_mount_words(mounts),
        "-pidfile", str(folder / "pid"), "-daemonize",
    )  # fmt: skip


def _memory_nodes(size: GuestSize) -> tuple[str, ...]:
    """Split a guest's memory over two NUMA nodes: only then its kernel balances pages between them.

    All processors belong to the first; a node of memory alone is one all the same.
    """
    words: list[str] = []
    for node, size_mib in enumerate((size.memory_mib - size.memory_mib // 2, size.memory_mib // 2)):
        cpus = f",cpus=0-{size.vcpus - 1}" if node == 0 else ""
        words += ["-object", f"memory-backend-ram,id=memory{node},size={size_mib}M"]
        words += ["-numa", f"node,nodeid={node},memdev=memory{node}{cpus}"]
    return tuple(words)


def prepare(lab: Lab, node: LabNode, image: Image, node_tar: bytes, *, bare: bool = False) -> None:
    """Make a guest's disk (what it changes, on top of the shared image) and its initramfs."""
    folder = lab.node_folder(node.name)
    shared = image.initramfs.read_bytes()
    (folder / "initramfs").write_bytes(shared + initramfs.node_archive(node_tar))
    (folder / "initramfs").chmod(0o600)
    disk, backing = str(folder / "disk.qcow2"), image.bare_disk if bare else image.disk
    host.run(("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(backing), disk), 60)


def start(lab: Lab, node: LabNode) -> LabNode:
    """Boot a guest; return the node with its process. SSH answers later."""
    folder = lab.node_folder(node.name)
    argv = guest_argv(lab.lab_id, node, Image(lab.image_key), folder, lab.size, lab.mounts)
    host.run(argv, _START_TIMEOUT_S)
    pid = int((folder / "pid").read_text("ascii"))
    return replace(node, process=processes.mark(pid))


def kill(node: LabNode) -> LabNode:
    """Cut a guest's power; return the node without a process."""
    if node.process is not None:
        processes.end(node.process)
    return replace(node, process=None)


def is_running(node: LabNode) -> bool:
    """Return whether the guest's process runs."""
    return node.process is not None and processes.is_alive(node.process)


def find_guests(lab_id: str) -> tuple[ProcessMark, ...]:
    """Return every guest process of this lab that runs, whether or not it was recorded."""
    wanted = f"guest={guest_name(lab_id, '')}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if words[0].endswith(b"qemu-system-x86_64") and any(word.startswith(wanted) for word in words):
            try:
                found.append(processes.mark(int(path.parent.name)))
            except LabError:  # it ended meanwhile
                continue
    return tuple(found)


def console_tail(folder: Path, lines: int = 15) -> str:
    """Return the end of a guest's console, for an error message."""
    try:
        text = (folder / "console.log").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
