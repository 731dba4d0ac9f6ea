"""Types of texts in inventories: names, addresses, selectors, and the stable names of requirements."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Annotated

from pydantic import AfterValidator, StringConstraints, WithJsonSchema

from clusterctl.text.closest import spelled

REQUIREMENT_NAMES = (
    "acs",
    "peermem",
    "rdma-userspace",
    "rdma-link",
    "gpu-driver",
    "gpu-persistence",
    "gpu-health",
    "fabric-manager",
    "docker",
    "container-toolkit",
    "memlock",
    "cpu-governor",
    "numa-balancing",
    "network-buffers",
    "cluster-file",
    "shared-dir",
    "ssh-mesh",
    "time-sync",
    "mpi",
    "accept-tools",
    "disk",
    "names",
    "python",
)
"""The stable names of requirements, as users write them in inventories and options."""


def _requirement_name(name: str) -> str:
    name = spelled(name, REQUIREMENT_NAMES)
    if name not in REQUIREMENT_NAMES:
        close = get_close_matches(name, REQUIREMENT_NAMES, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(
            f"unknown requirement {name!r}; expected one of {', '.join(REQUIREMENT_NAMES)}{hint}"
        )
    return name


RequirementName = Annotated[
    str,
    AfterValidator(_requirement_name),
    WithJsonSchema({"type": "string", "enum": list(REQUIREMENT_NAMES)}),
]

NODE_NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$"
NodeName = Annotated[str, StringConstraints(pattern=NODE_NAME)]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
PciSelector = Annotated[
    str,
    StringConstraints(
        pattern=r"^(class:[0-9a-fA-F]{2,6}|[0-9a-fA-F]{4}:([0-9a-fA-F]{4}|\*)"
        r"|([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])$"
    ),
]
# These texts must not begin with '-': they become words of command lines, where they would be taken for options.
_ZONE = re.compile(r"[0-9A-Za-z._:-]{0,15}")
_SPAN = re.compile(r"([0-9]+\.[0-9]+\.[0-9]+\.)([0-9]+)-([0-9]+)")
_NUMBERS = re.compile(r"[0-9]+(\.[0-9]*)+$")


def address_problem(text: str) -> str | None:
    """Return the problem of a text that looks like an IP address but is not a valid one, else None.

    The resolver would accept such texts: 10.0.0.010 as 10.0.0.8, because a leading zero makes a number octal
    (inet_aton(3)), and 10.0.0 as 10.0.0.0.
    """
    if "@" in text or "//" in text:
        return f"{text!r} is not a valid address; write only the host here, and user and port as keys of their own"
    try:
        if ":" in text:
            IPv6Address(text)
        elif _NUMBERS.match(text):
            IPv4Address(text)
        elif span := _SPAN.fullmatch(text):
            return f"{text!r} is not a valid address; write a range as {span[1]}[{span[2]}-{span[3]}]"
    except AddressValueError:
        port = text.partition(":")[2]
        if text.count(":") == 1:
            number = port if port.isdigit() else 22
            return f"{text!r} is not a valid address; write the port as a key of its own: 'port: {number}'"
        if re.search(r"(^|\.)0[0-9]", text) and ":" not in text:
            return f"{text!r} is not a valid address; remove the leading zeros, which make a number octal"
        return f"{text!r} is not a valid IPv{6 if ':' in text else 4} address"
    return None


def is_address(text: str) -> bool:
    """Return whether a text is an IP address; the zone of an IPv6 address must be like an interface's name."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return _ZONE.fullmatch(text.partition("%")[2]) is not None


def canonical_address(text: str) -> str:
    """Return the canonical form of an address, equal for all its spellings."""
    try:
        return str(ip_address(text))
    except ValueError:
        return text.lower()


def _refused_for(problem_of: Callable[[str], str | None]) -> AfterValidator:
    """Return a validator that rejects a text if ``problem_of`` returns a problem."""

    def check(text: str) -> str:
        problem = problem_of(text)
        if problem is not None:
            raise ValueError(problem)
        return text

    return AfterValidator(check)


Address = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_:][A-Za-z0-9._:%-]*$", max_length=253),
    _refused_for(address_problem),
]
User = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+\\-]*[$]?$", max_length=128)]


def _ports_of_jumps(text: str) -> str:
    for hop in text.split(","):
        port = re.search(r":([0-9]+)$", hop)
        if port is not None and not 1 <= int(port[1]) <= 65535:
            raise ValueError(f"{hop!r}: the port must be a number from 1 to 65535")
    return text


ProxyJump = Annotated[
    str,
    StringConstraints(
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.+\\-]*@)?([A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.%]+\])(:[0-9]{1,5})?"
        r"(,([A-Za-z0-9_][A-Za-z0-9_.+\\-]*@)?([A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.%]+\])(:[0-9]{1,5})?)*$"
    ),
    AfterValidator(_ports_of_jumps),
]
InterfaceSelector = Annotated[
    str,
    StringConstraints(pattern=r"^(\^=|\^|=)?[A-Za-z0-9_][A-Za-z0-9_.@-]*(,[A-Za-z0-9_][A-Za-z0-9_.@-]*)*$"),
]


HCA_ENTRIES_MAX = 32
"""Number of entries of NCCL_IB_HCA that NCCL reads (MAX_IB_DEVS in its src/transport/net_ib; 16 in old releases)."""


def too_many_hcas(selector: str) -> str | None:
    """Return the problem of a text for NCCL_IB_HCA with more entries than NCCL reads, else None."""
    entries = [entry for entry in selector.lstrip("^=").split(",") if entry.strip()]
    if len(entries) <= HCA_ENTRIES_MAX:
        return None
    return (
        f"lists {len(entries)} devices, of which NCCL reads the first {HCA_ENTRIES_MAX} and ignores the others; "
        f"shorten the list: a name without '=' selects all devices that begin with it (mlx5), and '^' excludes devices"
    )


RdmaSelector = Annotated[
    str,
    StringConstraints(
        pattern=r"^(\^=|\^|=)?[A-Za-z0-9_][A-Za-z0-9_.-]*(:[0-9]+)?(,[A-Za-z0-9_][A-Za-z0-9_.-]*(:[0-9]+)?)*$"
    ),
    _refused_for(too_many_hcas),
]
Word = Annotated[str, StringConstraints(pattern=r"^[^\s-]\S*$", max_length=4096)]
FilePath = Annotated[str, StringConstraints(pattern=r"^[^-]", max_length=4096)]
# At the start of a line bash reads %1 as one of its jobs, quoted or not.
Program = Annotated[str, StringConstraints(pattern=r"^[^-%\s]", max_length=4096)]
PackageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+:~_-]*$", max_length=200)]
# Neither an option nor an address, which could hold a password: ``name``, extras and versions.
PipRequirement = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?"
        r"((===?|~=|!=|<=?|>=?)[A-Za-z0-9.*+!_-]+(,(===?|~=|!=|<=?|>=?)[A-Za-z0-9.*+!_-]+)*)?$",
        max_length=200,
    ),
]
IndexUrl = Annotated[str, StringConstraints(pattern=r"^https?://[A-Za-z0-9._~:/\[\]%+-]+$", max_length=1000)]
GitSource = Annotated[
    str,
    # Without user and password, which would be in command lines; a reference never begins with a dash.
    StringConstraints(
        pattern=r"^(https://[A-Za-z0-9._~:/\[\]%+-]+|ssh://[A-Za-z0-9._~:/@\[\]%+-]+|/[A-Za-z0-9._/+-]+)"
        r"#[A-Za-z0-9][A-Za-z0-9._/+-]*$",
        max_length=1000,
    ),
]
"""``URL#REFERENCE``: a git repository, and a tag, branch or commit."""
NumberText = Annotated[str, WithJsonSchema({"type": ["string", "number"]})]
"""A text that is usually a number; unquoted numbers are kept as written."""
