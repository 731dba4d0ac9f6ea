"""The Python that ranks run in, with torch and collective libraries; and what clusterctl could make one from."""

from __future__ import annotations

import re

from clusterctl.facts.base import Fragment, Reading, Sections, Unparsable
from clusterctl.facts.model.python import (
    DistributionPython,
    InstalledLibrary,
    NodePython,
    PythonEnvironment,
    PythonFacts,
)
from clusterctl.facts.model.services import Package
from clusterctl.text.foreign import whole
from clusterctl.text.grouping import grouped

ENVIRONMENT = "/opt/clusterctl/python"
"""Where the requirement ``python`` makes an environment; launches prefer it to the python3 on the PATH."""
INTERPRETER = f"{ENVIRONMENT}/bin/python3"
MARK = ".clusterctl-venv"
"""The file in an environment of clusterctl: a line with the run that made it, and a line with its content."""
_LINES = frozenset(
    {
        "environment",
        "distribution",
        "libc",
        "python",
        "python-version",
        "torch",
        "library",
        "core-perf",
        "package",
    }
)
PACKAGES = (
    *("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11"),
    *("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu11"),
    *("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"),
    *("collective-core", "horovod", "tencent-lightcc", "lightcc", "torch-accl", "acspeed", "aiacc-nccl"),
)
"""The packages of Python whose versions matter to a launch: CUDA, cuDNN, NCCL, and collective libraries."""
_MOST_BASES = 32
_LONGEST = 100
_RUN = re.compile(r"[A-Za-z0-9._-]{1,100}")
_BASE = re.compile(r"(/usr/bin/python3\.(\d{1,3})) (yes|no) (yes|no) (yes|no)")
_GLIBC = re.compile(r"(?:glibc )?(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)")

# Only the interpreter of ranks is started. Those of the distribution are recognised by their names and by two modules:
# Debian's python3-minimal lacks venv, and ensurepip is in a package of its own.
FRAGMENTS = (
    Fragment(
        "python",
        f"""\
m={ENVIRONMENT}/{MARK}
if [ -f "$m" ]; then
  v= w=
  {{ read -r v; read -r w; }} <"$m"
  printf 'environment %s %s\\n' "${{v:--}}" "$w"
elif [ -e {ENVIRONMENT} ] || [ -h {ENVIRONMENT} ]; then echo 'environment -'
fi
for f in /usr/bin/python3.[0-9]*; do
  v=${{f#/usr/bin/python3.}}
  case $v in *[!0-9]*) continue ;; esac
  [ -x "$f" ] || continue
  w=no x=no y=no
  if [ -d "/usr/lib/python3.$v/venv" ] || [ -d "/usr/lib64/python3.$v/venv" ]; then w=yes; fi
  if [ -d "/usr/lib/python3.$v/ensurepip" ] || [ -d "/usr/lib64/python3.$v/ensurepip" ]; then x=yes; fi
  [ ! /usr/bin/python3 -ef "$f" ] || y=yes
  echo "distribution $f $w $x $y"
done
v=$(getconf GNU_LIBC_VERSION 2>/dev/null) && echo "libc $v"
if [ -z "$PYTHON" ]; then
  PYTHON=python3
  [ ! -x {INTERPRETER} ] || PYTHON={INTERPRETER}
fi
case $PYTHON in
*/*) p=$PYTHON; [ -x "$p" ] || p= ;;
*) p=$(command -v "$PYTHON") ;;
esac
[ -n "$p" ] || return 0
echo "python $p"
t 100 "$p" - "${{PROGRAM:-all_reduce_perf}}" "$LIBRARY" {" ".join(PACKAGES)} <<'PYTHON_END' 2>/dev/null
"""
        """\
import importlib.metadata as metadata
import importlib.util as util
import os
import platform
import sys

print("python-version " + platform.python_version())
try:
    print("torch " + metadata.version("torch"))
except metadata.PackageNotFoundError:
    pass
for name in sys.argv[3:]:
    try:
        print("package " + name + " " + metadata.version(name))
    except metadata.PackageNotFoundError:
        pass
module, _, distribution = sys.argv[2].partition(" ")
if module:
    try:
        version, library = metadata.version(distribution), util.find_spec(module)
    except (ImportError, OSError, ValueError):
        library = None
    if library is not None and library.origin is not None:
        print("library " + version + " " + os.path.dirname(library.origin))
# A directory of that name that is not the package yields a spec without an origin.
core = util.find_spec("collective_core")
if core is not None and core.origin is not None:
    import collective_core

    try:
        print("core-perf " + str(collective_core.perf_binary(sys.argv[1])))
    except (AttributeError, OSError):
        pass
PYTHON_END
return 0""",
        limit_bytes=64 * 1024,
        variables=("PYTHON", "PROGRAM", "LIBRARY"),
    ),
)


def parse_python(text: str) -> NodePython:
    """Parse the section's lines; raise Unparsable for a malformed one."""
    lines = (line.partition(" ") for line in text.splitlines())
    # A site's own start-up file of Python may print other lines.
    said = grouped((name, value) for name, _, value in lines if value and name in _LINES)
    if not said:
        raise Unparsable(f"not a description of the node's Python: {text[:80]!r}")

    def one(name: str) -> str | None:
        return said[name][0] if name in said else None

    path = one("python")
    version, _, folder = (one("library") or "").partition(" ")
    glibc = _GLIBC.fullmatch((one("libc") or "").strip())
    return NodePython(
        ranks=None
        if path is None
        else PythonFacts(
            path,
            one("python-version"),
            one("torch"),
            one("core-perf"),
            InstalledLibrary(version, folder) if folder else None,
            tuple(
                Package(name, version[:_LONGEST])
                for name, _, version in (line.partition(" ") for line in said.get("package", ()))
                if name in PACKAGES and version
            ),
        ),
        environment=_environment(one("environment")),
        distribution=tuple(map(_distribution, said.get("distribution", ())[:_MOST_BASES])),
        glibc=None if glibc is None else glibc[1],
    )


def _environment(words: str | None) -> PythonEnvironment | None:
    if words is None:
        return None
    run, _, content = words.partition(" ")
    if run == "-":
        return PythonEnvironment()
    if _RUN.fullmatch(run) is None or len(content) > 4096:
        raise Unparsable(f"not a mark of an environment: {words[:80]!r}")
    return PythonEnvironment(run, content.strip())


def _distribution(words: str) -> DistributionPython:
    found = _BASE.fullmatch(words)
    if found is None:
        raise Unparsable(f"not an interpreter of the distribution: {words[:80]!r}")
    return DistributionPython(found[1], whole(found[2]), *(word == "yes" for word in found.groups()[2:]))


def parse(sections: Sections) -> Reading[NodePython]:
    """Return the facts of the section ``python``; empty on a node without any Python and C library of GNU."""
    return sections["python"].read(parse_python)
