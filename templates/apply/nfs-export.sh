# export or withdraw a folder: ACTION FOLDER OPTIONS CLIENT..., where +CLIENT may mount it, -CLIENT may not (any more),
# and =CLIENT is one that a file of others lets in; withdraw takes an export of +CLIENT and -CLIENT back. Only what is
# clusterctl's own is exported and withdrawn: exports that stand in no file (by hand, by a cluster manager) and other
# files of exports(5), wrong lines of theirs included, are left alone. So no -r, which withdraws the former, and -i,
# which does not read the latter.
action=$1
folder=$2
options=$3
shift 3
exported() { # whole words: the export of /srv/data is none of /data
  client=$1 folder=$folder awk -F '\t' '$1 == ENVIRON["folder"] && index($2, ENVIRON["client"] "(") == 1 { found = 1 }
    END { exit !found }' /var/lib/nfs/etab
}
of() {
  case $1 in
    *:*) echo "[$1]:$folder" ;;
    *) echo "$1:$folder" ;;
  esac
}
withdraw() { ! exported "$1" || exportfs -u "$(of "$1")"; }
case $action in
  export)
    for client in "$@"; do
      case $client in
        +*) exportfs -i -o "$options" "$(of "${client#+}")" || exit 1 ;;
        -*) withdraw "${client#-}" || exit 1 ;;
      esac
    done
    # exportfs says nothing of some failures: what counts is the table that mountd goes by.
    for client in "$@"; do
      case $client in
        [+=]*) exported "${client#[+=]}" || { echo "$folder is not exported to ${client#[+=]}" >&2; exit 1; } ;;
        -*) ! exported "${client#-}" || { echo "$folder is still exported to ${client#-}" >&2; exit 1; } ;;
      esac
    done
    ;;
  withdraw)
    command -v exportfs >/dev/null || exit 0
    # The clients are undone at the same time: let them unmount first.
    case " $*" in *' +'*) tries=0 ;; *) tries=20 ;; esac
    while [ "$tries" -lt 20 ] && [ -n "$(ls /proc/fs/nfsd/clients 2>/dev/null)" ]; do
      tries=$((tries + 1))
      sleep 1
    done
    for client in "$@"; do
      case $client in
        +*) withdraw "${client#+}" || exit 1 ;;
        -*) exportfs -i -o "$options" "$(of "${client#-}")" || exit 1 ;;
      esac
    done
    ;;
esac
