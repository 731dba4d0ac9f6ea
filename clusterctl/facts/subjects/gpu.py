"""GPUs: nvidia-smi's table, its connection matrix and NVLink states, and the kernel driver's flavour."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable

from clusterctl.facts.base import Fragment, Reading, ReadStatus, Section, Sections, Unparsable, absent
from clusterctl.facts.model.devices import Gpu, GpuDriver, GpuFacts, GpuTopology, Link, NvLinks
from clusterctl.text.foreign import decimal, whole

QUERY = (
    "index,name,uuid,pci.bus_id,driver_version,memory.total,persistence_mode,ecc.mode.current,"
    "ecc.errors.uncorrected.volatile.total,pcie.link.gen.max,pcie.link.gen.current,pcie.link.width.max,"
    "pcie.link.width.current,mig.mode.current,compute_mode,pstate"
)
FABRIC = "fabric.state,fabric.status"
"""Fields that older drivers lack. nvidia-smi ends with status 2 and prints no table if a single field is unknown,
so the query is repeated without these fields."""
_NEEDS = "command -v nvidia-smi >/dev/null 2>&1"
_MISSING = "nvidia-smi is not installed"
# Without persistence mode each call initialises every GPU, which takes a second or more per GPU. The limit leaves
# time for the node's other facts even if three calls hang.
DEADLINE_S = 25

FRAGMENTS = (
    Fragment(
        "gpu_query",
        f"""\
t {DEADLINE_S} nvidia-smi --query-gpu={QUERY},{FABRIC} --format=csv
e=$?; [ $e = 2 ] || return $e
t {DEADLINE_S} nvidia-smi --query-gpu={QUERY} --format=csv""",
        needs=_NEEDS,
        missing=_MISSING,
        limit_bytes=256 * 1024,
    ),
    Fragment(
        "gpu_topology",
        f"t {DEADLINE_S} nvidia-smi topo -m",
        needs=_NEEDS,
        missing=_MISSING,
        limit_bytes=256 * 1024,
    ),
    Fragment(
        "gpu_nvlink",
        f"t {DEADLINE_S} nvidia-smi nvlink -s",
        needs=_NEEDS,
        missing=_MISSING,
        limit_bytes=256 * 1024,
    ),
    Fragment(
        "gpu_driver",
        'while IFS= read -r line; do printf "%s\\n" "$line"; done </proc/driver/nvidia/version',
        needs="[ -r /proc/driver/nvidia/version ]",
        missing="the NVIDIA kernel driver is not loaded",
    ),
    Fragment(
        "gpu_fabric",
        f"""\
for f in /dev/nvidia-nvswitch[0-9]* /dev/nvidia-caps-imex-channels/channel*; do
  [ -e "$f" ] && echo "device $f"
done
command -v nv-fabricmanager >/dev/null 2>&1 || return 0
t {DEADLINE_S} nv-fabricmanager --version""",
        needs="[ -r /proc/driver/nvidia/version ] || command -v nv-fabricmanager >/dev/null 2>&1",
        missing="neither a loaded NVIDIA driver nor a fabric manager was found",
    ),
)

GTPS_OF_GENERATION = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""PCI Express transfer rate by generation."""

_FAULTS = ("[GPU requires reset]", "[GPU is lost]")
"""Values that nvidia-smi prints for a faulty GPU; the performance state (pstate) is one of the first to be lost."""
_INFOROM_STATUS = 14
"""Exit status of nvidia-smi for a GPU with a corrupted infoROM. It is a warning: the output is complete."""

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def pci_address(bus_id: str) -> str:
    """Convert NVIDIA's bus id (``00000000:1B:00.0``) to the form of sysfs (``0000:1b:00.0``)."""
    match = re.fullmatch(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])", bus_id)
    if match is None:
        raise Unparsable(f"not a PCI bus id: {bus_id[:40]!r}")
    return f"{int(match[1], 16):04x}:{match[2].lower()}"


def _number(text: str | None) -> int | None:
    match = re.match(r"\d{1,18}(?= |$)", text or "")
    return int(match[0]) if match else None


def _word(text: str | None) -> str | None:
    # "[N/A]", "[Not Supported]" and, in some columns, a bare "N/A" mean that the GPU does not support the feature.
    return None if not text or text.startswith("[") or text == "N/A" else text


def _enabled(text: str | None) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(text or "")


def parse_query(text: str) -> tuple[Gpu, ...]:
    """Parse ``--query-gpu --format=csv`` by its header; unsupported values read None."""
    try:
        rows = list(csv.reader(text.strip().splitlines(), skipinitialspace=True))
    except csv.Error as error:  # a field above csv's size limit; csv.Error is not a ValueError
        raise Unparsable(f"not nvidia-smi's table: {error}") from None
    header = [re.sub(r" \[[^][]*\]$", "", name) for name in rows[0]]
    if not {"index", "uuid", "name", "pci.bus_id", "driver_version"} <= set(header):
        raise Unparsable(f"not nvidia-smi's table: {text[:160]!r}")
    gpus = []
    for row in rows[1:]:
        if len(row) != len(header):
            raise Unparsable(f"{len(row)} fields under {len(header)} columns: {','.join(row)[:160]!r}")
        field = dict(zip(header, (cell.strip() for cell in row), strict=True))
        memory = _number(field.get("memory.total"))
        generation, top = (_number(field.get(f"pcie.link.gen.{end}")) for end in ("current", "max"))
        gpus.append(
            Gpu(
                index=whole(field["index"]),
                uuid=field["uuid"],
                name=field["name"],
                pci_address=pci_address(field["pci.bus_id"]),
                driver_version=field["driver_version"],
                memory_bytes=None if memory is None else memory * 1024 * 1024,
                persistence=_enabled(field.get("persistence_mode")),
                ecc=_enabled(field.get("ecc.mode.current")),
                uncorrected_ecc_errors=_number(field.get("ecc.errors.uncorrected.volatile.total")),
                link=Link(
                    speed_gtps=GTPS_OF_GENERATION.get(generation or 0),
                    width=_number(field.get("pcie.link.width.current")),
                    max_speed_gtps=GTPS_OF_GENERATION.get(top or 0),
                    max_width=_number(field.get("pcie.link.width.max")),
                ),
                mig=_enabled(field.get("mig.mode.current")),
                compute_mode=_word(field.get("compute_mode")),
                fabric_state=_word(field.get("fabric.state")),
                fabric_status=_word(field.get("fabric.status")),
                fault=next((cell.strip("[]") for cell in field.values() if cell in _FAULTS), None),
            )
        )
    return tuple(gpus)


def parse_topology(text: str) -> GpuTopology:
    """Parse ``topo -m``: a matrix separated by tabs, with terminal escapes in its header, then legends."""
    lines = _ANSI.sub("", text).splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("\t") and "GPU0" in line), None)
    if start is None:
        raise Unparsable(f"no matrix in the output of topo -m: {text[:160]!r}")
    header = [cell.strip() for cell in lines[start].split("\t")][1:]
    width = next(
        (i for i, name in enumerate(header) if not re.fullmatch(r"[A-Za-z]\w*\d", name)), len(header)
    )
    rows = []
    for line in lines[start + 1 :]:
        name, *cells = (cell.strip() for cell in line.split("\t"))
        if not name or len(cells) < width:
            break
        rows.append((name, tuple(cells[:width])))
    if not rows:
        raise Unparsable("the matrix of topo -m has no rows")
    nics = [(m[1], m[2]) for line in lines if (m := re.fullmatch(r"\s+(NIC\d+): (\S+)\s*", line))]
    return GpuTopology(tuple(header[:width]), tuple(rows), tuple(nics))


def parse_nvlinks(text: str) -> tuple[NvLinks, ...]:
    """Parse ``nvlink -s``: one line for each GPU, followed by one line for each of its links (GB/s)."""
    links: dict[int, list[float | None]] = {}
    current: list[float | None] | None = None
    for line in text.splitlines():
        if match := re.match(r"GPU (\d{1,6}):", line):
            current = links.setdefault(int(match[1]), [])
        elif match := re.match(r"\s+Link \d+: (?:([\d.]+) GB/s|.*inactive.*)", line):
            if current is None:
                raise Unparsable(f"a link before any GPU: {line[:80]!r}")
            current.append(decimal(match[1]) if match[1] else None)
    if not links:
        raise Unparsable(f"no GPU in the output of nvlink -s: {text[:160]!r}")
    return tuple(NvLinks(gpu, tuple(speeds)) for gpu, speeds in sorted(links.items()))


def parse_driver(text: str) -> GpuDriver:
    """Parse /proc/driver/nvidia/version; the open modules call themselves "Open Kernel Module"."""
    match = re.search(
        r"^NVRM version:.{0,200}?Kernel Module.{0,200}?\s(\d{3,9}(?:\.\d{1,9}){1,4})\s", text, re.MULTILINE
    )
    if match is None:
        raise Unparsable(f"no driver version: {text[:160]!r}")
    return GpuDriver(match[1], "open" if "Open Kernel Module" in match[0] else "proprietary")


def parse_fabric_manager(text: str) -> str:
    """Parse ``nv-fabricmanager --version`` ("Fabric Manager version is : 580.95.05")."""
    match = re.search(
        r"[Ff]abric ?[Mm]anager version is\s{0,20}(?::\s{0,20})?(\d{3,9}(?:\.\d{1,9}){1,4})", text
    )
    if match is None:
        raise Unparsable(f"no version of the fabric manager: {text[:160]!r}")
    return match[1]


def _fabric_manager(section: Section) -> Reading[str]:
    devices = all(line.startswith("device ") for line in section.text.splitlines() if line.strip())
    if section.status is ReadStatus.EMPTY or (section.status is ReadStatus.OK and devices):
        return absent("nv-fabricmanager is not installed")
    return section.read(parse_fabric_manager)


def _line(number: int, what: str) -> Callable[[str], str]:
    def pick(text: str) -> str:
        lines = text.strip().splitlines()
        if len(lines) <= number:
            raise Unparsable(f"modinfo printed no {what}")
        return lines[number].strip()

    return pick


def _answered(section: Section) -> tuple[Section, str]:
    """Return a section without nvidia-smi's warnings, which may be anywhere in its output, and the warnings."""
    lines = section.text.splitlines(keepends=True)
    said = [line.strip() for line in lines if line.startswith("WARNING: ")]
    text = "".join(line for line in lines if not line.startswith("WARNING: ")) if said else section.text
    told = section.exit_status == _INFOROM_STATUS and bool(text.strip())
    status = 0 if told or any(fault in text for fault in _FAULTS) else section.exit_status
    return Section(section.name, text, status, section.error, section.cut), "; ".join(said)


def _devices(section: Section) -> Reading[tuple[Gpu, ...]]:
    """Parse the table, with nvidia-smi's warnings as the reading's detail."""
    answered, said = _answered(section)
    # The table begins at "index,"; the text before it is ignored.
    start = max(0, answered.text.find("index, "))
    found = Section(answered.name, answered.text[start:], answered.exit_status, answered.error, answered.cut)
    reading = found.read(parse_query)
    return reading if reading.value is None or not said else Reading(reading.value, reading.status, said)


def parse(sections: Sections) -> GpuFacts:
    """Return the facts of all sections about GPUs."""
    return GpuFacts(
        devices=_devices(sections["gpu_query"]),
        topology=_answered(sections["gpu_topology"])[0].read(parse_topology),
        nvlinks=_answered(sections["gpu_nvlink"])[0].read(parse_nvlinks),
        driver=sections["gpu_driver"].read(parse_driver),
        module_license=sections["module_license"].read(_line(0, "license")),
        module_version=sections["module_license"].read(_line(1, "version")),
        fabric_manager=_fabric_manager(sections["gpu_fabric"]),
        fabric_devices=tuple(re.findall(r"^device (/dev/\S+)$", sections["gpu_fabric"].text, re.MULTILINE)),
    )
