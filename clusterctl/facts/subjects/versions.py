"""Versions from file names and firmware tables: BIOS and machine, CUDA, cuDNN, NCCL, OFED, an image's library."""

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

_SHARED_LIBRARIES = ("libnccl.so.*.*", "libcudnn.so.*.*", "libibverbs.so.1.*")
MANIFEST = "/opt/clusterctl/library/manifest.json"
"""What ``image build`` writes beside the library in an image."""
_LONGEST = 100
_NUMBERS = r"([0-9]+(?:\.[0-9]+)+)"
_FILES = (
    ("compat", re.compile(rf"^/usr/local/cuda[^/]*/compat/libcuda\.so\.{_NUMBERS}$")),
    ("nccl", re.compile(rf"/libnccl\.so\.{_NUMBERS}$")),
    ("nccl", re.compile(r"/nvidia_nccl_cu[0-9]+-([0-9][0-9.]*)\.dist-info$")),
    ("cudnn", re.compile(rf"/libcudnn\.so\.{_NUMBERS}$")),
    ("libibverbs", re.compile(rf"/libibverbs\.so\.{_NUMBERS}$")),
    ("cuda", re.compile(r"^/usr/local/cuda-([0-9.]+)$")),
)

# Only globs and `read`, so that the section starts no process on most nodes.
FRAGMENTS = (
    Fragment(
        "versions",
        f"""\
for n in {" ".join(_DMI)}; do
  v=; {{ read -r v </sys/class/dmi/id/$n; }} 2>/dev/null
  [ -z "$v" ] || printf 'dmi %s %s\\n' "$n" "$v"
done
for f in {" ".join(f"{folder}/{name}" for name in _SHARED_LIBRARIES for folder in _LIBRARY_FOLDERS)} \\
  {" ".join(f"{folder}/nvidia_nccl_cu*.dist-info" for folder in _PYTHON_FOLDERS)} /usr/local/cuda-[0-9]* \\
  /usr/local/cuda*/compat/libcuda.so.*.*; do
  [ -e "$f" ] && printf 'file %s\\n' "$f"
done
if [ -r /usr/bin/ofed_info ]; then
  grep -oE '(MLNX_OFED_LINUX|OFED-internal|DOCA[A-Za-z_-]*)-[0-9][0-9.-]*' /usr/bin/ofed_info | sed 's/^/ofed /;q'
fi
if [ -r {MANIFEST} ]; then
  sed -nE 's/^ "(library|version)": "(.*)",?$/\\1 \\2/p' {MANIFEST}
fi
return 0""",
    ),
)


def parse(sections: Sections) -> Versions:
    """Return the versions of the section ``versions``; all fields are empty if it is."""
    firmware: list[FirmwareWord] = []
    found: dict[str, dict[str, None]] = {name: {} for name, _ in _FILES}
    words: dict[str, str] = {}
    for line in sections["versions"].text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "dmi":
            name, _, value = rest.partition(" ")
            firmware.append(FirmwareWord(name, " ".join(value.split())))
        elif kind in ("ofed", "library", "version"):
            words.setdefault(kind, " ".join(rest.split())[:_LONGEST])
        for name, pattern in _FILES if kind == "file" else ():
            if match := pattern.search(rest):
                found[name].setdefault(f"{match[1]} (Python)" if rest.endswith(".dist-info") else match[1])
                break
    files = {name: tuple(versions) for name, versions in found.items()}
    library = " ".join(filter(None, (words.get("library"), words.get("version"))))
    return Versions(
        tuple(firmware),
        nccl_files=files["nccl"],
        cuda=files["cuda"],
        cuda_compat=files["compat"],
        cudnn=files["cudnn"],
        libibverbs=files["libibverbs"],
        ofed=words.get("ofed"),
        library=library or None,
    )
