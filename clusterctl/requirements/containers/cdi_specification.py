"""Check the CDI specification of NVIDIA's GPUs against the loaded driver, and plan how to generate it.

A specification names the driver's libraries by version. After a driver upgrade, containers that use the old
specification do not start. Files below /var/run take precedence over those below /etc (CDI specification), and
disappear at a reboot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl.requirements.steps import Command, EnableUnit, Step

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts

STATIC = "/etc/cdi/nvidia.yaml"
REFRESH = "nvidia-cdi-refresh.service"
REFRESH_PATH = "nvidia-cdi-refresh.path"
FIRST_TOOLKIT = (1, 12)

# The old file is kept in the same directory under a name that CDI does not read, one per driver version, so that
# both scripts can be repeated after an interruption.
_NAMES = "directory=${1%/*}; kept=$directory/.${1##*/}.before-$2; made=$directory/.${1##*/}.made-$2\n"
GENERATE = (
    _NAMES
    + """\
mkdir -p "$directory" || exit 1
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
rmdir "$directory" 2>/dev/null || :
"""
)
FITS = 'grep -qsF "libcuda.so.$2" "$1"\n\n'


@dataclass(frozen=True, slots=True)
class Gap:
    """What containers lack to use the GPUs, and the steps that provide it; no steps if bootstrap cannot."""

    reason: str
    steps: tuple[Step, ...] = ()
    is_stale: bool = False
    """A specification is for another driver: containers that use it fail to start."""


def _is_volatile(path: str) -> bool:
    return path.startswith(("/var/run/", "/run/"))


def _in_effect(facts: NodeFacts) -> tuple[str, ...]:
    """Return the paths of the specifications in effect: those below /var/run if any, else those below /etc."""
    named = dict(facts.docker.cdi_drivers)
    if "nvidia.com/gpu" not in facts.docker.cdi_kinds:
        return ()
    # Files of other vendors name no NVIDIA driver library. If no file names one, all may be NVIDIA's.
    paths = tuple(path for path in facts.docker.cdi_specs if path in named or not named)
    return tuple(path for path in paths if _is_volatile(path)) or paths


def _stale(facts: NodeFacts, paths: tuple[str, ...]) -> dict[str, str]:
    driver = facts.gpu.driver.value
    if driver is None:
        return {}
    fits = {path for path, version in facts.docker.cdi_drivers if version == driver.version}
    return {path: version for path, version in facts.docker.cdi_drivers if path in paths and path not in fits}


def _moved(facts: NodeFacts, paths: tuple[str, ...]) -> str | None:
    """Return the device of a specification that has another major than the kernel gave its module at the last load.

    A container with the old one may not open the device ("operation not permitted"), or opens another.
    """
    majors = dict(facts.docker.kernel_majors)
    for path, device, major in facts.docker.cdi_majors:
        names = [name for name in majors if device.startswith(f"/dev/{name}")]
        if path in paths and names and major not in [majors[name] for name in names]:
            return (
                f"{path} has major {major} for {device}, but the kernel has {majors[names[0]]}: run "
                f"nvidia-ctk cdi generate --output={path}"
            )
    return None


def _generate(facts: NodeFacts, path: str) -> tuple[Step, ...]:
    driver = facts.gpu.driver.value
    if driver is None:
        return ()
    named = (path, driver.version)
    return (
        Command(
            f"Generate the CDI specification {path} for driver {driver.version}",
            ("sh", "-c", GENERATE, "make-cdi", *named),
            undo=("sh", "-c", RESTORE, "restore-cdi", *named),
            guard=("sh", "-c", FITS, "fits-cdi", *named),
            timeout_s=180.0,
        ),
    )


def _refresh(facts: NodeFacts) -> tuple[Step, ...]:
    """Return the steps that let the toolkit's service generate the specification at boot and driver changes."""
    driver = facts.gpu.driver.value
    steps: list[Step] = [EnableUnit(f"Enable {REFRESH} at boot", REFRESH, start=False)]
    if facts.services.unit(REFRESH_PATH) is not None:
        steps.append(EnableUnit(f"Enable and start {REFRESH_PATH}", REFRESH_PATH))
    if driver is not None:
        named = ("/var/run/cdi/nvidia.yaml", driver.version)
        steps.append(
            Command(
                f"Generate the CDI specification with {REFRESH}",
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
    """Return what is wrong: no specification, one for another driver or other devices, one lost at a reboot."""
    unit = facts.services.unit(REFRESH)
    paths = _in_effect(facts)
    if not paths:
        reason = "the GPUs have no CDI specification"
        if _too_old(facts):
            return Gap(
                f"{reason}, and toolkit {facts.docker.toolkit.value} is too old to generate one (needs 1.12 or newer)"
            )
        if facts.gpu.driver.value is None:
            return Gap(f"{reason}, and no NVIDIA driver is loaded to generate it for")
        return Gap(reason, _refresh(facts) if unit is not None else _generate(facts, STATIC))
    stale = _stale(facts, paths)
    if stale:
        (path, version), *_ = stale.items()
        assert facts.gpu.driver.value is not None
        reason = f"{path} is for driver {version}, but {facts.gpu.driver.value.version} is loaded"
        mend = _refresh(facts) if unit is not None and _is_volatile(path) else _generate(facts, path)
        return Gap(reason, mend, is_stale=True)
    if moved := _moved(facts, paths):
        return Gap(moved, is_stale=True)
    if all(_is_volatile(path) for path in paths) and (unit is None or unit.enabled == "disabled"):
        static = [path for path in facts.docker.cdi_specs if not _is_volatile(path)]
        if not static:
            reason = (
                f"{paths[0]} matches the driver, but a reboot removes it and no service generates it again"
            )
            return Gap(reason, _refresh(facts) if unit is not None else _generate(facts, STATIC))
    return None


def leftover(facts: NodeFacts) -> str | None:
    """Return a warning about a stale specification below /etc that one below /var/run overrides for now."""
    hidden = tuple(path for path in facts.docker.cdi_specs if path not in _in_effect(facts))
    stale = _stale(facts, hidden)
    if not stale:
        return None
    (path, version), *_ = stale.items()
    return f"{path} is left over from driver {version}; it takes effect again when the one below /var/run is removed"
