"""Kernel modules, and the evidence for the three GPUDirect RDMA mechanisms."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from clusterctl.facts.base import (
    Files,
    Fragment,
    Reading,
    ReadStatus,
    Section,
    Sections,
    Unparsable,
    absent,
    failed,
    read_text,
)
from clusterctl.facts.model.fabric import GpuDirect, KernelModule, KernelModules
from clusterctl.facts.subjects.limits import config_lines

_PEERS = "/sys/kernel/mm/memory_peers"
_SYMBOL = "ib_register_peer_memory_client"
_DMABUF = "ibv_reg_dmabuf_mr"
_CLASSES = {
    "/sys/class/infiniband_mad/abi_version": "ib_umad",
    "/sys/class/infiniband_verbs/abi_version": "ib_uverbs",
}
"""Files that exist while a module runs, also if it is built into the kernel and not listed as a module."""

FRAGMENTS = (
    Fragment(
        "modules",
        files=(
            *("/proc/modules", f"{_PEERS}/nv_mem/version", f"{_PEERS}/nv_mem_nc/version"),
            *("/sys/module/nvidia_peermem/version", "/sys/module/ib_core/version"),
            *("/sys/module/ib_core/taint", "/sys/module/mlx5_core/version", *_CLASSES),
        ),
    ),
    # Only out-of-tree modules, NVIDIA's, and built-in RDMA modules are listed: the thousands of other modules are
    # not needed. Lines of modules.dep have a colon, lines of modules.builtin do not.
    Fragment(
        "modules_disk",
        """\
d=/lib/modules/$K
if [ -e "$d/build/Makefile" ]; then echo "headers $d/build"; fi
if [ -r "$d/modules.dep" ]; then
  echo "modules.dep"
  grep -hosE \
    '^(updates|extra|weak-updates|misc)/[^:]*:|^([^: ]*/)?[^:/ ]*(nvidia|peer[-_]?mem)[^:/ ]*:|'\
'^kernel/drivers/(infiniband|nvme)/[^: ]*$' "$d/modules.dep" "$d/modules.builtin"
fi
return 0""",
        needs='[ -d "/lib/modules/$K" ]',
        missing="/lib/modules has no directory for the running kernel",
    ),
    # /proc/kallsyms is read last, since the kernel prints it symbol by symbol. For RDMA modules that the kernel's
    # directory does not describe, the type information (BTF) of ib_core, or of the kernel if ib_core is built in,
    # lists the functions. It counts only if two functions that every ib_core has are found, because busybox grep
    # finds just one in binary data.
    Fragment(
        "peer_symbol",
        f"""\
if [ -r "/lib/modules/$K/modules.symbols" ] &&
  grep -qE '[:_]{_SYMBOL}( |$)' "/lib/modules/$K/modules.symbols"; then echo yes; return 0; fi
t=; [ -r /sys/module/ib_core/taint ] && read -r t </sys/module/ib_core/taint
if [ -d /sys/module/ib_core ]; then
  case $t in *O*) k=1;; *) k=; [ -r "/lib/modules/$K/modules.symbols" ] || k=1;; esac
  b=/sys/kernel/btf/ib_core; [ -r $b ] || b=/sys/kernel/btf/vmlinux
  if [ "$k" ] && [ -r $b ]; then
    n=$(grep -aoE 'ib_(un)?register_(peer_memory_)?client' $b)
    case $n in *{_SYMBOL}*) echo yes; return 0;; *"$N"*) k=;; esac
  fi
  if [ "$k" ] && [ -r /proc/kallsyms ] && grep -qE ' {_SYMBOL}([[:space:]]|$)' /proc/kallsyms; then
    echo yes; return 0
  fi
elif [ ! -r "/lib/modules/$K/modules.symbols" ]; then
  echo "no RDMA stack is loaded, and /lib/modules has no list of symbols" >&2; return {127}
fi
echo no""",
    ),
    Fragment(
        "module_license",
        "modinfo -F license nvidia && modinfo -F version nvidia",
        needs="command -v modinfo >/dev/null 2>&1 && [ -e /proc/driver/nvidia/version ]",
        missing="no NVIDIA driver is loaded, or modinfo is not installed",
    ),
    Fragment(
        "verbs_dmabuf",
        f"""\
for f in {{LIBIBVERBS}}; do
  [ -r "$f" ] || continue
  if grep -qa {_DMABUF} "$f"; then echo "yes $f"; else echo "no $f"; fi
  return 0
done
echo 'libibverbs.so.1 is not installed' >&2
return 127""".replace(
            "{LIBIBVERBS}",
            "/usr/lib/*-linux-gnu*/libibverbs.so.1 /usr/lib64/libibverbs.so.1 /usr/lib/libibverbs.so.1 "
            "/lib/*-linux-gnu*/libibverbs.so.1 /lib64/libibverbs.so.1 /usr/local/lib/libibverbs.so.1",
        ),
    ),
)


def parse_loaded(text: str) -> tuple[KernelModule, ...]:
    """Parse /proc/modules: name, size, use count, dependents, state, address, and taints in brackets."""
    modules = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 6 or not words[1].isdigit():
            raise Unparsable(f"not a line of /proc/modules: {line[:80]!r}")
        taints = words[6].strip("()") if len(words) > 6 else ""
        modules.append(KernelModule(words[0], taints))
    return tuple(sorted(modules, key=lambda module: module.name))


def _module_name(path: str) -> str:
    return PurePosixPath(path).name.split(".")[0].replace("-", "_")


def _installed(section: Section) -> Reading[tuple[str, ...]]:
    if section.status is not ReadStatus.OK:
        return Reading(None, section.status, section.detail)
    lines = section.text.splitlines()
    if "modules.dep" not in lines:
        return absent("the running kernel has no modules.dep")
    paths = [line[:-1] for line in lines if re.fullmatch(r"[^ :]+\.ko(\.\w+)?:", line)]
    return Reading(tuple(sorted({_module_name(path) for path in paths})))


def _built_in(files: Files, disk: Section, loaded: Reading[tuple[KernelModule, ...]]) -> tuple[str, ...]:
    paths = re.findall(r"^kernel/\S+\.ko$", disk.text, re.MULTILINE)
    running = {module for path, module in _CLASSES.items() if files.text(path)}
    found = running - {module.name for module in loaded.or_else(())}
    return tuple(sorted(found | {_module_name(path) for path in paths}))


def _headers(section: Section) -> Reading[str]:
    if section.status is not ReadStatus.OK and section.status is not ReadStatus.EMPTY:
        return Reading(None, section.status, section.detail)
    match = re.search(r"^headers (\S+)$", section.text, re.MULTILINE)
    return Reading(match[1]) if match else absent("the build files of the running kernel are not installed")


def _loaded(files: Files, section: Section) -> Reading[tuple[KernelModule, ...]]:
    if "/proc/modules" in files.lines:
        return read_text("\n".join(files.lines["/proc/modules"]), parse_loaded, cut=section.cut)
    if section.status is ReadStatus.EMPTY:
        return Reading((), ReadStatus.OK, "no module is loaded, or the kernel has no modules")
    return files.one("/proc/modules", parse_loaded)


def yes_no(text: str) -> bool:
    """Parse an output whose first word is yes or no; raise Unparsable for any other."""
    word = text.split(maxsplit=1)[0]
    if word not in ("yes", "no"):
        raise Unparsable(f"expected yes or no, not {text[:80]!r}")
    return word == "yes"


def parse_modules(sections: Sections) -> KernelModules:
    """Return the modules that are loaded, that are on disk, and that the configuration loads."""
    section, disk, config = sections["modules"], sections["modules_disk"], sections["config"]
    boot = ("/etc/modules", "/usr/lib/modules-load.d/", "/run/modules-load.d/", "/etc/systemd/system/")
    words = re.compile(r"nvidia|peer_?mem|mlx|ib_|rdma|rxe|nouveau")
    options = config_lines(config, "/etc/modprobe.d/", "/usr/lib/modprobe.d/")
    files = Files(section)
    loaded = _loaded(files, section)
    return KernelModules(
        loaded=loaded,
        installed=_installed(disk),
        at_boot=config_lines(config, *boot),
        options=tuple(line for line in options if words.search(line.text)),
        headers=_headers(disk),
        built_in=_built_in(files, disk, loaded),
    )


def parse_gpudirect(sections: Sections) -> GpuDirect:
    """Return the evidence for nv_peer_mem, nvidia-peermem and DMA-BUF."""
    files = Files(sections["modules"])
    legacy = [files.one(f"{_PEERS}/{name}/version", str) for name in ("nv_mem", "nv_mem_nc")]
    ofed = [files.one(f"/sys/module/{name}/version", str) for name in ("ib_core", "mlx5_core")]
    symbol = sections["peer_symbol"]
    if symbol.status is ReadStatus.EMPTY:
        api: Reading[bool] = failed("the search for the symbol printed no result")
    else:
        api = symbol.read(yes_no)
    return GpuDirect(
        nv_peer_mem_version=next((r for r in legacy if r.value is not None), legacy[0]),
        nvidia_peermem_version=files.one("/sys/module/nvidia_peermem/version", str),
        peer_memory_api=api,
        ofed_version=next((r for r in ofed if r.value is not None), ofed[0]),
        verbs_dmabuf=sections["verbs_dmabuf"].read(yes_no),
    )
