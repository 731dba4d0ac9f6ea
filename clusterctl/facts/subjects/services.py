"""The systemd units that requirements use."""

from __future__ import annotations

from clusterctl.facts.base import Fragment, Reading, ReadStatus, Sections, Unparsable
from clusterctl.facts.model.services import Services, Unit

UNITS = (
    *("docker.service", "docker.socket", "containerd.service", "kubelet.service"),
    *("ssh.service", "sshd.service", "ssh.socket"),
    *("nvidia-fabricmanager.service", "nvidia-persistenced.service", "nvidia-cdi-refresh.service"),
    *("nvidia-cdi-refresh.path", "nvidia-imex.service", "clusterctl-gpu-persistence.service"),
    *(
        "chrony.service",
        "chronyd.service",
        "systemd-timesyncd.service",
        "ntp.service",
        "ntpd.service",
        "ntpsec.service",
        "openntpd.service",
        "timemaster.service",
        "phc2sys.service",
        "ptp4l.service",
        "openibd.service",
        "irqbalance.service",
    ),
    *(
        "tuned.service",
        "power-profiles-daemon.service",
        "systemd-modules-load.service",
        "clusterctl-acs.service",
        "nvidia-acs-disable.service",
        "clusterctl-cpu-governor.service",
        "rdma-service.service",
    ),
)
_PROPERTIES = ("Id", "LoadState", "ActiveState", "UnitFileState", "LimitMEMLOCK")

_FOLDERS = "/etc/systemd/system /run/systemd/system /usr/lib/systemd/system /lib/systemd/system"

# Only units with a file are queried: for any other unit systemd searches all its directories.
FRAGMENTS = (
    Fragment(
        "services",
        f"""\
set --
for u in {" ".join(UNITS)}; do
  for f in {_FOLDERS}; do
    if [ -e "$f/$u" ] || [ -L "$f/$u" ]; then set -- "$@" "$u"; break; fi
  done
done
[ $# -eq 0 ] || t 20 systemctl show --no-pager -p {",".join(_PROPERTIES)} -- "$@\"""",
        needs="[ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1",
        missing="systemd does not run this node",
    ),
)


def parse_units(text: str) -> tuple[Unit, ...]:
    """Parse ``systemctl show``: one paragraph of properties for each unit."""
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
    """Return the facts of the section ``services``; the tuple is empty without any of the units."""
    section = sections["services"]
    if section.status is ReadStatus.EMPTY:
        return Services(Reading((), ReadStatus.OK, "the node has none of these units"))
    return Services(section.read(parse_units))
