# Sends the archive from this node to another, after the bytes that it has. Variables are set above this text.
ask() {
  ssh -F none -i "$WORK/key" -p "$PORT" -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=yes \
    -o "UserKnownHostsFile=$WORK/known_hosts" -o GlobalKnownHostsFile=/dev/null -o ConnectTimeout=10 \
    -o ServerAliveInterval=10 -o ServerAliveCountMax=3 -o Compression=no -o LogLevel=ERROR \
    -- "$ADDRESS" "$@"
}
export LC_ALL=C
at=$(ask have </dev/null) || exit 1
# The number comes from the other node, and bash executes commands inside arithmetic expressions.
case $at in '' | *[!0-9]*) echo "the other node reported no size of the archive" >&2; exit 1 ;; esac
if [ "$at" -lt "$SIZE" ]; then
  tail -c "+$((at + 1))" "$ARCHIVE" | ask "add $at $((SIZE - at))" || exit 1
fi
ask finish </dev/null || exit 1
echo "sent $((SIZE - at))"
