"""The rows of the local disk and of NFS, measured by fio in a file that has no name while it is used."""

from __future__ import annotations

from clusterctl.acceptance.model import AcceptRow, NodeProgram, RowCommand, RowTool, Tier
from clusterctl.acceptance.outputs import fio
from clusterctl.facts.model.node import NodeFacts

# The file is removed before its first byte is written: the kernel frees it when fio ends, is killed, or the node
# crashes.
_LOCAL = """\
place=.
kind() { stat -f -c %T "$1" 2>/dev/null; }
case $(kind .) in
  tmpfs | ramfs) [ -w /var/tmp ] && place=/var/tmp ;;
esac
case $(kind "$place") in
  tmpfs | ramfs) echo "clusterctl: no room: no directory for temporary files is on a disk"; exit 0 ;;
esac
least=256 most=1024 share=4
"""
# All nodes write at the same time, each this much.
_SHARED = """\
kind() { stat -f -c %T "$1" 2>/dev/null; }
# Succeed if no other account can replace a file in a directory, as its owner can, and others without a sticky bit.
safe() {
  owner=$(stat -L -c %u "$1") && mode=$(stat -L -c %a "$1") || return 1
  [ "$owner" = 0 ] || [ "$owner" = "$(id -u)" ] || return 1
  [ $((0$mode & 022)) -eq 0 ] || [ $((0$mode & 01000)) -ne 0 ]
}
place= others=
for mount in "$@"; do
  [ -z "$place" ] && [ -w "$mount" ] || continue
  if safe "$mount"; then place=$mount; else others="$others $mount"; fi
done
if [ -z "$place" ]; then
  if [ -n "$others" ]; then
    echo "clusterctl: no room: another account could replace files in$others"
  else
    echo "clusterctl: no room: this login may not write to $*"
  fi
  exit 0
fi
least=65536 most=64 share=1024
"""
_MEASURE = """\
kind=$(kind "$place")
free=$(df -P -k "$place" | awk 'NR == 2 { print $4 }')
case $free in '' | *[!0-9]*) echo "clusterctl: no room: df does not report the free space"; exit 0 ;; esac
free=$((free / 1024))
if [ "$free" -lt "$least" ]; then
  echo "clusterctl: no room: $free MiB are free, and the row needs $least MiB"
  exit 0
fi
size=$((free / share))
[ "$size" -le "$most" ] || size=$most
echo "clusterctl: filesystem ${kind:-unknown}"
file=$(mktemp -u "$place/clusterctl-fio.XXXXXXXXXX") || exit 1
umask 077
# Opened once, by O_EXCL, which follows no link; then only the open file is used. The shell opens a pipe or a device
# that is there already without O_EXCL, so that the name is checked before, and the file behind it again.
foreign() { echo "another account put something at $file" >&2; exit 1; }
[ ! -e "$file" ] && [ ! -h "$file" ] || foreign
set -C
exec 3>"$file"
[ -f /proc/self/fd/3 ] || foreign
rm -f -- "$file"
truncate -s "${size}M" /proc/self/fd/3
exec fio --filename=/proc/self/fd/3 --size="${size}M" --direct=1 --ioengine=libaio --group_reporting \
  --output-format=json \
  --name=write --rw=write --bs=1M --iodepth=16 --end_fsync=1 --stonewall \
  --name=read --rw=read --bs=1M --iodepth=16 --runtime="$read_s" --time_based --stonewall \
  --name=randread --rw=randread --bs=4k --iodepth=64 --runtime="$random_s" --time_based --stonewall
"""
_READ_S, _RANDOM_S = 5, 10
_FIO = RowTool("fio", "install the package fio")


def argv(read_s: int = _READ_S, random_s: int = _RANDOM_S, mounts: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the command for the local disk, or for the first of the mounts that may be written."""
    script = f"read_s={read_s:d} random_s={random_s:d}\n{_SHARED if mounts else _LOCAL}{_MEASURE}"
    return ("sh", "-c", script, "sh", *mounts)


def nfs_mounts(facts: NodeFacts) -> tuple[str, ...]:
    """Return the directories on NFS that may be written."""
    mounts = facts.storage.mounts.or_else(())
    return tuple(one.target for one in mounts if one.fstype in ("nfs", "nfs4") and "rw" in one.options)


def _without_nfs(facts: NodeFacts) -> str:
    return "" if nfs_mounts(facts) else "the node has no NFS that may be written"


ROWS = (
    AcceptRow(
        "disk", "local disk: sequential writes and reads, random reads", Tier.PERFORMANCE,
        NodeProgram(lambda _: RowCommand(argv()), fio.parse, 180.0, (_FIO,)),
        hardware=lambda _: "local disk",
    ),
    AcceptRow(
        "nfs", "NFS, from all nodes at once: sequential writes and reads, random reads", Tier.PERFORMANCE,
        NodeProgram(
            lambda place: RowCommand(argv(mounts=nfs_mounts(place.facts))), fio.parse, 300.0, (_FIO,)
        ),
        _without_nfs, lambda _: "NFS",
    ),
)  # fmt: skip
