"""The programs of rows of ``accept`` that the node has, with their versions; the command names them in ``TOOLS``."""

from __future__ import annotations

from clusterctl.facts.base import Fragment, Sections
from clusterctl.facts.model.launch import Executable
from clusterctl.facts.subjects.mpi import SHARED_FOLDER
from clusterctl.text.foreign import lines

PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are searched, besides the PATH of the login."""
_VERSION_CHARACTERS = 80

# Each line of TOOLS is a program and the words with which it prints its version; no word holds a blank.
FRAGMENTS = (
    Fragment(
        "tool_versions",
        f"{SHARED_FOLDER}\nPATH=$PATH:{PLACES}:$b/nccl-tests/build\n"
        """\
set -f
IFS=$N
for x in $TOOLS; do
  IFS=' '
  set -- $x
  p=$1
  shift
  f=$(command -v "$p" 2>/dev/null) || continue
  v=$(t 20 "$f" "$@" 2>&1 </dev/null | head -c 2000 | head -n 1 | tr -d '\\t')
  printf '%s\\t%s\\t%s\\n' "$p" "$f" "$v"
done
return 0""",
        limit_bytes=64 * 1024,
        variables=("SHARED", "TOOLS"),
    ),
)


def parse(sections: Sections) -> dict[str, Executable]:
    """Return the programs of the section ``tool_versions`` by name; other lines are ignored."""
    said = (line.split("\t") for line in lines(sections["tool_versions"].text))
    return {
        words[0]: Executable(words[1], words[2].strip()[:_VERSION_CHARACTERS])
        for words in said
        if len(words) == 3
    }
