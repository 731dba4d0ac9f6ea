# Runs mpiexec (sh hydra_output.sh MPIEXEC ...) and joins stdout and stderr into one stream. Hydra uses the same tag for both;
# this script changes the tag of stderr.
exec 3>&1
status=$(
  {
    { "$@" 2>&1 1>&3 4>&-; echo $? >&4; } | sed -u 's/\(\[@MARK@,[0-9]*\]<std\)out>:/\1err>:/g' >&3
  } 4>&1
)
exit "$status"
