# Runs srun as sh srun_output.sh SRUN ... with its two outputs as one stream, whose lines say which of the two each was.
exec 3>&1
status=$(
  {
    {
      { "$@" 4>&- 5>&-; echo $? >&4; } 2>&5 | sed -u 's/^ *\([0-9][0-9]*\): \{0,1\}/[@MARK@,\1]<stdout>:/' >&3
    } 5>&1 | sed -u 's/^ *\([0-9][0-9]*\): \{0,1\}/[@MARK@,\1]<stderr>:/' >&3
  } 4>&1
)
exit "$status"
