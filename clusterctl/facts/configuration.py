"""Kernel parameters, and the files that clusterctl put on the node."""

from __future__ import annotations

from clusterctl.facts.base import Fragment, Sections, path_lines
from clusterctl.facts.model_services import ManagedFile, Sysctl

SYSCTLS = (
    *("net.core.rmem_max", "net.core.wmem_max", "net.core.rmem_default", "net.core.wmem_default"),
    *("net.core.netdev_max_backlog", "net.core.somaxconn", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    *("net.ipv4.tcp_congestion_control", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_mtu_probing"),
    *("kernel.numa_balancing", "vm.swappiness", "vm.max_map_count", "fs.file-max", "vm.nr_hugepages"),
)
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
    *("/etc/clusterctl/*", "/usr/local/lib/clusterctl/*", "/usr/local/sbin/*clusterctl*"),
)
_GLOBS = " ".join(MANAGED)

FRAGMENTS = (
    Fragment("sysctl", "g " + " ".join("/proc/sys/" + name.replace(".", "/") for name in SYSCTLS)),
    Fragment(
        "managed",
        f"""\
set --
for f in {_GLOBS}; do [ -f "$f" ] && set -- "$@" "$f"; done
g "$@\"""",
        needs=f'm=; for f in {_GLOBS}; do if [ -f "$f" ]; then m=1; fi; done; [ "$m" ]',
        missing="clusterctl has put no file on this node",
        limit_bytes=512 * 1024,
    ),
)


def parse_sysctls(sections: Sections) -> tuple[Sysctl, ...]:
    """Return the parameters that the node has; white space between values is one blank."""
    lines = path_lines(sections["sysctl"].text)
    return tuple(
        Sysctl(path.removeprefix("/proc/sys/").replace("/", "."), " ".join(value.split()))
        for path, value in sorted(lines)
        if path.startswith("/proc/sys/")
    )


def parse_managed(sections: Sections) -> tuple[ManagedFile, ...]:
    """Return the files whose names say that clusterctl wrote them, each line ended by a newline."""
    texts: dict[str, list[str]] = {}
    for path, line in path_lines(sections["managed"].text):
        texts.setdefault(path, []).append(line)
    return tuple(ManagedFile(path, "\n".join(lines) + "\n") for path, lines in sorted(texts.items()))
