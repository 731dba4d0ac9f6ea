"""What a guest is, as text that can be compared: files, packages, units, kernel parameters, modules, registers."""

from __future__ import annotations

import re

# Everything that a bootstrap may touch. Left out is what a system changes by itself: package lists and caches,
# systemd's random seed and timers, logs; and the account files' backups, in which shadow-utils keeps the state before
# the last change, whichever that was.
TREE = r"""
cd / && find etc usr/local root home opt srv mnt -xdev ! -path 'etc/[pgs]*-' -printf '%y %m %U:%G %l %p\n' | sort
find etc usr/local root home opt srv mnt -xdev -type f ! -path 'etc/[pgs]*-' -exec sha256sum {} + | sort -k 2
"""
FILES = (
    TREE
    + r"""
ls /usr/src "/lib/modules/$(uname -r)"
cd "/lib/modules/$(uname -r)" && sha256sum modules.dep modules.alias modules.symbols
"""
)
PACKAGES = r"""
dpkg-query -W -f '${db:Status-Abbrev}|${binary:Package}|${Version}\n' | sort
apt-mark showmanual | sed 's/^/manual /'
"""
UNITS = r"""
systemctl list-unit-files --no-legend --no-pager --plain | sort
systemctl list-units --no-legend --no-pager --plain --state=failed | awk '{print $1, $3, $4}' | sort
"""
RUNNING = r"""
systemctl list-units --no-legend --no-pager --plain --type=service,socket,timer,mount \
  | awk '$1 !~ /^(user|session)/ {print $1, $3, $4}' | sort
"""
PARAMETERS = "sysctl -a 2>/dev/null | sort"
# Whether the second module that can compute CRC32 is there depends on who is first at boot: udev, which loads the one
# for this processor, or rdma_rxe, which asks for both.
MODULES = "lsmod | awk 'NR > 1 && $1 != \"crc32_generic\" {print $1}' | sort"
INTERFACES = "ip -br link | awk '{print $1}' | sort"

QUESTIONS = {
    "files": FILES,
    "packages": PACKAGES,
    "units": UNITS,
    "running": RUNNING,
    "parameters": PARAMETERS,
    "modules": MODULES,
    "interfaces": INTERFACES,
}

# Counters, random numbers, and what the kernel works out from the memory that a boot finds free; not settings.
_COUNTERS = re.compile(
    r"^(fs\.(dentry-state|file-nr|inode-nr|inode-state|quota\..*)|kernel\.(ns_last_pid|pty\.nr|random\..*|perf_.*)"
    r"|kernel\.(core_pipe_limit|keys\..*)|net\.netfilter\.nf_conntrack_count|vm\.stat_refresh"
    r"|dev\.cdrom\.info|net\.ipv[46]\..*stable_secret|net\.ipv4\.tcp_fastopen_key|net\.core\.netdev_rss_key"
    r"|vm\.(min_free_kbytes|user_reserve_kbytes|admin_reserve_kbytes)) ="
)

# A processor that did nothing for twenty seconds (Documentation/admin-guide/tainted-kernels.rst, bit 14) is, in a guest
# without KVM, one that the host had no time for.
_SOFT_LOCKUP = 1 << 14


def take(session, node: str) -> dict[str, list[str]]:
    """Return the guest's state, one list of lines per question."""
    marks = "".join(f"echo '== {name}'\n{script}\n" for name, script in QUESTIONS.items())
    state: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in session.output(node, marks, 300).splitlines():
        if line.startswith("== "):
            lines = state.setdefault(line[3:], [])
        elif line.startswith("kernel.tainted ="):
            lines.append(f"kernel.tainted = {int(line.split()[-1]) & ~_SOFT_LOCKUP}")
        elif not _COUNTERS.match(line):
            lines.append(line)
    return state


def differences(before: dict[str, list[str]], after: dict[str, list[str]], *names: str) -> list[str]:
    """Return every line that is in one state and not in the other, marked - and +."""
    found = []
    for name in names or tuple(QUESTIONS):
        old, new = set(before[name]), set(after[name])
        found += [f"{name} -{line}" for line in sorted(old - new)] + [
            f"{name} +{line}" for line in sorted(new - old)
        ]
    return found
