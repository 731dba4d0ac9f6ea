"""The CDI specification of NVIDIA's GPUs: whether there is one that fits the loaded driver, and what makes one.

A specification names the driver's libraries by version; after a driver upgrade containers that use the old one do not
start. Those below /var/run win over those below /etc (CDI specification), and do not outlive a boot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl.requirements.base import Command, EnableUnit, Step

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts

STATIC = "/etc/cdi/nvidia.yaml"
REFRESH = "nvidia-cdi-refresh.service"
REFRESH_PATH = "nvidia-cdi-refresh.path"
FIRST_TOOLKIT = (1, 12)

# What stood there is kept beside it under a name that CDI does not read, one for each version that is made; a second
# run of either script finds what the first one left.
_NAMES = "folder=${1%/*}; kept=$folder/.${1##*/}.before-$2; made=$folder/.${1##*/}.made-$2\n"
GENERATE = (
    _NAMES
    + """\
mkdir -p "$folder" || exit 1
if [ -e "$1" ]; then
  [ -e "$kept" ] || [ -e "$made" ] || cp -a "$1" "$kept" || exit 1
else
  : >"$made" || exit 1
fi
nvidia-ctk cdi generate --output="$1"
"""
)
RESTORE = (
    _NAMES
    + """\
if [ -e "$kept" ]; then mv -f "$kept" "$1" || exit 1
elif [ -e "$made" ]; then rm -f "$1" && rm -f "$made" || exit 1
fi
rmdir "$folder" 2>/dev/null || :
"""
)
FITS = 'grep -qsF "libcuda.so.$2" "$1"\n\n'


@dataclass(frozen=True, slots=True)
class Gap:
    """What is wrong with the specification, and the steps that mend it."""

    reason: str
    steps: tuple[Step, ...] = ()
    is_stale: bool = False
    """There is one, for another driver: who reads it fails."""


def _is_volatile(path: str) -> bool:
    return path.startswith(("/var/run/", "/run/"))


def _in_effect(facts: NodeFacts) -> tuple[str, ...]:
    """Return the specifications that win: below /var/run where there are any, else below /etc."""
    named = dict(facts.docker.cdi_drivers)
    if "nvidia.com/gpu" not in facts.docker.cdi_kinds:
        return ()
    # Other vendors' files name no driver library; where none does, all may be NVIDIA's.
    paths = tuple(path for path in facts.docker.cdi_specs if path in named or not named)
    return tuple(path for path in paths if _is_volatile(path)) or paths


def _stale(facts: NodeFacts, paths: tuple[str, ...]) -> dict[str, str]:
    driver = facts.gpu.driver.value
    if driver is None:
        return {}
    fits = {path for path, version in facts.docker.cdi_drivers if version == driver.version}
    return {path: version for path, version in facts.docker.cdi_drivers if path in paths and path not in fits}


def _generate(facts: NodeFacts, path: str) -> tuple[Step, ...]:
    driver = facts.gpu.driver.value
    if driver is None:
        return ()
    named = (path, driver.version)
    return (
        Command(
            f"Make the CDI specification {path} for driver {driver.version}",
            ("sh", "-c", GENERATE, "make-cdi", *named),
            undo=("sh", "-c", RESTORE, "restore-cdi", *named),
            guard=("sh", "-c", FITS, "fits-cdi", *named),
            timeout_s=180.0,
        ),
    )


def _refresh(facts: NodeFacts) -> tuple[Step, ...]:
    """Return the steps that have the toolkit's own service keep it, at every boot and driver change."""
    driver = facts.gpu.driver.value
    steps: list[Step] = [EnableUnit(f"Enable {REFRESH} at boot", REFRESH, start=False)]
    if facts.services.unit(REFRESH_PATH) is not None:
        steps.append(EnableUnit(f"Enable and start {REFRESH_PATH}", REFRESH_PATH))
    if driver is not None:
        named = ("/var/run/cdi/nvidia.yaml", driver.version)
        steps.append(
            Command(
                f"Let {REFRESH} make the CDI specification",
                ("systemctl", "restart", REFRESH),
                undo=None,
                guard=("sh", "-c", FITS, "fits-cdi", *named),
                timeout_s=180.0,
            )
        )
    return tuple(steps)


def _too_old(facts: NodeFacts) -> bool:
    match = re.match(r"(\d{1,9})\.(\d{1,9})", facts.docker.toolkit.value or "")
    return match is not None and (int(match[1]), int(match[2])) < FIRST_TOOLKIT


def gap(facts: NodeFacts) -> Gap | None:
    """Return what is wrong: no specification, one for another driver, or one that the next boot loses."""
    unit = facts.services.unit(REFRESH)
    paths = _in_effect(facts)
    if not paths:
        reason = "there is no CDI specification of the GPUs"
        if _too_old(facts):
            return Gap(f"{reason}, and toolkit {facts.docker.toolkit.value} is too old to make one (1.12)")
        if facts.gpu.driver.value is None:
            return Gap(f"{reason}, and no loaded driver to make it for")
        return Gap(reason, _refresh(facts) if unit is not None else _generate(facts, STATIC))
    stale = _stale(facts, paths)
    if stale:
        (path, version), *_ = stale.items()
        assert facts.gpu.driver.value is not None
        reason = f"{path} is for driver {version}, but {facts.gpu.driver.value.version} is loaded"
        mend = _refresh(facts) if unit is not None and _is_volatile(path) else _generate(facts, path)
        return Gap(reason, mend, is_stale=True)
    if all(_is_volatile(path) for path in paths) and (unit is None or unit.enabled == "disabled"):
        static = [path for path in facts.docker.cdi_specs if not _is_volatile(path)]
        if not static:
            reason = f"{paths[0]} fits, but nothing makes it again at the next boot"
            return Gap(reason, _refresh(facts) if unit is not None else _generate(facts, STATIC))
    return None


def leftover(facts: NodeFacts) -> str | None:
    """Name a stale specification that another one hides for now."""
    hidden = tuple(path for path in facts.docker.cdi_specs if path not in _in_effect(facts))
    stale = _stale(facts, hidden)
    if not stale:
        return None
    (path, version), *_ = stale.items()
    return f"{path} is left over from driver {version}; it counts again when the one below /var/run is gone"
