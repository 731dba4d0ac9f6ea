"""GPU health: counters and states of ``nvidia-smi -q -x``, and errors of NVLinks of ``nvidia-smi nvlink -e``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from clusterctl.facts.base import Fragment, Reading, ReadStatus, Section, Unparsable, failed
from clusterctl.facts.model.health import GpuHealth, LinkErrors
from clusterctl.facts.subjects.gpu import pci_address
from clusterctl.facts.vendors.health import UNREADABLE
from clusterctl.text.foreign import whole

DEADLINE_S = 15
"""nvidia-smi takes about a second, or a second per GPU without persistence mode; a hung one must not hold a run."""
_NUMBERS = {
    "replay_counter": "pcie_replays",
    "replay_rollover_counter": "pcie_replay_rollovers",
    "remapped_row_corr": "rows_remapped_corrected",
    "remapped_row_unc": "rows_remapped_uncorrected",
}
_STATES = {
    "remapped_row_pending": "remap_pending",
    "remapped_row_failure": "remap_failure",
    "pending_retirement": "retirement_pending",
    "pending_blacklist": "retirement_pending",
    "gpu_recovery_action": "recovery_action",
    "sram_threshold_exceeded": "sram_threshold_exceeded",
    "channel_repair_pending": "channel_repair_pending",
    "tpc_repair_pending": "tpc_repair_pending",
    "unrepairable_memory": "unrepairable_memory",
    "current_link_width": "pcie_width",
}
_VALUES = ("gpu_temp", "memory_temp", "sm_clock", "uuid")
_GROUPS = ("volatile", "aggregate", "single_bit", "double_bit", "retired_pages")
_WANTED = "|".join(
    [
        *("gpu id=[^>]*", "/gpu", "/?nvidia_smi_log"),
        *(f"/?{name}" for name in _GROUPS),
        *("[sd]ram_[a-z_]*correctable[a-z_]*", "total", "retired_count"),
        *("clocks_(event|throttle)_reason_[a-z_]*", "clocks_event_reasons_counters_[a-z_]*"),
        *_NUMBERS,
        *_STATES,
        *_VALUES,
    ]
)

# `nvidia-smi` may hang in the kernel, where no signal ends it. It is therefore not a child that the shell waits for:
# only `cat` is, which has a deadline of its own. A shell of its own runs it: a mere subshell would keep the copies of
# open files that its parent set aside for redirections, and each reader of the whole probe would wait for it.
_LEFT_BEHIND = f"""\
if command -v timeout >/dev/null 2>&1
then t() {{ timeout -s KILL "$@"; }}
else t() {{ shift; "$@"; }}
fi
t {DEADLINE_S} sh -c 'exec nvidia-smi -q -x 2>&1' | grep -E '^[^<]*$|<({_WANTED})>'
echo @links
t {DEADLINE_S} sh -c 'exec nvidia-smi nvlink -e 2>&1' | grep -E '^GPU|[Ee]rrors?: |^[^ ]*$'
echo @end"""
_GPUS = f"""\
{{ sh -c {shlex.quote(_LEFT_BEHIND)} 2>/dev/null 3>&- & }} | t {DEADLINE_S + 2} cat
return 0"""

FRAGMENT = Fragment(
    "gpu_health",
    _GPUS,
    needs="command -v nvidia-smi >/dev/null 2>&1",
    missing="nvidia-smi is not installed",
    limit_bytes=512 * 1024,
)

_ABSENT = ("", "N/A", "[N/A]", "Not Supported", "[Not Supported]")
_ELEMENT = re.compile(
    r"\s{0,40}<(/?)([a-z0-9_]{1,80})(?: id=\"([^\"]{1,40})\")?>(?:([^<]{0,120})</[a-z0-9_]{1,80}>)?\s{0,9}"
)


def parse_gpus(text: str) -> tuple[GpuHealth, ...]:
    """Parse the lines of ``nvidia-smi -q -x`` that the probe keeps, then those of ``nvidia-smi nvlink -e``.

    Raise Unparsable if the document does not reach its end.
    """
    document, _, links = text.partition("@links\n")
    if "</nvidia_smi_log>" not in document:
        said = " ".join(document.split())
        if said and "<" not in said:
            raise Unparsable(f"nvidia-smi printed: {said[:200]}")
        raise Unparsable(f"nvidia-smi did not answer completely within {DEADLINE_S} s")
    errors = dict(_links(links))
    found: list[GpuHealth] = []
    for part in re.split(r"<gpu id=", document)[1:]:
        identifier, _, body = part.partition(">")
        found.append(_gpu(identifier.strip('"'), body.partition("</gpu>")[0], len(found), errors))
    return tuple(found)


def _gpu(identifier: str, body: str, index: int, errors: dict[str, tuple[LinkErrors, ...]]) -> GpuHealth:
    counts: dict[str, int] = {}
    states: dict[str, str] = {}
    values: dict[str, str] = {}
    slowed: list[str] = []
    inside: list[str] = []
    for line in body.splitlines():
        match = _ELEMENT.fullmatch(line)
        if match is None:
            continue
        closing, name, _, value = match.groups()
        if value is None:
            if closing:
                inside = inside[:-1]
            elif name in _GROUPS:
                inside.append(name)
        elif value.strip() not in _ABSENT:
            _element(name, value.strip(), inside, counts, states, values, slowed)
    uuid = values.get("uuid", "")
    if not uuid:
        raise Unparsable("nvidia-smi printed a GPU without its UUID")
    return GpuHealth(
        index=index,
        uuid=uuid,
        pci_address=pci_address(identifier),
        counts=tuple(sorted(counts.items())),
        states=tuple(sorted(states.items())),
        slowed_by=tuple(sorted(slowed)),
        temperature_c=_first_number(values.get("gpu_temp")),
        memory_temperature_c=_first_number(values.get("memory_temp")),
        sm_clock_mhz=_first_number(values.get("sm_clock")),
        links=errors.get(uuid, ()),
    )


def _first_number(text: str | None) -> int | None:
    match = re.match(r"-?\d{1,18}(?= |x|$)", text or "")
    return int(match[0]) if match else None


def _element(
    name: str,
    value: str,
    inside: list[str],
    counts: dict[str, int],
    states: dict[str, str],
    values: dict[str, str],
    slowed: list[str],
) -> None:
    """Add what one element of nvidia-smi's document says to the maps."""
    number = _first_number(value)
    if name in _STATES:
        states.setdefault(_STATES[name], value)
    elif name in _VALUES:
        values.setdefault(name, value)
    elif match := re.fullmatch(r"clocks_(?:event|throttle)_reason_(\w+)", name):
        if value == "Active" and match[1] != "gpu_idle":
            slowed.append(match[1])
    elif value in UNREADABLE and (kind := _ecc(name, inside)):
        states.setdefault(kind, value)
    elif number is None or number < 0:
        return
    elif name in _NUMBERS:
        counts[_NUMBERS[name]] = number
    elif match := re.fullmatch(r"clocks_event_reasons_counters_(\w+)", name):
        counts[f"slowed_us_{match[1]}"] = number
    elif name == "retired_count":
        counts["pages_retired"] = counts.get("pages_retired", 0) + number
    elif kind := _ecc(name, inside):
        counts[kind] = counts.get(kind, 0) + number


def _ecc(name: str, inside: list[str]) -> str | None:
    """Return the counter of an ECC element, None for another element; Volta has ``single_bit`` and ``double_bit``."""
    if not inside or inside[0] not in ("volatile", "aggregate"):
        return None
    since = "" if inside[0] == "volatile" else "_ever"
    if name == "total" and inside[-1] in ("single_bit", "double_bit"):
        return f"ecc_{'corrected' if inside[-1] == 'single_bit' else 'uncorrected'}{since}"
    if match := re.fullmatch(r"[sd]ram_(un)?correctable\w*", name):
        return f"ecc_{'un' if match[1] else ''}corrected{since}"
    return None


def _links(text: str) -> Iterable[tuple[str, tuple[LinkErrors, ...]]]:
    """Yield the UUID and the error counters of each GPU in the output of ``nvidia-smi nvlink -e``.

    Corrections of the FEC are left out: they are what the code is for.
    """
    for part in re.split(r"^GPU (?=\d)", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        uuid = re.search(r"\(UUID: ([^)\s]{1,80})\)", head)
        found = [
            LinkErrors(int(match[1]), match[2].strip().lower().replace(" ", "_"), whole(match[3]))
            for line in body.splitlines()
            if (
                match := re.fullmatch(
                    r"\s{0,20}Link (\d{1,3}): ([A-Za-z ]{1,60}[Ee]rrors): (\d{1,20})\s{0,9}", line
                )
            )
            and "FEC" not in match[2]
        ]
        if uuid:
            yield uuid[1], tuple(found)


def read(section: Section) -> tuple[Reading[tuple[GpuHealth, ...]], Reading[int]]:
    """Return the GPUs, and the number of NVLinks whose counters were read."""
    if section.status is ReadStatus.EMPTY:
        silent = f"nvidia-smi did not answer within {DEADLINE_S} s"
        return failed(silent), failed(silent)
    gpus = section.read(parse_gpus)
    if "\n@end" not in section.text and gpus.value is not None:
        return gpus, failed(f"nvidia-smi nvlink -e did not answer within {DEADLINE_S} s")
    return gpus, gpus.map(lambda found: sum(len({error.link for error in gpu.links}) for gpu in found))
