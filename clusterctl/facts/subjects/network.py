"""Network interfaces with speed, MTU, driver and addresses, and the default route."""

from __future__ import annotations

import re

from clusterctl.facts.base import Files, Fragment, Reading, ReadStatus, Section, Sections, Unparsable, links
from clusterctl.facts.model.fabric import Bond, Interface, Network
from clusterctl.facts.subjects.pci import BDF
from clusterctl.inventory.field_types import is_address
from clusterctl.text.foreign import whole

_ROUTES_6 = "/proc/net/ipv6_route"
_ALL = "0" * 32
"""The destination ``::`` of a default route in the kernel's list."""
_REJECTS = 0x200
"""RTF_REJECT (Linux, uapi/linux/route.h): the kernel's own default route, which rejects every packet."""

FRAGMENTS = (
    # A node may have thousands of IPv6 routes, so they are searched only without an IPv4 default route.
    Fragment(
        "network",
        f"""\
v=; {{ while read -r x d y; do [ "$d" != 00000000 ] || v=1; done </proc/net/route; }} 2>/dev/null
[ "$v" ] || {{ grep -Hs '^{_ALL} 00 ' {_ROUTES_6}; n $?; }}""",
        needs="[ -d /sys/class/net ]",
        missing="/sys/class/net not found",
        files=(
            *(f"/sys/class/net/*/{name}" for name in ("operstate", "mtu", "address", "speed")),
            *(f"/sys/class/net/*/bonding/{name}" for name in ("mode", "xmit_hash_policy", "ad_aggregator")),
            *(f"/sys/class/net/*/bonding_slave/{name}" for name in ("mii_status", "ad_aggregator_id")),
            *("/sys/class/net/*/device/numa_node", "/proc/net/route"),
        ),
        links=("/sys/class/net/*", "/sys/class/net/*/device/driver", "/sys/class/net/*/master"),
        folder="/sys/class/net/",
    ),
    Fragment(
        "addresses",
        "ip -o addr show",
        needs="command -v ip >/dev/null 2>&1",
        missing="ip (iproute2) is not installed",
    ),
)


def parse_addresses(text: str) -> dict[str, tuple[str, ...]]:
    """Parse ``ip -o addr``: interface -> addresses with prefix length."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        match = re.match(r"\d+: ([^\s@]+?):?(?:@\S+)?\s+inet6? (\S+)", line)
        if match and is_address(match[2].partition("/")[0]):
            found.setdefault(match[1], []).append(match[2])
        elif match or not re.match(r"\d+: ", line):
            raise Unparsable(f"not a line of ip -o addr: {line[:80]!r}")
    return {name: tuple(values) for name, values in found.items()}


def _speed(number: int | None) -> int | None:
    # Drivers print -1 for an unknown speed, or 4294967295 if they treat it as unsigned.
    return number if number is not None and 0 < number < 1 << 31 else None


def parse_interfaces(text: str, addresses: dict[str, tuple[str, ...]]) -> tuple[Interface, ...]:
    """Parse files and links of /sys/class/net; raise Unparsable without any interface."""
    files, targets = Files.of_text(text), links(text)
    interfaces = []
    for match, state in files.matching(r"([^/]+)/operstate"):
        name = match[1]
        numa = files.number(f"{name}/device/numa_node")
        found = re.findall(BDF, targets.get(name, ""))
        driver, master = (targets.get(f"{name}/{link}") for link in ("device/driver", "master"))
        interfaces.append(
            Interface(
                name=name,
                operstate=state,
                mtu=files.number(f"{name}/mtu") or 0,
                address=files.text(f"{name}/address") or "",
                speed_mbps=_speed(files.number(f"{name}/speed")),
                driver=driver.rsplit("/", 1)[-1] if driver else None,
                pci_address=found[-1] if found else None,
                numa_node=numa if numa is not None and numa >= 0 else None,
                master=master.rsplit("/", 1)[-1] if master else None,
                addresses=addresses.get(name, ()),
            )
        )
    if not interfaces:
        raise Unparsable("no network interface in the output")
    return tuple(sorted(interfaces, key=lambda interface: interface.name))


def parse_bonds(text: str) -> tuple[Bond, ...]:
    """Parse the files of the bonding driver (Linux, Documentation/networking/bonding.rst)."""
    files, targets = Files.of_text(text), links(text)
    bonds = []
    for match, mode in files.matching(r"([^/]+)/bonding/mode"):
        name = match[1]
        members = sorted(
            link.removesuffix("/master")
            for link, target in targets.items()
            if link.endswith("/master") and target.rpartition("/")[2] == name
        )
        active = files.number(f"{name}/bonding/ad_aggregator")
        down = [one for one in members if files.text(f"{one}/bonding_slave/mii_status") == "down"]
        outside = [
            one
            for one in members
            if one not in down
            and active is not None
            and files.number(f"{one}/bonding_slave/ad_aggregator_id") not in (None, active)
        ]
        # Both files have the kernel's name and number: "802.3ad 4".
        policy = files.text(f"{name}/bonding/xmit_hash_policy") or ""
        bonds.append(
            Bond(
                name=name,
                mode=mode.partition(" ")[0],
                hash_policy=policy.partition(" ")[0] or None,
                members=tuple(members),
                down=tuple(down),
                outside=tuple(outside),
            )
        )
    return tuple(sorted(bonds, key=lambda bond: bond.name))


def parse_default_route(text: str) -> str:
    """Return the interface of the default route with the lowest metric in /proc/net/route."""
    routes = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 8 and words[1] == "00000000" and words[7] == "00000000":
            routes.append((whole(words[6]), words[0]))
    if not routes:
        raise Unparsable("no IPv4 default route")
    return min(routes)[1]


def parse_default_route_6(text: str) -> str:
    """Return the interface of the default route with the lowest metric in /proc/net/ipv6_route.

    Routers announce themselves on every network, so several interfaces with the lowest metric are not decidable.
    """
    routes = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 10 and words[0] == _ALL and words[1] == "00" and not whole(words[8], 16) & _REJECTS:
            routes.append((whole(words[5], 16), words[9]))
    nearest = {name for metric, name in routes if metric == min(routes)[0]}
    if len(nearest) != 1:
        raise Unparsable(
            "several IPv6 default routes have the same metric" if nearest else "no default route"
        )
    return nearest.pop()


def _default_route(section: Section) -> Reading[str]:
    files = Files(section)
    reading = files.one("/proc/net/route", parse_default_route)
    if reading.value is None and _ROUTES_6 in files.lines:
        reading = files.one(_ROUTES_6, parse_default_route_6)
    if reading.status is ReadStatus.UNPARSABLE:
        return Reading(None, ReadStatus.ABSENT, reading.detail)
    return reading


def parse(sections: Sections) -> Network:
    """Return the facts of the sections ``network`` and ``addresses``."""
    section = sections["network"]
    addresses = sections["addresses"].read(parse_addresses)
    return Network(
        interfaces=section.read(lambda text: parse_interfaces(text, addresses.or_else({}))),
        addresses_known=addresses.value is not None,
        default_route=_default_route(section),
        bonds=section.read(parse_bonds).or_else(()),
    )
