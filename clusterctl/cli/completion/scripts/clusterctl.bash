# bash completion of clusterctl. Load it with: source <(clusterctl completion bash)
# shellcheck shell=bash
_clusterctl_complete() {
  local kind word
  COMPREPLY=()
  {
    read -r kind
    while IFS=$'\t' read -r word _; do
      # bash inserts a word as it is, and Enter would execute what is in it.
      case $kind-$word in
        words-*[!A-Za-z0-9_.,:=/@%+-]*) printf -v word %q "$word" ;;
      esac
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
