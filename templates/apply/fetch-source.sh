# fetch or check a source tree: ACTION URL REF TREE. A tree is whole, or it is not there.
set -e
tree=$4
mark="$2 $3"
case $1 in
  check) [ "$(cat "$tree/.clusterctl-source" 2>/dev/null)" = "$mark" ] ;;
  fetch)
    rm -rf "$tree.new"
    trap 'rm -rf "$tree.new"' EXIT
    # No question for a password, and no other program than git's own transports.
    export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=https:ssh:file GIT_CONFIG_NOSYSTEM=1
    git init -q "$tree.new"
    git -C "$tree.new" fetch -q --depth 1 -- "$2" "$3"
    git -C "$tree.new" -c advice.detachedHead=false checkout -q FETCH_HEAD
    rm -rf "$tree.new/.git" "$tree"
    printf '%s\n' "$mark" >"$tree.new/.clusterctl-source"
    mv "$tree.new" "$tree"
    ;;
esac
