"""Find, describe and end every process of a launch on a node, by the launch's token."""

from __future__ import annotations

from dataclasses import dataclass

from clusterctl.text.foreign import is_whole, whole

# Ranks have the token in their environment, Open MPI's daemons in their command line.
_FIND = """
marked() {
  { grep -la "$TOKEN" /proc/[0-9]*/environ; grep -la "$TOKEN" /proc/[0-9]*/cmdline; } 2>/dev/null |
    sed 's,/proc/\\([0-9]*\\)/.*,\\1,' | sort -un | grep -vx "$$"
}
found() { marked; }
rank_of() {
  tr '\\0' '\\n' 2>/dev/null <"/proc/$1/environ" |
    sed -n 's/^OMPI_COMM_WORLD_RANK=//p;s/^PMI_RANK=//p;s/^RANK=//p;s/^SLURM_PROCID=//p' | head -n 1
}
"""

# Also what hides its environment (another account's, as under sudo) or has cleared it: all processes of the sessions
# that a process with the token leads.
_WHOLE_SESSIONS = """
leaders=" $(for pid in $(marked); do
  session=$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -d ' ' -f 4)
  [ "$session" != "$pid" ] || printf '%s ' "$pid"
done)"
found() {
  {
    marked
    sed -n 's/^\\([0-9]*\\) (.*) [^Z] [0-9]* [0-9]* \\([0-9]*\\) .*/\\1 \\2/p' /proc/[0-9]*/stat 2>/dev/null |
      while read -r pid session; do
        case "$leaders" in *" $session "*) echo "$pid" ;; esac
      done
  } | sort -un
}
"""

# Repeated until no rank is found: a rank may start a child during the search.
_KILL_RANKS = """
turn=0
left=yes
while [ -n "$left" ] && [ "$turn" -lt 20 ]; do
  left=
  for pid in $(found); do
    [ -z "$(rank_of "$pid")" ] || { left=yes; kill -KILL "$pid" 2>/dev/null; }
  done
  [ -z "$left" ] || sleep 0.1
  turn=$((turn + 1))
done
"""

_INSPECT = """
for pid in $(found); do
  rank=$(rank_of "$pid")
  [ -n "$rank" ] || continue
  printf '%s\\t%s\\t%s\\t%s\\n' "$pid" "$rank" \\
    "$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -c 1)" "$(cat "/proc/$pid/comm" 2>/dev/null)"
done
"""

# The launcher gets SIGTERM first, because it ends its ranks; remaining processes are killed after a grace time.
_END = """
for pid in $(found); do
  [ -n "$(rank_of "$pid")" ] || kill -TERM "$pid" 2>/dev/null
done
turn=0
while [ "$turn" -lt "$GRACE_TURNS" ] && [ -n "$(found)" ]; do
  sleep 0.5
  turn=$((turn + 1))
done
for pid in $(found); do
  kill -KILL "$pid" 2>/dev/null
done
turn=0
while [ "$turn" -lt 10 ] && [ -n "$(found)" ]; do
  sleep 0.2
  turn=$((turn + 1))
done
echo "left $(found | tr '\\n' ' ')"
"""

# Each rank's script passes SIGTERM on to its program and then ends with 0, so that no launcher kills the other ranks:
# Open MPI does so a second after the first one failed. SCRIPT is its name.
_ASK_PROGRAMS = """
asked=
for pid in $(found); do
  case $(tr '\\0' '\\n' 2>/dev/null <"/proc/$pid/cmdline" | sed -n 2p) in
    */"$SCRIPT") kill -USR1 "$pid" 2>/dev/null && asked="$asked $pid" ;;
  esac
done
turn=0
while [ -n "$asked" ] && [ "$turn" -lt "$SAVE_TURNS" ]; do
  sleep 0.5
  left=
  for pid in $asked; do
    [ -z "$(tr -d '\\0' 2>/dev/null <"/proc/$pid/cmdline")" ] || left="$left $pid"
  done
  asked=$left
  turn=$((turn + 1))
done
"""

_STATES = {
    "R": "running",
    "S": "waiting",
    "D": "waiting for a device",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "dead",
}


@dataclass(frozen=True, slots=True)
class RankProcess:
    """Hold one process of a rank: its id, the rank, and its state in words."""

    pid: int
    rank: int
    state: str


def _head(token: str) -> str:
    # A bracket around the first letter keeps grep from finding its own command line.
    return f"TOKEN='[{token[0]}]{token[1:]}'\n"


def kill_ranks_text(token: str) -> str:
    """Return sh text that kills every process of the launch's ranks on a node with SIGKILL."""
    return _head(token) + _FIND + _KILL_RANKS


def inspect_script(token: str) -> bytes:
    """Return sh text that lists the launch's ranks on a node."""
    return (_head(token) + _FIND + _INSPECT).encode()


def parse_inspection(text: str) -> tuple[RankProcess, ...]:
    """Parse the list of ranks on a node; malformed lines are skipped."""
    found = []
    for line in text.splitlines():
        words = line.split("\t")
        if len(words) >= 3 and is_whole(words[0]) and is_whole(words[1]):
            found.append(RankProcess(whole(words[0]), whole(words[1]), _STATES.get(words[2], words[2])))
    return tuple(found)


def end_script(token: str, grace_s: float) -> bytes:
    """Return sh text that ends the launch's processes on a node within about ``grace_s`` seconds and lists the rest."""
    return (f"GRACE_TURNS={int(grace_s * 2)}\n" + _head(token) + _FIND + _END).encode()


def end_programs_script(token: str, grace_s: float, script: str, save_s: float) -> bytes:
    """Return sh text that does the same for a user's programs, after SIGTERM and up to ``save_s`` seconds to save.

    ``script`` is the name of the file that runs each rank.
    """
    ask = f"SCRIPT={script}\nSAVE_TURNS={int(save_s * 2)}\n" + _ASK_PROGRAMS
    return (f"GRACE_TURNS={int(grace_s * 2)}\n" + _head(token) + _FIND + ask + _END).encode()


def end_command_script(token: str, grace_s: float) -> bytes:
    """Return sh text that does the same for a command, with all processes of its session."""
    return (f"GRACE_TURNS={int(grace_s * 2)}\n" + _head(token) + _FIND + _WHOLE_SESSIONS + _END).encode()
