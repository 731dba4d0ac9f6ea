"""Look for the programs of the rows on a node, with their versions: one command for all of them."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl.acceptance.model import RowTool
from clusterctl.facts.model.mpi import Mpi
from clusterctl.text.foreign import lines

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts

_VERSION_CHARACTERS = 80
_LOOK = """\
t() { if command -v timeout >/dev/null 2>&1; then timeout -s KILL 20 "$@"; else "$@"; fi; }
look() {
  p=$(command -v "$1" 2>/dev/null) || return 0
  n=$1
  shift
  printf 'tool\\t%s\\t%s\\t%s\\n' "$n" "$p" "$(t "$p" "$@" 2>&1 </dev/null | head -c 2000 | head -n 1 | tr -d '\\t')"
}
printf 'boot\\t%s\\n' "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
"""


@dataclass(frozen=True, slots=True)
class Survey:
    """The programs that a node has, by name: the path, and the first line of the version; and the id of its boot."""

    boot: str
    tools: Mapping[str, tuple[str, str]]

    def missing(self, tools: Iterable[RowTool]) -> tuple[RowTool, ...]:
        """Return those of the tools that the node does not have."""
        return tuple(one for one in tools if one.program not in self.tools)

    def named(self, tools: Iterable[RowTool]) -> str:
        """Return the tools with their versions, for people."""
        found = [
            version or f"{one.program} of an unknown version"
            for one in tools
            for version in (self.tools[one.program][1],)
        ]
        return "; ".join(found)


def set_path(facts: NodeFacts | None) -> str:
    """Return a line of sh to search programs where logins may not, and nccl-tests where the facts found it.

    A shared directory that did not answer the facts is left out: each search would wait for its server.
    """
    built = None if facts is None else facts.mpi.or_else(Mpi()).nccl_tests
    found = "" if built is None else f":{shlex.quote(posixpath.dirname(built))}"
    return f"PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin{found}\n"


def script(tools: Iterable[RowTool], facts: NodeFacts | None = None) -> bytes:
    """Return sh text that prints the boot's id, and a line for each program that the node has."""
    calls = (f"look {shlex.join((one.program, *one.version))}\n" for one in dict.fromkeys(tools))
    return (set_path(facts) + _LOOK + "".join(calls) + "exit 0\n").encode()


def parse(text: str) -> Survey:
    """Read the output of ``script``; other lines are ignored."""
    boot, tools = "", {}
    for line in lines(text):
        words = line.split("\t")
        if words[0] == "boot" and len(words) == 2:
            boot = words[1].strip()
        elif words[0] == "tool" and len(words) == 4:
            tools[words[1]] = words[2], words[3].strip()[:_VERSION_CHARACTERS]
    return Survey(boot, tools)
