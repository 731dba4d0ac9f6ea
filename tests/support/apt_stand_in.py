"""apt-get and dpkg-query over a directory of one file per installed package: the real ones would change this machine.

Texts of sh for ``str.format``: ``db`` is the directory (and the beginning of the names of flags beside it, such as
``.crash``), ``state`` the runner's state directory.
"""

from __future__ import annotations

APT_GET = """
db={db}
echo "$*" >>{db}.log
[ -n "$NEEDRESTART_SUSPEND" ] || echo "services are restarted" >>{db}.log
simulate= verb= names=
for word in "$@"; do
  case $word in
    -s) simulate=1 ;;
    -*|DPkg::*|Dpkg::*) ;;
    install|remove|purge|update) verb=$word ;;
    *) names="$names $word" ;;
  esac
done
[ ! -e {db}.locked ] || {{ echo "E: Could not get lock /var/lib/dpkg/lock-frontend" >&2; exit 100; }}
case $verb in
  update) touch {db}.updated; exit 0 ;;
  install)
    if [ -e {db}.rival ]; then
      echo "Remv rival [1.0]"
      case " $* " in *" --no-remove "*) echo "E: remove is disabled" >&2; exit 100 ;; esac
      [ -n "$simulate" ] || rm -f "$db/rival"
    fi
    [ -e {db}.updated ] || [ ! -e {db}.stale ] || {{ echo "E: Unable to locate package$names" >&2; exit 100; }}
    needed=libdep
    if [ -e {db}.renamed ]; then
      if [ -e {db}.updated ]; then needed=libdep2
      elif [ -z "$simulate" ]; then echo "E: Failed to fetch libdep.deb  404  Not Found" >&2; exit 100; fi
    fi
    for name in $names $needed; do
      [ -e "$db/$name" ] && continue
      echo "Inst $name (1.0 repo)"
      [ -n "$simulate" ] || touch "$db/$name"
      if [ -e {db}.crash ] && [ -z "$simulate" ]; then
        read -r runner _ <{state}/lock
        kill -9 "$runner" $$
      fi
    done
    if [ -e {db}.crash-late ] && [ -z "$simulate" ]; then
      read -r runner _ <{state}/lock
      kill -9 "$runner" $$
    fi ;;
  remove)
    [ -n "$simulate" ] || ls {state}/journal/run1/0001 >>{db}.log
    for name in $names; do
      echo "Remv $name [1.0]"
      [ -n "$simulate" ] || {{ rm -f "$db/$name"; touch "$db/$name.configured"; }}
    done
    [ ! -e {db}.dependent ] || echo "Remv dependent [1.0]"
    if [ -e {db}.crash ] && [ -z "$simulate" ]; then
      read -r runner _ <{state}/lock
      kill -9 "$runner" $$
    fi ;;
  purge) for name in $names; do rm -f "$db/$name" "$db/$name.configured"; done ;;
esac
"""
DPKG_QUERY = """
[ "$1" != -L ] || {{ cat {db}.files 2>/dev/null; exit; }}
[ "$1" = -W ] || exit 1
shift 3
missing=0
for name in "$@"; do
  if [ -e {db}/$name ]; then
    echo "$name $name:amd64 ii "
  elif [ -e {db}/$name.configured ]; then
    echo "$name $name:amd64 rc "
  else
    missing=1
  fi
done
exit $missing
"""
