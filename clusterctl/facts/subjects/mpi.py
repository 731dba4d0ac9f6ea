"""MPI in the places of distributions and vendors, and what nccl-tests is built with."""

from __future__ import annotations

from clusterctl.facts.base import Fragment, Reading, Sections, Unparsable
from clusterctl.facts.model.mpi import Mpi, MpiInstallation

OWN_FOLDER = "/opt"
"""Where the requirement ``mpi`` puts MPICH, NCCL and nccl-tests if the nodes share no directory."""
SHARED_FOLDER = f"""\
b={OWN_FOLDER}
[ -z "$SHARED" ] || b=$(t 5 ls -d "$SHARED" 2>/dev/null </dev/null) || b={OWN_FOLDER}"""
"""Shell lines that set b to the directory of these trees; one that does not answer in 5 s counts as missing."""
_PREFIXES = (
    *("/usr/local/openmpi", "/usr/local/mpi", "/usr/local", "/opt/openmpi*", "/opt/amazon/openmpi*"),
    *("/opt/hpcx/ompi", "/usr/mpi/gcc/openmpi-*"),
)
_HYDRA = (
    *("/usr/bin/mpiexec.hydra", "/usr/local/bin/mpiexec.hydra", "/usr/bin/mpiexec.mpich"),
    *("/usr/lib64/mpich/bin/mpiexec", "/usr/local/mpich/bin/mpiexec"),
)
_NCCL_HEADERS = (
    *("/usr/include", "/usr/local/include", "/usr/local/cuda/include", "/usr/local/nccl/include"),
    *("/opt/nccl/include", "/opt/nccl/build/include"),
)

# Only globs and tests, so that the section starts no process. Debian's packages have their files below a directory of
# the library, those of RHEL have their headers in another place. ompi_info distinguishes Open MPI from other MPIs.
FRAGMENTS = (
    Fragment(
        "mpi",
        f"""\
{SHARED_FOLDER}
installation() {{
  x=-; [ ! -x "$2" ] || x=$2
  y=-; [ ! -e "$3" ] || y=$3
  printf 'mpi %s %s %s\\n' "$1" "$x" "$y"
}}
for f in /usr/lib/*-linux-gnu/openmpi; do
  [ ! -d "$f" ] || installation "$f" /usr/bin/mpirun.openmpi "$f/include/mpi.h"
done
if [ -d /usr/lib64/openmpi ]; then
  for v in /usr/include/openmpi-*/mpi.h; do
    installation /usr/lib64/openmpi /usr/lib64/openmpi/bin/mpirun "$v"
    break
  done
fi
for f in {" ".join(_PREFIXES)}; do
  [ ! -x "$f/bin/ompi_info" ] || installation "$f" "$f/bin/mpirun" "$f/include/mpi.h"
done
x=-; [ ! -x "$b/mpich/bin/mpiexec.hydra" ] || x=$b/mpich/bin/mpiexec.hydra
y=-; [ ! -e "$b/mpich/include/mpi.h" ] || y=$b/mpich/include/mpi.h
[ "$x$y" = -- ] || printf 'mpich %s %s %s\\n' "$b/mpich" "$x" "$y"
for f in "$b/mpich/bin/mpiexec.hydra" {" ".join(_HYDRA)}; do
  if [ -x "$f" ]; then printf 'hydra %s\\n' "$f"; break; fi
done
[ -z "$MPIRUN" ] || ! f=$(command -v "$MPIRUN") || printf 'named %s\\n' "$f"
for f in /usr/local/cuda/bin/nvcc /usr/local/cuda-[0-9]*/bin/nvcc; do
  if [ -x "$f" ]; then printf 'nvcc %s\\n' "$f"; break; fi
done
for f in "$b/nccl/build/include" {" ".join(_NCCL_HEADERS)}; do
  if [ -e "$f/nccl.h" ]; then printf 'nccl-header %s\\n' "$f/nccl.h"; break; fi
done
f=$b/nccl-tests/build/all_reduce_perf
[ ! -x "$f" ] || printf 'nccl-tests %s\\n' "$f"
return 0""",
        variables=("MPIRUN", "SHARED"),
    ),
)


def parse_mpi(text: str) -> Mpi:
    """Parse the section's lines; raise Unparsable for another form."""
    installations: list[MpiInstallation] = []
    mpich: MpiInstallation | None = None
    paths: dict[str, str] = {}
    for line in text.splitlines():
        kind, *words = line.split()
        if kind in ("mpi", "mpich") and len(words) == 3:
            home, mpirun, header = (None if word == "-" else word for word in words)
            found = MpiInstallation(home or "", mpirun, header)
            if kind == "mpich":
                mpich = found
            else:
                installations.append(found)
        elif kind in ("nvcc", "nccl-header", "nccl-tests", "hydra", "named") and len(words) == 1:
            paths[kind] = words[0]
        else:
            raise Unparsable(f"not a list of MPI installations: {line[:80]!r}")
    return Mpi(
        tuple(installations), paths.get("nvcc"), paths.get("nccl-header"), paths.get("nccl-tests"), paths.get("hydra"),
        paths.get("named"), mpich,
    )  # fmt: skip


def parse(sections: Sections) -> Reading[Mpi]:
    """Return the facts of the section ``mpi``; empty on a node that has nothing of it."""
    return sections["mpi"].read(parse_mpi)
