"""Start a program of the user: the command of a rank, and the test that every node has what it needs."""

from __future__ import annotations

import io
import re
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.user_program import UserProgram
from clusterctl.inventory import nodeset
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.preflight import Readiness
from clusterctl.text.grouping import grouped
from clusterctl.text.visible import one_line
from clusterctl.text.wording import some

WRAPPER = "program_rank.sh"
_TAR, _BROUGHT = "brought.tar.gz", "brought"
_SYSTEM = ("/bin", "/usr/bin", "/usr/local/bin")
_MISSING = "missing "
_LEFT = re.compile(r"^program_rank: rank (?P<rank>\d{1,9}) left (?P<name>[^\n]{1,80})$", re.MULTILINE)
# Launchers take a word ":" as the end of a program's words.
_COLON = re.compile(r"\\*:")


def staged(program: UserProgram) -> dict[str, bytes]:
    """Return the script that runs ranks, and the brought files, for the launch directory of every node."""
    found = {WRAPPER: Path(__file__).with_name(WRAPPER).read_bytes()}
    return found if program.brought is None else {**found, _TAR: program.brought}


def wrapped(program: UserProgram, answers: Sequence[Readiness], directory: str) -> tuple[str, ...]:
    """Return the command of a rank, which every node gets alike.

    Ranks run in the brought directory, else in that of clusterctl if this machine launches, else where the launcher
    starts them. A Python that the inventory names, or that bootstrap installed, comes before the system's. An image has
    neither that Python nor that directory.
    """
    folder = f"{directory}/{_BROUGHT}" if program.brought is not None else ""
    if program.container is not None:
        return ("sh", f"{directory}/{WRAPPER}", folder, "", *_quoted(program.words))
    if not folder and answers[0].node.connection == "local":
        folder = program.directory
    pythons = {answer.python for answer in answers}
    python = pythons.pop() if len(pythons) == 1 else None
    paths = str(PurePosixPath(python).parent) if python else ""
    return (
        "sh", f"{directory}/{WRAPPER}", folder, "" if paths in _SYSTEM else paths,
        *_quoted(program.words),
    )  # fmt: skip


def _quoted(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"\\{word}" if _COLON.fullmatch(word) else word for word in words)


def brought(program: UserProgram) -> dict[str, int]:
    """Return the paths of the brought files below their directory, and their sizes in bytes."""
    if program.brought is None:
        return {}
    with tarfile.open(fileobj=io.BytesIO(program.brought)) as tar:
        return {e.name: e.size for e in sorted(tar, key=lambda e: e.name) if not e.isdir()}


def proving(program: UserProgram, plan: LaunchPlan) -> bytes:
    """Return sh text that unpacks the brought files on a node, and prints what of the program is missing there.

    What is in the image of a container is seen only when its ranks start.
    """
    at = plan.program.index(f"{plan.directory}/{WRAPPER}")
    folder, paths = plan.program[at + 1 : at + 3]
    start, script = program.start
    unpack = ""
    if program.brought is not None:
        # Nodes may share the directory, and later launches of a run find what the first one unpacked.
        unpack = f"""umask 077
if mkdir {folder} 2>/dev/null; then
  said=$(tar -xzof {plan.directory}/{_TAR} -C {folder} 2>&1) && : >{folder}.done ||
    {{ echo "{_MISSING}the files of --bring could not be unpacked: $said" | tr '\\n' ' '; echo; rm -rf {folder}; }}
else
  turn=0
  until [ -e {folder}.done ] || [ ! -d {folder} ] || [ "$turn" -ge 600 ]; do sleep 0.1; turn=$((turn + 1)); done
fi
"""
    if program.container is not None:
        image = shlex.quote(program.container.image or "")
        look = f'[ -r {image} ] || echo "{_MISSING}"{image} not found\n' if plan.by_enroot else ""
        return f"{unpack}{look}".encode()
    return f"""{unpack}set -- {shlex.quote(start)} {shlex.quote(script or "")}
[ -z {shlex.quote(paths)} ] || PATH={shlex.quote(paths)}:$PATH
[ -z {shlex.quote(folder)} ] || cd {shlex.quote(folder)} 2>/dev/null || :
case $1 in
  */*) [ -f "$1" ] && [ -x "$1" ] || echo "{_MISSING}$1 not found" ;;
  *) command -v "$1" >/dev/null 2>&1 || echo "{_MISSING}$1 not found" ;;
esac
[ -z "$2" ] || [ -r "$2" ] || echo "{_MISSING}$2 not found"
""".encode()


def missing(program: UserProgram, said: Mapping[str, str]) -> tuple[Fault, ...]:
    """Return a fault for each file that nodes lack, from what ``proving`` printed on each node."""
    lines = [
        (one_line(line.removeprefix(_MISSING), 200), node)
        for node, text in said.items()
        for line in text.splitlines()
        if line.startswith(_MISSING)
    ]
    hint = "install it on these nodes, give its full path, or bring it from a directory with --bring DIR"
    if program.brought is not None:
        hint = "install it on these nodes, or put it into the directory of --bring"
    return tuple(
        Fault(FaultKind.MISSING_PROGRAM, f"{nodeset.fold(nodes)}: {what}", node=nodes[0], hint=hint)
        for what, nodes in grouped(lines).items()
    )


def left_behind(stderr_by_rank: Mapping[int, str], node_of_rank: Sequence[str]) -> tuple[str, ...]:
    """Return what each rank's script found and ended after the program, as that script reported it."""
    found = []
    for rank, text in stderr_by_rank.items():
        names = [one_line(match["name"], 40) for match in _LEFT.finditer(text) if int(match["rank"]) == rank]
        if names and rank < len(node_of_rank):
            found.append(f"{some(names)} of rank {rank} on {node_of_rank[rank]}")
    return tuple(found)
