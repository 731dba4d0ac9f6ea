# bash completion of clusterctl. Load it with: source <(clusterctl completion bash)
# shellcheck shell=bash
_clusterctl_complete() {
  local kind word
  COMPREPLY=()
  {
    read -r kind
    while IFS=$'\t' read -r word _; do
      COMPREPLY+=("$word")
    done
  } < <("$1" __complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
  case $kind in
    files) compopt -o default 2>/dev/null ;;
    directories) compopt -o dirnames 2>/dev/null ;;
    words) compopt -o nosort 2>/dev/null ;;
  esac
  case ${COMPREPLY[0]-} in
    *=) compopt -o nospace 2>/dev/null ;;
  esac
}
complete -F _clusterctl_complete clusterctl
