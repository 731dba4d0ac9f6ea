"""Kernel parameters, and the files that clusterctl wrote on the node."""

from __future__ import annotations

import re

from clusterctl.facts.base import Fragment, Reading, ReadStatus, Sections, Unparsable, path_lines, read_text
from clusterctl.facts.model.host import ConfigLine
from clusterctl.facts.model.services import FileSum, ManagedFile, Sysctl
from clusterctl.facts.subjects.limits import NCCL_HOME_FILE, config_lines
from clusterctl.text.grouping import grouped

SYSCTLS = (
    *("net.core.rmem_max", "net.core.wmem_max", "net.core.rmem_default", "net.core.wmem_default"),
    *("net.core.netdev_max_backlog", "net.core.somaxconn", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    *("net.ipv4.tcp_congestion_control", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_mtu_probing"),
    "net.ipv4.ip_local_reserved_ports",
    *("kernel.numa_balancing", "vm.swappiness", "vm.max_map_count", "fs.file-max", "vm.nr_hugepages"),
)
READ_ONLY = "/proc/sys is read-only"
KEPT = "kept_config"
"""The section with the configuration files that only root may read."""
MANAGED = (
    *(
        "/etc/security/limits.d/*clusterctl*",
        "/etc/modules-load.d/*clusterctl*",
        "/etc/modprobe.d/*clusterctl*",
    ),
    *(
        "/etc/sysctl.d/*clusterctl*",
        "/etc/systemd/system/*clusterctl*",
        "/etc/systemd/system/*.d/*clusterctl*",
    ),
    *(
        "/etc/ssh/sshd_config.d/*clusterctl*",
        "/etc/tmpfiles.d/*clusterctl*",
        "/etc/udev/rules.d/*clusterctl*",
    ),
    *("/etc/chrony/*.d/*clusterctl*", "/etc/chrony.d/*clusterctl*", "/etc/systemd/*.conf.d/*clusterctl*"),
    *("/etc/clusterctl/*", "/usr/local/lib/clusterctl/*", "/usr/local/sbin/*clusterctl*"),
)
_GLOBS = " ".join(MANAGED)

FRAGMENTS = (
    # If root cannot write (a read-only mount), the host sets the values. Only root can test that.
    Fragment(
        "sysctl",
        f"""\
[ "$W" != root ] || [ -w /proc/sys/kernel/hostname ] || echo '{READ_ONLY}' >&2""",
        files=tuple("/proc/sys/" + name.replace(".", "/") for name in SYSCTLS),
    ),
    # Some sites and distributions (SUSE's chrony.spec: 0640) let only root and chrony's group read chrony.conf. A
    # second probe through sudo with a password can read every file, so it reads what the account could not.
    Fragment(
        KEPT,
        """\
r "grep -HsE '^[[:space:]]*[^!#;%[:space:]]' /etc/chrony.conf /etc/chrony/chrony.conf /etc/chrony/conf.d/*.conf \
  /etc/chrony/sources.d/*.sources /etc/chrony.d/*.conf /etc/chrony.d/*.sources"
n $?""",
        needs="""\
k=; [ ! -d /etc/chrony ] || [ -x /etc/chrony ] || k=1
for f in /etc/chrony.conf /etc/chrony/chrony.conf; do
  if [ -e $f ] && { [ ! -r $f ] || [ "${SUDO_UID:-}" ]; }; then k=1; fi
done; [ "$k" ]""",
        missing="no chrony file is restricted to root",
        root=True,
    ),
    Fragment(
        "cluster_file",
        """\
k=; [ -r /etc/sysconfig/rdma ] && [ -x /etc/sysconfig/rdma ] || k=1
for f in /etc/sysconfig/rdma/*; do if [ -e "$f" ] && [ ! -r "$f" ]; then k=1; fi; done
if [ "$k" ]; then r 'sha256sum /etc/sysconfig/rdma/*'; else t 10 sha256sum /etc/sysconfig/rdma/*; fi""",
        needs="[ -d /etc/sysconfig/rdma ]",
        missing="/etc/sysconfig/rdma not found",
        limit_bytes=16 * 1024,
        root=True,
    ),
    Fragment(
        "managed",
        f"""\
set --
for f in {_GLOBS}; do [ -f "$f" ] && set -- "$@" "$f"; done
g "$@\"""",
        needs=f'm=; for f in {_GLOBS}; do if [ -f "$f" ]; then m=1; fi; done; [ "$m" ]',
        missing="no file of clusterctl's on this node",
        limit_bytes=512 * 1024,
    ),
)


def parse_sysctls(sections: Sections) -> tuple[Sysctl, ...]:
    """Return the parameters that the node has, with white space between values reduced to one blank."""
    lines = path_lines(sections["sysctl"].text)
    return tuple(
        Sysctl(path.removeprefix("/proc/sys/").replace("/", "."), " ".join(value.split()))
        for path, value in sorted(lines)
        if path.startswith("/proc/sys/")
    )


def parse_config(sections: Sections) -> tuple[ConfigLine, ...]:
    """Return the lines of the files of kernel parameters, time services and NCCL."""
    found = config_lines(
        sections["config"],
        *("/etc/sysctl", "/run/sysctl.d/", "/usr/local/lib/sysctl.d/", "/usr/lib/sysctl.d/"),
        *("/etc/chrony", "/usr/etc/chrony", "/etc/systemd/timesyncd", "/etc/ntp", "/etc/systemd/logind"),
        *("/etc/nccl.conf", NCCL_HOME_FILE),
    )
    kept = config_lines(sections[KEPT], "/etc/chrony")
    return found + tuple(line for line in kept if line not in found)


def _sums(text: str) -> tuple[FileSum, ...]:
    found = re.findall(r"^([0-9a-f]{64}) [ *](/\S+)$", text, re.MULTILINE)
    if text.strip() and not found:
        raise Unparsable(f"not output of sha256sum: {text[:80]!r}")
    return tuple(FileSum(path, digest) for digest, path in sorted(found, key=lambda pair: pair[1]))


def parse_rdma_files(sections: Sections) -> Reading[tuple[FileSum, ...]]:
    """Return path and SHA-256 (hexadecimal) of the files below /etc/sysconfig/rdma."""
    section = sections["cluster_file"]
    # sha256sum ends with 1 if a directory is among the files, or if the shell's pattern matched no file.
    if section.status is ReadStatus.FAILED and section.exit_status == 1:
        return read_text(section.text, _sums)
    return section.read(_sums)


def parse_managed(sections: Sections) -> tuple[ManagedFile, ...]:
    """Return the files that clusterctl wrote, by their names; each line ends with a newline."""
    texts = grouped(path_lines(sections["managed"].text))
    return tuple(ManagedFile(path, "\n".join(lines) + "\n") for path, lines in sorted(texts.items()))
