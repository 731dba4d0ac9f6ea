# Runs srun (sh srun_output.sh SRUN ...) and joins stdout and stderr into one stream, in which each line's tag names its source.
exec 3>&1
status=$(
  {
    {
      { "$@" 4>&- 5>&-; echo $? >&4; } 2>&5 | sed -u 's/^ *\([0-9][0-9]*\): \{0,1\}/[@MARK@,\1]<stdout>:/' >&3
    } 5>&1 | sed -u 's/^ *\([0-9][0-9]*\): \{0,1\}/[@MARK@,\1]<stderr>:/' >&3
  } 4>&1
)
exit "$status"
