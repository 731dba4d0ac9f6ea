"""Facts of the network: kernel modules, GPUDirect mechanisms, RDMA devices, network interfaces."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterctl.facts.base import Part, Reading
from clusterctl.facts.model.host import ConfigLine


@dataclass(frozen=True, slots=True)
class KernelModule(Part):
    """A loaded module; ``taints`` as in /proc/modules (O: out of tree, P: proprietary, E: unsigned)."""

    name: str
    taints: str


@dataclass(frozen=True, slots=True)
class KernelModules(Part):
    """Loaded modules, modules on disk that are out of tree or NVIDIA's, and modules that load at boot."""

    loaded: Reading[tuple[KernelModule, ...]]
    installed: Reading[tuple[str, ...]]
    """Names (with underscores) of the running kernel's modules that are out of tree or NVIDIA's."""
    at_boot: tuple[ConfigLine, ...]
    """Lines of modules-load.d and /etc/modules, and those of units that load a peer-memory module."""
    options: tuple[ConfigLine, ...]
    """Lines of modprobe.d about NVIDIA, peer memory and RDMA modules."""
    headers: Reading[str]
    """The directory with the running kernel's build files."""
    built_in: tuple[str, ...] = ()
    """Names (with underscores) of RDMA modules that are built into the kernel; ``loaded`` does not list them."""

    def is_loaded(self, name: str) -> bool | None:
        """Return whether a module is loaded or built in (dashes equal underscores); None if unknown."""
        wanted = name.replace("-", "_")
        if wanted in self.built_in:
            return True
        if self.loaded.value is None:
            return None
        return wanted in {module.name for module in self.loaded.value}

    def is_installed(self, name: str) -> bool | None:
        """Return whether an out-of-tree or NVIDIA module is on disk for modprobe; None if unknown."""
        return None if self.installed.value is None else name.replace("-", "_") in self.installed.value

    def loads_at_boot(self, name: str) -> bool:
        """Return whether modules-load.d, /etc/modules, a unit or another module (softdep .. post:) loads it."""
        wanted = name.replace("-", "_")
        units = (line.text.replace("-", "_") for line in self.at_boot if line.text.startswith("ExecStart"))
        loads = (match[1] for command in units if (match := re.search(r"modprobe (?!_r)(.*)", command)))
        if any(re.search(rf"\b{re.escape(wanted)}\b", modules) for modules in loads):
            return True
        after = (line.text.replace("-", "_").partition("post:") for line in self.options)
        return any(line.text.strip().replace("-", "_") == wanted for line in self.at_boot) or any(
            head.startswith("softdep ") and wanted in rest.partition("pre:")[0].split()
            for head, _, rest in after
        )


@dataclass(frozen=True, slots=True)
class GpuDirect(Part):
    """Evidence for the three GPUDirect RDMA mechanisms (NCCL net_ib/gdr.cc reads the same paths)."""

    nv_peer_mem_version: Reading[str]
    """Content of /sys/kernel/mm/memory_peers/nv_mem/version, or of nv_mem_nc's."""
    nvidia_peermem_version: Reading[str]
    """Content of /sys/module/nvidia_peermem/version."""
    peer_memory_api: Reading[bool]
    """Whether the RDMA stack exports ib_register_peer_memory_client."""
    ofed_version: Reading[str]
    """The version of an out-of-tree RDMA stack (MLNX_OFED, DOCA-OFED), from its modules."""
    verbs_dmabuf: Reading[bool]
    """Whether libibverbs has ibv_reg_dmabuf_mr."""


@dataclass(frozen=True, slots=True)
class Gid(Part):
    """One entry of a port's GID table; ``type`` and ``netdev`` read None if the kernel does not report them."""

    index: int
    gid: str
    type: str | None
    netdev: str | None


@dataclass(frozen=True, slots=True)
class RdmaPort(Part):
    """One port: ``state`` ACTIVE, DOWN...; ``phys_state`` LinkUp, Disabled...; ``rate_gbps`` in Gb/s."""

    number: int
    state: str
    phys_state: str
    rate_gbps: float | None
    rate: str
    link_layer: str
    lid: int | None
    sm_lid: int | None
    gids: tuple[Gid, ...]
    counters: tuple[tuple[str, int], ...]
    guid: str | None = None
    """The lower half of the first GID, as ibstat reads it; the kernel has no file for it."""
    lmc: int | None = None
    """The lid mask count: the port answers to 2**lmc LIDs."""
    capability_mask: int | None = None


@dataclass(frozen=True, slots=True)
class RdmaDevice(Part):
    """One RDMA device. A virtual one (Soft-RoCE) has no PCI address but a parent network device."""

    name: str
    node_guid: str
    fw_ver: str | None
    board_id: str | None
    node_type: str | None
    pci_address: str | None
    numa_node: int | None
    netdevs: tuple[str, ...]
    ports: tuple[RdmaPort, ...]
    manages_nvlink: bool = False
    """Whether it connects to the NVLink switches of an HGX B100, B200 or B300 instead of a network."""
    system_image_guid: str | None = None
    """Equal for all devices of one card."""
    hca_type: str | None = None
    """The model of the card: ``MT4129``."""
    hw_rev: str | None = None

    @property
    def is_virtual(self) -> bool:
        return self.pci_address is None


@dataclass(frozen=True, slots=True)
class Rdma(Part):
    """RDMA devices from sysfs, and the userspace libraries that programs need to use them."""

    devices: Reading[tuple[RdmaDevice, ...]]
    libibverbs: str | None
    """Path of libibverbs.so.1."""
    providers: tuple[str, ...]
    """Names of installed providers (mlx5, rxe...)."""
    uverbs: tuple[str, ...]
    """Device files below /dev/infiniband."""
    listed: Reading[tuple[str, ...]]
    """Devices that ``ibv_devices`` lists."""


@dataclass(frozen=True, slots=True)
class Interface(Part):
    """One network interface; ``speed_mbps`` (Mb/s) reads None if the link is down or virtual."""

    name: str
    operstate: str
    mtu: int
    address: str
    speed_mbps: int | None
    driver: str | None
    pci_address: str | None
    numa_node: int | None
    master: str | None
    addresses: tuple[str, ...]
    """With prefix length, e.g. 10.0.0.4/24."""


@dataclass(frozen=True, slots=True)
class Bond(Part):
    """One bond of the kernel's bonding driver; ``mode`` and ``hash_policy`` as in its files: 802.3ad, layer3+4."""

    name: str
    mode: str
    hash_policy: str | None
    members: tuple[str, ...]
    down: tuple[str, ...]
    """Members whose link the bond's own monitor (MII or ARP) reports as down."""
    outside: tuple[str, ...]
    """Members that LACP put into another aggregator than the active one, so that they carry nothing."""


@dataclass(frozen=True, slots=True)
class Network(Part):
    """Network interfaces; ``addresses_known`` is False if ``ip`` is missing on the node."""

    interfaces: Reading[tuple[Interface, ...]]
    addresses_known: bool
    default_route: Reading[str]
    """The interface of the IPv4 default route, or else of the IPv6 default route."""
    bonds: tuple[Bond, ...] = ()

    def interface(self, name: str) -> Interface | None:
        """Return the interface with this name, or None."""
        return next((i for i in self.interfaces.or_else(()) if i.name == name), None)

    def ipv4(self, name: str) -> str | None:
        """Return the first IPv4 address of an interface, without prefix length; None without any."""
        found = self.interface(name)
        addresses = () if found is None else found.addresses
        return next((address.partition("/")[0] for address in addresses if ":" not in address), None)
