# Takes away what a distribution made on this node. Variables stand above this text; KEEP=yes keeps a part for later.
umask 077
file=~/.ssh/authorized_keys
if [ -f "$file" ] && grep -q -F "clusterctl-$TOKEN" "$file"; then
  rest=$(mktemp "$file.XXXXXX") && { grep -v -F "clusterctl-$TOKEN" "$file" > "$rest" || :; } && cat "$rest" > "$file"
  rm -f "$rest"
  [ -s "$file" ] || [ ! -e "$BASE/$TOKEN/made_authorized_keys" ] || rm -f "$file"
fi
rm -rf "${BASE:?}/${TOKEN:?}"
[ -z "$SUM" ] || rm -f "$BASE/$SUM.archive"
[ -z "$SUM" ] || [ "$KEEP" = yes ] || rm -f "$BASE/$SUM.part"
rmdir "$BASE" 2>/dev/null || :
