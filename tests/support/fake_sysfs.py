"""A GPU node's /sys, written as files: a PCIe switch with a GPU and a NIC behind it, RDMA, interfaces.

The layouts are those of real parts: QEMU's root port (PCI Express capability at 0x90, AER at 0x100, ACS at
0x148) and a PLX PEX 87xx switch, whose ACS capability stands at 0xf24, with the capability word 0x207f.
"""

from __future__ import annotations

from pathlib import Path

ROOT_PORT, UPSTREAM, DOWNSTREAM = 4, 5, 6
ZERO_GID = ":".join(["0000"] * 8)


def config_space(
    vendor: int,
    device: int,
    class_code: int,
    *,
    port: int | None,
    chain: list[tuple[int, int, bytes]],
    size: int = 4096,
) -> bytes:
    """Return a bridge's configuration space: header, PCI Express capability, then a chain of extended ones.

    ``chain`` holds (offset, capability id, bytes after the header) in order.
    """
    space = bytearray(size)
    space[0:4] = vendor.to_bytes(2, "little") + device.to_bytes(2, "little")
    space[4:8] = b"\x07\x04\x10\x00"
    space[9:12] = class_code.to_bytes(3, "little")
    space[0x0E] = 0x01
    space[0x34] = 0x40
    space[0x40:0x44] = b"\x01\x90\x03\xc8"  # power management, next at 0x90
    if port is not None:
        space[0x90:0x94] = bytes([0x10, 0x00]) + (port << 4 | 0x2).to_bytes(2, "little")
    else:
        space[0x41] = 0
    for index, (offset, identity, body) in enumerate(chain):
        following = chain[index + 1][0] if index + 1 < len(chain) else 0
        space[offset : offset + 4] = (identity | 1 << 16 | following << 20).to_bytes(4, "little")
        space[offset + 4 : offset + 4 + len(body)] = body
    return bytes(space)


def acs(capability: int, control: int) -> bytes:
    """Return the two words after an ACS capability's header."""
    return capability.to_bytes(2, "little") + control.to_bytes(2, "little")


class Tree:
    """Writes files and links below one directory that stands for /sys."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str | bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else f"{text}\n".encode())

    def link(self, path: str, target: str) -> None:
        name = self.root / path
        name.parent.mkdir(parents=True, exist_ok=True)
        name.symlink_to(target)

    def pci(self, path: str, ids: tuple[int, int, int], *, driver: str, config: bytes, **values: str) -> str:
        """Add a PCI function at ``pci0000:00/0000:00:01.0/...`` and return its directory."""
        vendor, device, class_code = ids
        folder = f"devices/{path}"
        address = path.rsplit("/", 1)[-1]
        files = {"vendor": f"0x{vendor:04x}", "device": f"0x{device:04x}", "class": f"0x{class_code:06x}"}
        for name, value in {**files, "numa_node": "0", **values}.items():
            self.write(f"{folder}/{name}", value)
        self.write(f"{folder}/config", config)
        self.link(f"bus/pci/devices/{address}", f"../../../{folder}")
        self.link(f"{folder}/driver", f"{'../' * (path.count('/') + 2)}bus/pci/drivers/{driver}")
        self.link(
            f"{folder}/iommu_group", f"{'../' * (path.count('/') + 2)}kernel/iommu_groups/{len(address)}"
        )
        return folder


def build(root: Path) -> None:
    """Write the tree."""
    tree = Tree(root)
    port, up = "pci0000:00/0000:00:01.0", "pci0000:00/0000:00:01.0/0000:01:00.0"
    link = {"current_link_speed": "16.0 GT/s PCIe", "current_link_width": "16"}
    link |= {"max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16"}
    aer = b"\0" * 0x44
    qemu = [(0x100, 0x0001, aer), (0x148, 0x000D, acs(0x001D, 0x001D))]
    plx = [(0x100, 0x0003, b"\x01" * 8), (0xFB4, 0x0001, b""), (0x138, 0x0004, b""), (0x148, 0x0002, b"")]
    ids = (0x10B5, 0x8747, 0x060400)
    tree.pci(
        port,
        (0x1B36, 0x000C, 0x060400),
        driver="pcieport",
        config=config_space(0x1B36, 0x000C, 0x060400, port=ROOT_PORT, chain=qemu),
        **link,
    )
    tree.pci(up, ids, driver="pcieport", config=config_space(*ids, port=UPSTREAM, chain=plx), **link)
    for number in (8, 9):
        control = 0x5D if number == 8 else 0
        chain = [*plx, (0xE00, 0x0012, b""), (0xF24, 0x000D, acs(0x207F, control)), (0xB70, 0x000B, b"")]
        tree.pci(
            f"{up}/0000:02:0{number}.0",
            ids,
            driver="pcieport",
            config=config_space(*ids, port=DOWNSTREAM, chain=chain),
            **link,
        )
    tree.pci(
        "pci0000:00/0000:00:1e.0",
        (0x8086, 0x244E, 0x060401),
        driver="shpchp",
        config=config_space(0x8086, 0x244E, 0x060401, port=None, chain=[], size=256),
    )
    tree.pci(
        f"{up}/0000:02:08.0/0000:03:00.0",
        (0x10DE, 0x2335, 0x030200),
        driver="nvidia",
        config=b"\0" * 64,
        **link,
    )
    nic = tree.pci(
        f"{up}/0000:02:09.0/0000:04:00.0",
        (0x15B3, 0x1021, 0x020700),
        driver="mlx5_core",
        config=b"\0" * 64,
        **link,
    )
    interface = {"operstate": "up", "mtu": "4200", "address": "94:6d:ae:00:00:01", "speed": "400000"}
    for name, value in interface.items():
        tree.write(f"{nic}/net/ens1np0/{name}", value)
    tree.link(f"{nic}/net/ens1np0/device", "../..")
    tree.link("class/net/ens1np0", f"../../{nic}/net/ens1np0")
    for name, value in {"operstate": "unknown", "mtu": "65536", "address": "00:00:00:00:00:00"}.items():
        tree.write(f"devices/virtual/net/lo/{name}", value)
    tree.link("class/net/lo", "../../devices/virtual/net/lo")
    _rdma(tree, nic)
    tree.write("module/nvidia_peermem/version", "580.159.04")
    tree.write("module/ib_core/version", "24.10-1.1.4")
    tree.write("kernel/mm/memory_peers/nv_mem/version", "1.3")
    tree.write("class/dmi/id/sys_vendor", "Supermicro")


def add_nvlink_bridges(root: Path, functions: int = 4) -> None:
    """Add a B200, and functions of the ConnectX-7 by which its board manages the NVLink switches; there are four."""
    tree = Tree(root)
    tree.pci("pci0000:1a/0000:1b:00.0", (0x10DE, 0x2901, 0x030200), driver="nvidia", config=b"\0" * 64)
    for number in range(functions):
        folder = tree.pci(
            f"pci0000:00/0000:05:00.{number}",
            (0x15B3, 0x1021, 0x020700),
            driver="mlx5_core",
            config=b"\0" * 64,
        )
        model = b"SMDL=SW_MNG" if number % 2 else b"SMDL=0"
        tree.write(f"{folder}/vpd", b"\x82\x12\0ConnectX7 mezz\x90\x20\0V3\x0c" + model + b"\x78")
        device = f"{folder}/infiniband/mlx5_{number + 8}"
        tree.write(f"{device}/node_guid", f"cc40:f303:0027:f63{number}")
        tree.write(f"{device}/ports/1/state", "4: ACTIVE")
        tree.write(f"{device}/ports/1/link_layer", "InfiniBand")
        tree.write(f"{device}/ports/1/rate", "400 Gb/sec (4X NDR)")
        tree.link(f"{device}/device", "../..")
        tree.link(f"class/infiniband/mlx5_{number + 8}", f"../../{device}")


def _rdma(tree: Tree, nic: str) -> None:
    device = f"{nic}/infiniband/mlx5_0"
    values = {"fw_ver": "28.43.1014", "board_id": "MT_0000000838", "node_guid": "946d:ae03:0000:0001"}
    values |= {"sys_image_guid": "946d:ae03:0000:0001", "hca_type": "MT4129", "hw_rev": "0"}
    for name, value in {**values, "node_type": "1: CA"}.items():
        tree.write(f"{device}/{name}", value)
    port = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)"}
    for name, value in {
        **port,
        "link_layer": "Ethernet",
        "lid": "0x0",
        "lid_mask_count": "0",
        "sm_lid": "0x0",
        "cap_mask": "0x00010000",
    }.items():
        tree.write(f"{device}/ports/1/{name}", value)
    tree.write(f"{device}/ports/1/counters/link_downed", "2")
    tree.write(f"{device}/ports/1/counters/excessive_buffer_overrun_errors", "7")
    tree.write(f"{device}/ports/1/hw_counters/out_of_sequence", "11")
    gids = {
        0: ("fe80:0000:0000:0000:966d:aeff:fe00:0001", "IB/RoCE v1"),
        1: ("fe80:0000:0000:0000:966d:aeff:fe00:0001", "RoCE v2"),
        2: ("0000:0000:0000:0000:0000:ffff:0a00:0004", "IB/RoCE v1"),
        3: ("0000:0000:0000:0000:0000:ffff:0a00:0004", "RoCE v2"),
    }
    for index in range(256):
        gid, kind = gids.get(index, (ZERO_GID, ""))
        tree.write(f"{device}/ports/1/gids/{index}", gid)
        if kind:
            tree.write(f"{device}/ports/1/gid_attrs/types/{index}", kind)
            tree.write(f"{device}/ports/1/gid_attrs/ndevs/{index}", "ens1np0")
    tree.link(f"{device}/device", "../..")
    tree.link("class/infiniband/mlx5_0", f"../../{device}")
    tree.write("devices/virtual/infiniband/rxe0/node_guid", "5054:00ff:fe12:3456")
    tree.write("devices/virtual/infiniband/rxe0/node_type", "1: CA")
    tree.write("devices/virtual/infiniband/rxe0/parent", "ens1np0")
    tree.write("devices/virtual/infiniband/rxe0/ports/1/state", "1: DOWN")
    tree.write("devices/virtual/infiniband/rxe0/ports/1/phys_state", "3: Disabled")
    tree.write("devices/virtual/infiniband/rxe0/ports/1/rate", "2.5 Gb/sec (1X SDR)")
    tree.write("devices/virtual/infiniband/rxe0/ports/1/link_layer", "Ethernet")
    tree.link("class/infiniband/rxe0", "../../devices/virtual/infiniband/rxe0")
