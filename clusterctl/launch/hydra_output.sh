# Runs mpiexec as sh hydra_output.sh MPIEXEC ... with its two outputs as one stream. Hydra tags the lines of both alike; those of
# the second are told apart here.
exec 3>&1
status=$(
  {
    { "$@" 2>&1 1>&3 4>&-; echo $? >&4; } | sed -u 's/\(\[@MARK@,[0-9]*\]<std\)out>:/\1err>:/g' >&3
  } 4>&1
)
exit "$status"
