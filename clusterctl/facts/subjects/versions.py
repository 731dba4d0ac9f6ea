"""Versions from file names and firmware tables: BIOS and machine, NCCL, CUDA."""

from __future__ import annotations

import re

from clusterctl.facts.base import Fragment, Sections
from clusterctl.facts.model.sharing import FirmwareWord, Versions

_DMI = ("sys_vendor", "product_name", "board_name", "bios_vendor", "bios_version", "bios_date")
_LIBRARY_FOLDERS = (
    *("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64"),
    *("/usr/local/cuda*/lib64", "/opt/nccl/lib", "/opt/nccl/build/lib", "/usr/local/nccl/lib"),
)
_PYTHON_FOLDERS = (
    *("/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*/site-packages"),
    *("/usr/lib/python3*/site-packages", "/usr/lib64/python3*/site-packages"),
    *("/opt/conda/lib/python3*/site-packages", "/opt/*/lib/python3*/site-packages"),
)

# Only globs and `read`, so that the section starts no process.
FRAGMENTS = (
    Fragment(
        "versions",
        f"""\
for n in {" ".join(_DMI)}; do
  v=; {{ read -r v </sys/class/dmi/id/$n; }} 2>/dev/null
  [ -z "$v" ] || printf 'dmi %s %s\\n' "$n" "$v"
done
for f in {" ".join(f"{folder}/libnccl.so.*.*" for folder in _LIBRARY_FOLDERS)} \\
  {" ".join(f"{folder}/nvidia_nccl_cu*.dist-info" for folder in _PYTHON_FOLDERS)} /usr/local/cuda-[0-9]*; do
  [ -e "$f" ] && printf 'file %s\\n' "$f"
done
return 0""",
    ),
)


def parse(sections: Sections) -> Versions:
    """Return the versions of the section ``versions``; all fields are empty if it is."""
    firmware, nccl, cuda = [], [], []
    for line in sections["versions"].text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "dmi":
            name, _, value = rest.partition(" ")
            firmware.append(FirmwareWord(name, " ".join(value.split())))
        elif found := re.search(r"/libnccl\.so\.([0-9]+(?:\.[0-9]+)+)$", rest):
            nccl.append(found[1])
        elif found := re.search(r"/nvidia_nccl_cu[0-9]+-([0-9][0-9.]*)\.dist-info$", rest):
            nccl.append(f"{found[1]} (Python)")
        elif found := re.fullmatch(r"/usr/local/cuda-([0-9.]+)", rest):
            cuda.append(found[1])
    return Versions(tuple(firmware), tuple(dict.fromkeys(nccl)), tuple(dict.fromkeys(cuda)))
