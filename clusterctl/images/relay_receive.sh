# All that the key of a distribution may do on a node: ask how much of the archive is there, add to it, check it.
# $1 folder, $2 sha256, $3 size in bytes; then the request, or none when sshd was asked for it.
folder=$1 sum=$2 size=$3
shift 3
# shellcheck disable=SC2086  # the request is words
[ $# -gt 0 ] || set -- ${SSH_ORIGINAL_COMMAND:-}
umask 077
part=$folder/$sum.part whole=$folder/$sum.archive adder=${0%/*}/adder
have() {
  if [ -f "$whole" ]; then echo "$size"; elif [ -f "$part" ]; then wc -c < "$part"; else echo 0; fi
}
case $1 in
  have)
    # Who asks is about to send: a sender before it was given up, but its line may still be open (a node without power
    # closes nothing), and what it might yet send must not get between.
    other=$(cat "$adder" 2>/dev/null)
    [ -n "$other" ] && [ "$(cat "/proc/$other/comm" 2>/dev/null)" = cat ] && kill "$other"
    rm -f "$adder"
    have
    ;;
  add)
    # $2 where the piece begins, $3 its length: a piece of another round would spoil what is there. Another node says so,
    # and bash runs commands that stand in what it reckons with.
    case ${2:-x}${3:-x} in *[!0-9]*) echo "a piece is told by two numbers" >&2; exit 1 ;; esac
    at=$(($(have)))
    [ "$at" -eq "$2" ] || { echo "the archive here has $at bytes, not $2" >&2; exit 1; }
    exec 3<&0
    cat <&3 >> "$part" &
    echo $! > "$adder"
    wait $!
    status=$?
    [ "$status" -lt 128 ] || { echo "another sender has taken over" >&2; exit 1; }
    rm -f "$adder"
    [ "$status" -eq 0 ] || { rm -f "$part"; exit 1; }
    at=$(($(have)))
    [ "$at" -eq $(($2 + $3)) ] || { echo "only $((at - $2)) of $3 bytes arrived" >&2; exit 1; }
    ;;
  finish)
    [ -f "$whole" ] && exit 0
    found=$(sha256sum < "$part" | cut -d ' ' -f 1)
    [ "$found" = "$sum" ] || { rm -f "$part"; echo "its checksum is $found, not $sum" >&2; exit 1; }
    mv "$part" "$whole"
    ;;
  *) echo "this key is for a distribution of clusterctl only" >&2; exit 1 ;;
esac
