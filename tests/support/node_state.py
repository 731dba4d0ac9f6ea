"""All that an ``up`` could leave on a node, as lines of text that can be compared before and after."""

from __future__ import annotations

# What changes without anybody's doing, and with every login.
_PASSED_OVER = ("/proc", "/sys", "/var/log", "/run/docker", "/run/motd.dynamic")
_PRUNED = " -o ".join(f"-path {path}" for path in _PASSED_OVER)
COMMAND = (
    "docker ps -aq --no-trunc; docker volume ls -q; docker network ls -q --filter type=custom;"
    # Processes but what this shell starts (by parent: what is about to be `sort` has another name still), itself, and
    # the sessions of sshd that are just ending.
    " ps -eo pid=,ppid=,args= | awk -v me=$$ '$1 != me && $2 != me {$1 = $2 = \"\"; print}' | grep -v '^ *sshd: '"
    " | sort | uniq -c;"
    # Every file of the node with its size and time: keys and lines in authorized_keys among them.
    rf" find / -xdev \( {_PRUNED} \) -prune -o -type f -print0 | sort -z | xargs -0 stat -c '%n %s %Y'"
)
"""A shell command line that prints the state: containers, volumes, networks, processes, files."""


def changes(before: str, after: str) -> list[str]:
    """Return the lines that came or went."""
    return sorted(set(before.splitlines()) ^ set(after.splitlines()))
