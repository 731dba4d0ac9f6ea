# The only commands that the key of a distribution may run on a node: report the size of the archive, append, check.
# $1 directory, $2 sha256, $3 size in bytes; then the request, unless sshd passes it in SSH_ORIGINAL_COMMAND.
folder=$1 sum=$2 size=$3
shift 3
controller=1
# shellcheck disable=SC2086  # the request is words
[ $# -gt 0 ] || { controller=; set -- ${SSH_ORIGINAL_COMMAND:-}; }
umask 077
part=$folder/$sum.part whole=$folder/$sum.archive adder=${0%/*}/adder
silence_s=5 patience_s=60
have() {
  if [ -f "$whole" ]; then echo "$size"; elif [ -f "$part" ]; then wc -c < "$part"; else echo 0; fi
}
sending() { # -> $other, the process that adds for another sender
  other=$(cat "$adder" 2>/dev/null)
  [ -n "$other" ] && [ "$(cat "/proc/$other/comm" 2>/dev/null)" = head ]
}
silent() { # nothing of the sender arrived for seconds
  last=$({ stat -c %Y "$part"; stat -c %Y "$adder"; } 2>/dev/null | sort -n | tail -n 1)
  [ "$(($(date +%s) - ${last:-0}))" -ge "$silence_s" ]
}
case ${1-} in
  have)
    # The caller is about to send. An abandoned sender may still have an open connection (a node that lost power
    # closes nothing), and its late bytes must not mix with the new ones. Another node must not end one at work.
    while sending; do
      if [ -n "$controller" ] || silent; then kill "$other"; break; fi
      patience_s=$((patience_s - 1))
      [ "$patience_s" -ge 0 ] || { echo "another sender is at work" >&2; exit 1; }
      sleep 1
    done
    rm -f "$adder"
    have
    ;;
  add)
    # $2 offset of the piece, $3 its length: a piece at another offset would damage the archive. The numbers come from
    # another node, and bash executes commands inside arithmetic expressions.
    case ${2:-x}${3:-x} in *[!0-9]*) echo "expected two numbers for a piece" >&2; exit 1 ;; esac
    ! sending || { echo "another sender is at work" >&2; exit 1; }
    at=$(($(have)))
    [ "$at" -eq "$2" ] || { echo "the archive here has $at bytes, not $2" >&2; exit 1; }
    [ "$3" -le "$((size - at))" ] || { echo "the archive here lacks $((size - at)) bytes, not $3" >&2; exit 1; }
    exec 3<&0
    # The number is there before the first byte: the next sender may ask as soon as it sees some.
    # shellcheck disable=SC2016  # of the inner shell, which becomes head
    sh -c 'echo $$ > "$0" && exec head -c "$1"' "$adder" "$3" <&3 >> "$part" &
    wait $!
    status=$?
    [ "$status" -lt 128 ] || { echo "another sender has taken over" >&2; exit 1; }
    rm -f "$adder"
    [ "$status" -eq 0 ] || { rm -f "$part"; exit 1; }
    arrived=$(($(have) - at))
    [ "$arrived" -eq "$3" ] || { echo "only $arrived of $3 bytes arrived" >&2; exit 1; }
    ;;
  finish)
    [ -f "$whole" ] && exit 0
    at=$(($(have)))
    [ "$at" -ge "$size" ] || { echo "the archive here has $at of $size bytes" >&2; exit 1; }
    found=$(sha256sum < "$part" | cut -d ' ' -f 1)
    [ "$found" = "$sum" ] || { rm -f "$part"; echo "its checksum is $found, not $sum" >&2; exit 1; }
    mv "$part" "$whole"
    ;;
  *) echo "this key is for a distribution of clusterctl only" >&2; exit 1 ;;
esac
