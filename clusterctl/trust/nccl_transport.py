"""Parse a channel's transport in NCCL's log: ``NET/IB/0(3)/GDRDMA(PCI)/Shared``, ``P2P/CUMEM``, ``SHM/direct``.

The formats are those of NCCL 2.18 to 2.28: src/transport/net.cc (sendSetup, recvSetup), p2p.cc, shm.cc, coll_net.cc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

TransportKind = Literal["net", "collnet", "p2p", "shm"]
# The network's name may contain spaces ("NCCL RDMA Plugin v9"), and the device a proxy rank ("0(3)").
_NETWORK = re.compile(
    r"(?P<kind>NET|COLLNET)/(?P<network>.+?)/(?P<device>\d{1,9})(?:\((?P<proxy>\d{1,9})\))?"
    r"(?P<gdr>/GDRDMA)?(?:\(PCI\))?(?:/Shared)?$"
)
SOCKET = "Socket"


@dataclass(frozen=True, slots=True)
class ChannelTransport:
    """Hold the transport of a channel: between nodes (``net``, ``collnet``) or inside one (``p2p``, ``shm``).

    ``network`` is IB, Socket or a plugin's name, for ``p2p`` CUMEM, IPC, MNNVL...; ``device`` is NCCL's number of the
    NIC, ``proxy`` the rank whose NIC is used (PXN), ``gdr`` whether GPUDirect RDMA is used.
    """

    kind: TransportKind
    network: str
    device: int | None = None
    proxy: int | None = None
    gdr: bool = False

    @property
    def socket(self) -> bool:
        """Tell whether the channel uses TCP sockets."""
        return self.kind == "net" and self.network.endswith(SOCKET)

    @property
    def label(self) -> str:
        """Return the transport without device and proxy: NET/IB/GDRDMA, NET/Socket, P2P/CUMEM."""
        return f"{self.kind.upper()}/{self.network}" + ("/GDRDMA" if self.gdr else "")


@lru_cache(maxsize=4096)
def parse(text: str) -> ChannelTransport | None:
    """Parse the text after ``via``; None for text that no known NCCL writes, such as half a line."""
    text = text.strip()
    if match := _NETWORK.fullmatch(text):
        proxy = match["proxy"]
        return ChannelTransport(
            "net" if match["kind"] == "NET" else "collnet",
            match["network"],
            int(match["device"]),
            None if proxy is None else int(proxy),
            match["gdr"] is not None,
        )
    head, _, rest = text.partition("/")
    if head == "P2P" and rest:
        return ChannelTransport("p2p", rest)
    if head == "SHM":
        return ChannelTransport("shm", rest or "direct")
    return None
