"""The programs and packages on the node that requirements and benchmarks use."""

from __future__ import annotations

import re
from dataclasses import replace

from clusterctl.facts.base import Fragment, Sections, Unparsable
from clusterctl.facts.model.services import Package, Software, Tool
from clusterctl.facts.subjects.limits import config_lines
from clusterctl.text.secret.scrub import scrubbed

TOOLS = (
    *("apt-get", "dnf", "yum", "zypper", "dpkg-query", "rpm", "sudo", "systemctl", "curl"),
    *("setpci", "lspci", "modprobe", "modinfo", "depmod", "dkms", "gcc", "g++", "make", "git", "cpupower"),
    *("docker", "podman", "nvidia-smi", "nvidia-ctk", "nvidia-cdi-hook", "nv-fabricmanager"),
    *("nvidia-container-runtime-hook", "nvidia-persistenced", "nvidia-imex", "gpg"),
    *("ibv_devices", "ibv_devinfo", "ibstat", "ib_write_bw", "rdma", "ip", "ethtool", "mst"),
    *("mpirun", "mpiexec.hydra", "all_reduce_perf", "all_reduce_perf_mpi", "python3", "torchrun", "srun"),
    *("fio", "stress-ng", "iperf3"),
)
DEB = (
    *("rdma-core", "libibverbs1", "librdmacm1", "ibverbs-providers", "ibverbs-utils", "infiniband-diags"),
    *("perftest", "docker.io", "docker-ce", "moby-engine", "containerd", "containerd.io", "dkms", "pciutils"),
    *("nvidia-container-toolkit", "mlnx-ofed-kernel-dkms", "doca-ofed", "openmpi-bin", "linux-cpupower"),
    *(
        "podman-docker",
        "docker-cli",
        "cpufrequtils",
        "chrony",
        "systemd-timesyncd",
        "nvidia-fabricmanager",
        "libnccl2",
    ),
    *("nvidia-docker2", "nvlsm", "nvidia-open", "cuda-drivers"),
)
RPM = (
    *("rdma-core", "libibverbs", "libibverbs-utils", "librdmacm", "infiniband-diags", "perftest"),
    *("docker-ce", "moby-engine", "podman-docker", "containerd.io", "dkms", "pciutils", "kernel-devel"),
    *("nvidia-container-toolkit", "mlnx-ofa_kernel", "doca-ofed", "openmpi", "kernel-tools", "chrony"),
    *("nvidia-fabric-manager", "nvidia-fabricmanager", "libnccl", "nvidia-docker2", "nvlsm"),
    *("nvidia-open", "cuda-drivers"),
)
_MANAGERS = (("apt-get", "apt"), ("dnf", "dnf"), ("yum", "yum"), ("zypper", "zypper"))

FRAGMENTS = (
    Fragment(
        "tools",
        f"""\
for n in {" ".join(TOOLS)}; do
  command -v "$n" 2>/dev/null
done
return 0""",
    ),
    # The stanzas of dpkg's status file are read directly, because dpkg-query loads its whole database first. Only
    # packages with a list of files are searched, as fixed lines, which grep finds quickly in a megabyte.
    Fragment(
        "packages",
        f"""\
if [ -r /var/lib/dpkg/status ]; then
  set --
  cd /var/lib/dpkg/info || return 1
  for n in {" ".join(DEB)}; do
    for f in "$n.list" "$n:amd64.list" "$n:arm64.list"; do
      if [ -e "$f" ]; then set -- "$@" -e "Package: $n"; break; fi
    done
  done
  if command -v nv-fabricmanager >/dev/null 2>&1; then
    for f in nvidia-fabricmanager-[0-9]*.list; do set -- "$@" -e "Package: ${{f%.list}}"; done
  fi
  [ $# -gt 0 ] || return 0
  grep -A 11 -Fx "$@" /var/lib/dpkg/status
  n $?
else
  t 20 rpm -q --qf 'rpm %{{NAME}} %{{VERSION}}-%{{RELEASE}}\\n' {" ".join(RPM)}
  return 0
fi""",
        needs="[ -r /var/lib/dpkg/status ] || command -v rpm >/dev/null 2>&1",
        missing="the node has neither dpkg nor rpm",
    ),
)


def parse_packages(text: str) -> tuple[Package, ...]:
    """Parse stanzas of dpkg's status file, or lines of rpm; return only installed packages."""
    found: dict[str, str] = {}
    name, installed = "", False
    for line in text.splitlines():
        words = line.split()
        if line.startswith("Package: "):
            name, installed = line[9:].strip(), False
        elif line.startswith("Status: "):
            installed = words[-1] in ("installed", "triggers-awaited", "triggers-pending")
        elif line.startswith("Version: ") and name and installed:
            found.setdefault(name, line[9:].strip())
            name = ""
        elif not line.strip():
            name = ""
        elif words[0] == "rpm" and len(words) == 3:
            found[words[1]] = words[2]
    if not found and not re.search(r"^(Package: |package |rpm )", text, re.MULTILINE):
        raise Unparsable(f"not a list of packages: {text[:160]!r}")
    return tuple(Package(name, version) for name, version in sorted(found.items()))


def parse(sections: Sections) -> Software:
    """Return the facts of the sections ``tools`` and ``packages``."""
    paths = [line for line in sections["tools"].text.splitlines() if line.startswith("/")]
    tools = {path.rsplit("/", 1)[-1]: path for path in paths}
    section = sections["packages"]
    packages = section.read(parse_packages)
    return Software(
        manager=next((name for tool, name in _MANAGERS if tool in tools), None),
        tools=tuple(Tool(name, path) for name, path in sorted(tools.items())),
        packages=packages,
        repositories=tuple(
            # An address may contain user and password, and facts are written to disk.
            replace(line, text=scrubbed(line.text))
            for line in config_lines(sections["config"], "/etc/apt/", "/etc/yum.repos.d/")
        ),
    )
