# Runs a program of the user as a rank (sh program_rank.sh DIRECTORY PATHS PROGRAM ...): in DIRECTORY, if the node has it, with
# PATHS before PATH, and with the variables that torchrun sets under every launcher. It reports a failure, and ends what the
# program leaves behind.
directory=$1 paths=$2
shift 2
if [ -z "$TORCHELASTIC_RUN_ID" ]; then
  RANK=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-${RANK:-0}}}}
  WORLD_SIZE=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-${SLURM_NTASKS:-${WORLD_SIZE:-1}}}}
  LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${SLURM_LOCALID:-${LOCAL_RANK:-0}}}}
  export RANK WORLD_SIZE LOCAL_RANK
fi
[ -z "$paths" ] || PATH=$paths:$PATH
[ -z "$directory" ] || cd "$directory" 2>/dev/null || :
# Launchers read a word ":" themselves, so it arrives as "\:", and "\:" as "\\:".
for word; do
  shift
  case $word in
    *[!\\:]* | *:?* | *[!:]) ;;
    \\*) word=${word#?} ;;
  esac
  set -- "$@" "$word"
done
# What the program starts is found by the token of the launch.
mine=CLUSTERCTL_PROGRAM=$CLUSTERCTL_LAUNCH.$RANK.
child='' ended=''
trap 'ended=yes; [ -z "$child" ] || kill -TERM $child 2>/dev/null' TERM
# clusterctl ends the launch: the launcher must not kill the other ranks because this one has failed.
trap 'ended=0; [ -z "$child" ] || kill -TERM $child 2>/dev/null' USR1
env "$mine" "$@" </dev/null &
child=$!
[ -z "$ended" ] || kill -TERM $child 2>/dev/null
wait $child 2>/dev/null
code=$?
# The signal ends the wait, but not the program, which may save its state before it ends.
while [ -n "$ended" ]; do
  wait $child 2>/dev/null
  status=$?
  # The shell reports the status of a process once.
  [ $status -ne 127 ] || break
  code=$status
  kill -0 $child 2>/dev/null || break
done
# A child that the program left holds the output open, and the launcher would wait for it.
# shellcheck disable=SC2013
for pid in $(grep -Fla "$mine" /proc/[0-9]*/environ 2>/dev/null | sed 's,/proc/\([0-9]*\)/.*,\1,'); do
  name=$(cat "/proc/$pid/comm" 2>/dev/null) && kill -KILL "$pid" 2>/dev/null &&
    printf '\nprogram_rank: rank %s left %s (pid %s)\n' "$RANK" "$name" "$pid" >&2
done
# A rank that the launcher ends is not the first that failed.
[ "$ended" != 0 ] || code=0
[ $code -eq 0 ] || [ -n "$ended" ] ||
  printf '\nprogram_rank: rank %s on %s exited with status %s\n' "$RANK" "$(uname -n)" "$code" >&2
exit $code
