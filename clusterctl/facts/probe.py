"""The probe: build the POSIX shell script that prints every section, and split a node's answer into sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from clusterctl.errors import FactsError
from clusterctl.facts import shared_reads
from clusterctl.facts.base import STATUS_ABSENT, STATUS_DENIED, Section, Sections
from clusterctl.facts.catalog import fragments, not_asked
from clusterctl.facts.model.host import RootAccess
from clusterctl.text.foreign import NotUnderstood, decimal, is_whole, whole

# Notes on the shell below, which must run in dash, busybox ash and bash:
# - The whole script is one function, called with empty standard input: a truncated script does nothing, and no
#   program can consume the rest of the script.
# - The output is collected and written at the end: hundreds of small writes would each become a packet, and
#   decrypting and reading those would be a third of the controller's work.
# - `s` runs a section's function in the shell itself, because forks are most of a probe's cost. Functions do not
#   rely on variables or the working directory of other functions. Errors are captured apart from the output in one
#   variable, with a marker before each section's, so no temporary file is needed. With a limit, `head` truncates the
#   output (fd 3), and the errors follow at the section's end.
# - `g` prints files, each line with its path; `n` accepts grep's statuses for no match and for a missing file.
# - `a` prints a section that is absent, or failed with the status $3, without any fork. `r` runs text as root if
#   possible.
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
elif [ @SUDO@ = no ]; then w='not root, and the inventory disables sudo (become: none)'
elif ! command -v sudo >/dev/null 2>&1; then w='not root, and sudo is not installed'
elif w=$(sudo -n true 2>&1); then W=sudo; w=
else w="not root, and sudo without a password was refused: $w"
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
    """The parsed output of a probe: its sections, how it became root, and the node's uptime at its end (seconds)."""

    sections: Sections
    root: RootAccess
    uptime_end_s: float | None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def build_script(
    nonce: str,
    *,
    allow_sudo: bool = True,
    only_root: bool = False,
    subjects: frozenset[str] | None = None,
    values: Mapping[str, str] | None = None,
) -> str:
    """Assemble the probe; ``nonce`` (unpredictable letters and digits) marks the sections' ends.

    ``only_root`` selects the sections whose output depends on root, for a second run with root access;
    ``subjects`` selects the sections of these subjects, and of the subjects that their parsers read. ``values`` are
    those of the fragments' ``variables``; raise KeyError for a name that no selected fragment reads.
    """
    prelude = (
        _PRELUDE.replace("@NONCE@", nonce)
        .replace("@ABSENT@", str(STATUS_ABSENT))
        .replace("@DENIED@", str(STATUS_DENIED))
        .replace("@SUDO@", "yes" if allow_sudo else "no")
    )
    given = _assignments(subjects, values or {})
    return prelude + given + _body(only_root, subjects) + _EPILOGUE.replace("@NONCE@", nonce)


def _assignments(subjects: frozenset[str] | None, values: Mapping[str, str]) -> str:
    """Return shell text that sets every variable of the fragments, whatever the node's environment holds."""
    names = sorted({name for fragment in fragments(subjects) for name in fragment.variables})
    unread = values.keys() - set(names)
    if unread:
        raise KeyError(", ".join(sorted(unread)))
    return "".join(f"{name}={_quoted(values.get(name, ''))}\n" for name in names)


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
        return RootAccess(-1, "none", "the probe could not determine which user it runs as")
    return RootAccess(int(uid), way, " ".join(detail.split()))


def split(output: str, nonce: str, subjects: frozenset[str] | None = None) -> Answer:
    """Split a node's output at the markers; the text before the first one (login messages) is dropped.

    ``subjects`` are the probed subjects; the sections of all other subjects read as not probed.

    Raise FactsError if the closing marker is missing: the probe did not run to its end.
    """
    before, found, after = output.partition(f"\n{nonce} done ")
    uptime, ended, _ = after.partition("\n")
    if not found or not ended:
        shown = " ".join(output.split(nonce, maxsplit=1)[0].split())[-300:]
        raise FactsError(
            "the probe did not run to its end" + (f"; the node printed: {shown}" if shown else ""),
            hint="the node needs a POSIX shell named sh; check that `ssh NODE sh -c 'echo ok'` prints ok",
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
        sections[fragment.name] = Section(fragment.name, "", None, "not probed")
    return Answer(sections, _root(sections["root"]), _seconds(uptime))


def _section(name: str, limit: str, text: str, status: str, error: str) -> Section:
    # A program whose output was truncated is killed by the closed pipe, so its exit status means nothing.
    most, exit_status = _whole(limit), _whole(status)
    cut = most is not None and len(text.encode()) >= most
    return Section(name, text, 0 if cut else exit_status, error.strip(), cut)
