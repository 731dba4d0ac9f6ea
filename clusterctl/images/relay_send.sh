# Sends the archive from this node to another, from where that one has it. Variables stand above this text.
ask() {
  ssh -F none -i "$WORK/key" -p "$PORT" -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=yes \
    -o "UserKnownHostsFile=$WORK/known_hosts" -o GlobalKnownHostsFile=/dev/null -o ConnectTimeout=10 \
    -o ServerAliveInterval=10 -o ServerAliveCountMax=3 -o Compression=no -o LogLevel=ERROR \
    -- "$ADDRESS" "$@"
}
export LC_ALL=C
at=$(ask have </dev/null) || exit 1
# The other node says so, and bash runs commands that stand in what it reckons with.
case $at in '' | *[!0-9]*) echo "it did not say how much it has" >&2; exit 1 ;; esac
if [ "$at" -lt "$SIZE" ]; then
  tail -c "+$((at + 1))" "$ARCHIVE" | ask "add $at $((SIZE - at))" || exit 1
fi
ask finish </dev/null || exit 1
echo "sent $((SIZE - at))"
