"""The programs that a launch uses: MPI launchers, Slurm, performance programs, and SSH files."""

from __future__ import annotations

import re

from clusterctl.facts.base import Fragment, Sections
from clusterctl.facts.model.launch import Executable, LaunchFacts, MeshKey
from clusterctl.facts.subjects.mpi import SHARED_FOLDER
from clusterctl.facts.subjects.ssh_mesh import FOLDER as MESH_FOLDER
from clusterctl.text.grouping import grouped

_MOST_MESH_KEYS = 3
"""sshd ends a login after MaxAuthTries keys, 6 by default, and the account's own keys are offered as well."""
_MESH_KEY = re.compile(r"(yes|no) ([a-z0-9][a-z0-9-]{0,30}) ([A-Za-z0-9_][A-Za-z0-9_.@-]{0,63})")

# `find_program` prints the first of its arguments that is an executable path or a program on the PATH. Anything that
# is missing on the node produces no line.
FRAGMENTS = (
    Fragment(
        "launch",
        f"k={MESH_FOLDER}\n{SHARED_FOLDER}\n"
        """\
find_program() {
  for f in "$@"; do
    case $f in
    */*) [ ! -x "$f" ] || { printf '%s' "$f"; return; };;
    *) ! command -v "$f" 2>/dev/null || return 0;;
    esac
  done
}
version_of() { t 20 "$1" --version 2>/dev/null </dev/null | head -n 3; }
found() {
  [ -n "$2" ] || return 0
  echo "$1 $2"
  [ -z "$3" ] || { v=$(version_of "$2"); set -f; echo "$1-version" $v; set +f; }
}
if [ -n "$MPIRUN" ]; then found mpirun "$(find_program "$MPIRUN")" v
else
  found mpirun "$(find_program mpirun /usr/local/openmpi/bin/mpirun /usr/local/mpi/bin/mpirun \\
    /opt/hpcx/ompi/bin/mpirun /usr/mpi/gcc/openmpi-*/bin/mpirun /usr/lib64/openmpi/bin/mpirun)" v
  found hydra "$(find_program "$b/mpich/bin/mpiexec.hydra" mpiexec.hydra mpiexec.mpich /usr/lib64/mpich/bin/mpiexec \\
    /usr/local/mpich/bin/mpiexec)" v
fi
if command -v srun >/dev/null 2>&1; then
  found srun "$(command -v srun)" ''
  ! t 15 srun --help 2>/dev/null </dev/null | grep -q -e '--container-image' || echo 'pyxis yes'
  t 15 sinfo -h -N -o 'slurm-node %N' 2>/dev/null </dev/null
fi
found enroot "$(find_program enroot)" ''
if [ -n "$PERF" ]; then found perf "$(find_program "$PERF")" ''
else found perf "$(find_program "$PROGRAM" "${PROGRAM}_mpi" "$b/nccl-tests/build/$PROGRAM")" ''
fi
case $IDENTITY in "~/"*) IDENTITY=$HOME/${IDENTITY#"~/"};; esac
[ -n "$IDENTITY" ] && [ -r "$IDENTITY" ] && echo "identity $IDENTITY"
[ -n "$KNOWN_HOSTS" ] && [ -r "$KNOWN_HOSTS" ] && echo "known_hosts $KNOWN_HOSTS"
if [ -d "$k" ]; then
  # As ssh_mesh does, choose by LOGNAME between accounts that share a user number.
  p=${LOGNAME:-}
  [ -n "$p" ] && [ "$(id -u "$p" 2>/dev/null)" = "$U" ] || p=$(id -un)
  for f in "$k"/*."$p"; do
    [ -f "$f" ] || continue
    m=${f##*/}; m=${m%".$p"}
    if [ -r "$f" ]; then echo "mesh-key yes $m $p"; else echo "mesh-key no $m $p"; fi
  done
fi
return 0""",
        limit_bytes=256 * 1024,
        variables=("MPIRUN", "SHARED", "PERF", "PROGRAM", "IDENTITY", "KNOWN_HOSTS"),
    ),
)


def parse(sections: Sections) -> LaunchFacts:
    """Return the facts of the section ``launch``."""
    lines = (line.partition(" ") for line in sections["launch"].text.splitlines())
    said = grouped((name, value) for name, _, value in lines if value)

    def one(name: str) -> str | None:
        return said[name][0] if name in said else None

    def executable(name: str) -> Executable | None:
        path = one(name)
        return None if path is None else Executable(path, one(f"{name}-version") or "")

    return LaunchFacts(
        mpirun=executable("mpirun"),
        hydra=executable("hydra"),
        srun=one("srun"),
        slurm_nodes=tuple(sorted({name.strip() for name in said.get("slurm-node", ())})),
        pyxis=one("pyxis") == "yes",
        enroot=one("enroot"),
        perf=one("perf"),
        identity=one("identity"),
        known_hosts=one("known_hosts"),
        mesh_keys=tuple(
            MeshKey(found[2], found[3], found[1] == "yes")
            for words in said.get("mesh-key", ())[:_MOST_MESH_KEYS]
            if (found := _MESH_KEY.fullmatch(words))
        ),
    )
