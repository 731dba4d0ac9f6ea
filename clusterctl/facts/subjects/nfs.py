"""NFS: the node's exports and mount units, and whether mounted exports answer."""

from __future__ import annotations

from dataclasses import replace

from clusterctl.facts.base import Fragment, Sections
from clusterctl.facts.model.host import ConfigLine
from clusterctl.facts.model.services import Mount
from clusterctl.facts.model.sharing import MountHealth, MountUnit, Nfs
from clusterctl.facts.subjects.limits import config_lines
from clusterctl.facts.subjects.storage import parse_mounts, unescaped
from clusterctl.text.foreign import is_whole, whole
from clusterctl.text.grouping import grouped
from clusterctl.text.secret.scrub import scrubbed

PATIENCE_S = 3
"""Seconds that a mounted export may take to answer before it counts as hung."""

# All mounts are tested at once, each by a background process. A process that waits for a dead server may be
# unkillable (state D), so it holds none of the probe's files open and is left behind if it does not end. An ended
# process shows as state Z in /proc until the shell waits for it. Nodes may have hundreds of mounts, so they are
# read only with an NFS client in the kernel or an automount that may need it. An automount that fstab lists as NFS
# is tested too, which mounts it like any access does; the type of other automounts is unknown, so they are skipped.
FRAGMENTS = (
    Fragment(
        "nfs",
        f"""\
grep -HsE '^[[:space:]]*[^#[:space:]]' /etc/exports /etc/exports.d/*.exports /var/lib/nfs/etab \\
  /etc/systemd/system/*.mount
{{ while read -r x v z; do [ "$x" = th ] && echo "threads $v"; done </proc/net/rpc/nfsd; }} 2>/dev/null
for f in /etc/systemd/system/*.wants/*.mount /etc/systemd/system/*.wants/nfs*server.service; do
  [ -L "$f" ] && printf 'wants %s\\n' "${{f##*/}}"
done
a=' '
{{ while read -r x v y z || [ "$x" ]; do
  case $x,$y in '#'*) ;; *,nfs|*,nfs4) a="$a${{v%/}} ";; esac
done </etc/fstab; }} 2>/dev/null
set --
while read -r x v y z; do
  case $y in
  nfs|nfs4) ;;
  autofs) case $a in *" $v "*) ;; *) continue;; esac;;
  *) continue;;
  esac
  f=$(printf '%b.' "$v"); f=${{f%.}}
  stat -f -- "$f" >/dev/null 2>&1 </dev/null 3>&- &
  set -- "$@" "$! $v"
done </proc/mounts
i=0
for v do
  p=${{v%% *}}; v=${{v#* }}; q=
  while :; do
    {{ read -r q </proc/$p/stat; }} 2>/dev/null || q=') Z'
    case ${{q##*)}} in ' Z'*) break;; esac
    [ $i -lt {PATIENCE_S * 20} ] || break
    i=$((i + 1)); sleep 0.05
  done
  case ${{q##*)}} in
  ' Z'*)
    wait $p; q=$?; f=$(printf '%b.' "$v"); f=${{f%.}}
    case $q in
    0) printf 'mount ok %s\\n' "$v";;
    127) ;;
    *) case $(t 2 stat -f -- "$f" 2>&1) in
       *[Ss]tale*) q=stale;;
       *'Permission denied'*|*'key not available'*|*'ey has expired'*) q=denied;;
       *) q=failed;;
       esac
       printf 'mount %s %s\\n' $q "$v";;
    esac;;
  *) kill -9 $p; printf 'mount hung %s\\n' "$v";;
  esac
done
a=' '
while read -r x v y z; do
  case $y,$v in
  autofs,/proc/*) continue;;
  autofs,*) a="$a$v ";;
  *) case $a in *" $v "*) ;; *) continue;; esac;;
  esac
  printf 'automount %s %s %s %s\\n' "$x" "$v" "$y" "${{z%% *}}"
done </proc/mounts
return 0""",
        needs="""n=
[ ! -e /etc/auto.master ] || n=1
{ while read -r x v y z || [ "$x" ]; do case $x,$y in '#'*) ;; *,nfs|*,nfs4) n=1;; esac; done </etc/fstab; } 2>/dev/null
[ ! -d /proc/fs/nfsfs ] || while read -r x v y z; do case $y in nfs|nfs4) n=1;; esac; done </proc/mounts
for f in /etc/exports /etc/exports.d/* /etc/systemd/system/*.mount; do [ -s "$f" ] && n=1; done; [ "$n" ]""",
        missing="the node neither exports nor mounts anything by NFS",
        limit_bytes=128 * 1024,
    ),
)


def _automounts(text: str) -> tuple[Mount, ...]:
    lines = [line.partition(" ")[2] for line in text.splitlines() if line.startswith("automount ")]
    # An automount's options hold process numbers, which would make all nodes differ.
    return tuple(replace(mount, options=()) for mount in parse_mounts("\n".join(lines))) if lines else ()


def parse(sections: Sections) -> Nfs:
    """Return the facts of the section ``nfs``; all fields are empty on a node without NFS."""
    section = sections["nfs"]
    units = grouped(
        (line.path.rsplit("/", 1)[-1], line.text) for line in config_lines(section, "/etc/systemd/system/")
    )
    words = [line.split(" ", 2) for line in section.text.splitlines()]
    threads = [whole(w[1]) for w in words if w[0] == "threads" and len(w) == 2 and is_whole(w[1])]
    wanted = {w[1] for w in words if w[0] == "wants" and len(w) == 2}
    exported = [line.text.split(None, 1) for line in config_lines(section, "/var/lib/nfs/etab")]
    return Nfs(
        exports=config_lines(section, "/etc/exports"),
        exported=tuple(ConfigLine(unescaped(w[0]), w[1]) for w in exported if len(w) == 2),
        server_threads=threads[0] if threads else None,
        server_enabled=any("server" in name for name in wanted if name.endswith(".service")),
        mount_units=tuple(
            MountUnit(name, scrubbed("".join(f"{line}\n" for line in lines)), name in wanted)
            for name, lines in sorted(units.items())
        ),
        # An automount and the file system mounted by it share one path, which is tested twice.
        health=tuple(
            dict.fromkeys(
                MountHealth(unescaped(w[2]), w[1]) for w in words if w[0] == "mount" and len(w) == 3
            )
        ),
        automounts=_automounts(section.text),
    )
