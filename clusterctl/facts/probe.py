"""The probe: one POSIX shell script that prints every section, and the splitting of what a node answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from clusterctl.errors import FactsError
from clusterctl.facts import shared_reads
from clusterctl.facts.base import STATUS_ABSENT, STATUS_DENIED, Section, Sections
from clusterctl.facts.model_host import RootAccess
from clusterctl.facts.subjects import fragments, not_asked
from clusterctl.foreign import NotUnderstood, decimal, is_whole, whole

# Notes on the shell below, which has to run in dash, busybox ash and bash:
# - All of it is one function, called with empty standard input: a script that arrives cut in half does
#   nothing, and no program can eat the rest of it.
# - Its output is collected and written at the end: hundreds of small pieces would each be a packet, which the
#   controller has to decipher and look at (a third of its work).
# - `s` runs a section's function in the shell itself: forks are most of what a probe costs its node. What the
#   functions leave behind (variables, the folder they are in) no other one relies on. All errors go another way than
#   the output and are caught in one variable, with a marker before each section's: no temporary file. With a limit
#   `head` cuts the output (fd 3), and the errors stand at the section's end.
# - `g` prints files, each line with its path; `n` forgives grep for finding nothing or not finding a file.
# - `a` prints a section that is known to be absent, or to fail with the status $3, without any fork. `r` runs text as
#   root if there is a way.
_PRELUDE = """\
clusterctl_probe() {
LC_ALL=C; export LC_ALL
for d in /usr/local/sbin /usr/sbin /sbin; do case :$PATH: in *:$d:*) ;; *) PATH=$PATH:$d;; esac; done; export PATH
M=@NONCE@
N='
'
K=; { read -r K </proc/sys/kernel/osrelease; } 2>/dev/null
g() { grep -Hs '' "$@"; n $?; }
n() { case $1 in 0|1|2) return 0;; *) return "$1";; esac; }
if command -v timeout >/dev/null 2>&1
then t() { timeout -s KILL "$@"; }
else t() { shift; "$@"; }
fi
command -v head >/dev/null 2>&1 || head() { cat; }
s() {
  printf '\\n%s begin %s %s\\n' "$M" "$1" "${2:--}"
  if [ "${2:-}" ]
  then
    e=$({ { "f_$1" 3>&-; printf '\\n%s' "$?" >&2; } | head -c "$2" >&3 3>&-; } 2>&1)
    printf '\\n%s end %s %s\\n%.4000s\\n' "$M" "$1" "${e##*"$N"}" "${e%"$N"*}"
  else
    printf '\\n%s err %s\\n' "$M" "$1" >&2
    "f_$1"
    printf '\\n%s end %s %s\\n' "$M" "$1" "$?"
  fi
}
a() { printf '\\n%s begin %s -\\n\\n%s end %s %s\\n%s\\n' "$M" "$1" "$M" "$1" "${3:-@ABSENT@}" "$2"; }
U=; while read -r k x y z; do
  if [ "$k" = Uid: ]; then U=$y; break; fi
done </proc/self/status
W=none; w=
if [ "$U" = 0 ]; then W=root
elif [ @SUDO@ = no ]; then w='not root, and the inventory does not want sudo (become: none)'
elif ! command -v sudo >/dev/null 2>&1; then w='not root, and sudo is not installed'
elif w=$(sudo -n true 2>&1); then W=sudo; w=
else w="not root, and sudo does not let in without a password: $w"
fi
r() {
  case $W in
  root) eval "$1";;
  sudo) sudo -n -- sh -c "$1";;
  *) printf '%s\\n' "$w" >&2; return @DENIED@;;
  esac
}
printf '\\n%s begin root -\\n%s %s %.400s\\n\\n%s end root 0\\n' "$M" "${U:--}" "$W" "$w" "$M"
"""

_EPILOGUE = """\
}
o=$(
exec 3>&1
e=$(clusterctl_probe 2>&1 >&3 </dev/null)
u=; { read -r u x </proc/uptime; } 2>/dev/null
printf '%s\\n\\n%s done %s\\n' "$e" '@NONCE@' "${u:--}"
)
printf '%s\\n' "$o"
exit 0
"""
_ERROR_CHARACTERS = 4000


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node's probe printed: its sections, its way to root, and its uptime at the end (seconds)."""

    sections: Sections
    root: RootAccess
    uptime_end_s: float | None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def build_script(
    nonce: str, *, allow_sudo: bool = True, only_root: bool = False, subjects: frozenset[str] | None = None
) -> str:
    """Assemble the probe; ``nonce`` (letters and digits that nobody can guess) marks the sections' ends.

    ``only_root`` keeps the sections that are worth asking again when there is another way to root;
    ``subjects`` those of these subjects (and of the ones that are read with them).
    """
    prelude = (
        _PRELUDE.replace("@NONCE@", nonce)
        .replace("@ABSENT@", str(STATUS_ABSENT))
        .replace("@DENIED@", str(STATUS_DENIED))
        .replace("@SUDO@", "yes" if allow_sudo else "no")
    )
    return prelude + _body(only_root, subjects) + _EPILOGUE.replace("@NONCE@", nonce)


@cache
def _body(only_root: bool, subjects: frozenset[str] | None) -> str:
    chosen = tuple(fragment for fragment in fragments(subjects) if fragment.root or not only_root)
    parts = []
    for fragment in (*shared_reads.fragments(chosen), *chosen):
        call = ":"
        if fragment.script:
            parts.append(f"f_{fragment.name}() {{\n{fragment.script}\n}}\n")
            call = f"s {fragment.name}" + (f" {fragment.limit_bytes}" if fragment.limit_bytes else "")
        if fragment.works:
            call = (
                f"if {fragment.works}; then {call}; else a {fragment.name} {_quoted(fragment.broken)} 1; fi"
            )
        if fragment.needs:
            call = f"if {fragment.needs}; then {call}; else a {fragment.name} {_quoted(fragment.missing)}; fi"
        parts.append(call + "\n")
    return "".join(parts)


def _seconds(word: str) -> float | None:
    try:
        return decimal(word)
    except ValueError:
        return None


def _whole(word: str) -> int | None:
    try:
        return whole(word)
    except NotUnderstood:
        return None


def _root(section: Section) -> RootAccess:
    uid, _, rest = section.text.strip().partition(" ")
    way, _, detail = rest.partition(" ")
    if not is_whole(uid) or len(uid) > 10 or way not in ("root", "sudo", "none"):
        return RootAccess(-1, "none", "the probe could not tell which user it runs as")
    return RootAccess(int(uid), way, " ".join(detail.split()))


def split(output: str, nonce: str, subjects: frozenset[str] | None = None) -> Answer:
    """Split a node's output at the markers; what stands before the first one (a login's talk) is dropped.

    ``subjects`` are those that the node was asked about; the sections of all others say that they were not.

    Raises FactsError when the closing marker is missing: the probe did not run to its end.
    """
    before, found, after = output.partition(f"\n{nonce} done ")
    uptime, ended, _ = after.partition("\n")
    if not found or not ended:
        shown = " ".join(output.split(nonce, maxsplit=1)[0].split())[-300:]
        raise FactsError(
            "the probe did not run to its end" + (f"; the node said: {shown}" if shown else ""),
            hint="the node needs a POSIX shell called sh; see what `ssh NODE sh -c 'echo ok'` prints",
        )
    sections = Sections()
    name = limit = text = ""
    for piece in before.split(f"\n{nonce} ")[1:]:
        head, _, body = piece.partition("\n")
        words = head.split(" ")
        if words[0] == "begin" and len(words) == 3:
            (name, limit), text = words[1:], body
        elif words[0] == "end" and len(words) == 3 and words[1] == name:
            sections[name] = _section(name, limit, text, words[2], body)
            name = ""
        elif words[0] == "err" and len(words) == 2 and words[1] in sections and body.strip():
            sections[words[1]] = replace(sections[words[1]], error=body.strip()[:_ERROR_CHARACTERS])
    shared_reads.distribute(sections, fragments(subjects))
    for fragment in not_asked(subjects):
        sections[fragment.name] = Section(fragment.name, "", None, "the node was not asked")
    return Answer(sections, _root(sections["root"]), _seconds(uptime))


def _section(name: str, limit: str, text: str, status: str, error: str) -> Section:
    # A program whose output was cut dies of the closed pipe before it can say how it ended.
    most, exit_status = _whole(limit), _whole(status)
    cut = most is not None and len(text.encode()) >= most
    return Section(name, text, 0 if cut else exit_status, error.strip(), cut)
