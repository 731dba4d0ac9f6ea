"""The systemd units that requirements care about."""

from __future__ import annotations

from clusterctl.facts.base import Fragment, Sections, Unparsable
from clusterctl.facts.model_services import Services, Unit

UNITS = (
    *("docker.service", "docker.socket", "containerd.service", "ssh.service", "sshd.service", "ssh.socket"),
    *("nvidia-fabricmanager.service", "nvidia-persistenced.service", "nvidia-cdi-refresh.service"),
    *(
        "chrony.service",
        "chronyd.service",
        "systemd-timesyncd.service",
        "openibd.service",
        "irqbalance.service",
    ),
    *(
        "tuned.service",
        "systemd-modules-load.service",
        "clusterctl-acs.service",
        "clusterctl-cpu-governor.service",
    ),
)
_PROPERTIES = ("Id", "LoadState", "ActiveState", "UnitFileState", "LimitMEMLOCK")

FRAGMENTS = (
    Fragment(
        "services",
        f"t 20 systemctl show --no-pager -p {','.join(_PROPERTIES)} -- {' '.join(UNITS)}",
        needs="[ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1",
        missing="systemd does not run this node",
    ),
)


def parse_units(text: str) -> tuple[Unit, ...]:
    """Parse ``systemctl show``: properties, one unit a paragraph."""
    units: dict[str, Unit] = {}
    for paragraph in text.strip().split("\n\n"):
        values = dict(line.partition("=")[::2] for line in paragraph.splitlines() if "=" in line)
        if "Id" not in values or "LoadState" not in values:
            raise Unparsable(f"not a unit's properties: {paragraph[:160]!r}")
        unit = Unit(
            name=values["Id"],
            load=values["LoadState"],
            active=values.get("ActiveState", ""),
            enabled=values.get("UnitFileState", ""),
            memlock=values.get("LimitMEMLOCK", ""),
        )
        units[unit.name] = unit
    return tuple(unit for _, unit in sorted(units.items()))


def parse(sections: Sections) -> Services:
    """Parse the section."""
    return Services(sections["services"].read(parse_units))
