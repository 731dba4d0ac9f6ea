#compdef clusterctl
# zsh completion of clusterctl. Load it after compinit with: source <(clusterctl completion zsh)
_clusterctl() {
  local -a answer values shown
  local line value description
  answer=("${(@f)$("${words[1]}" __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)IPREFIX}${(Q)PREFIX}" 2>/dev/null)}")
  case ${answer[1]} in
    files) _files; return ;;
    directories) _files -/; return ;;
    words) ;;
    *) return 1 ;;
  esac
  for line in "${(@)answer[2,-1]}"; do
    value=${line%%$'\t'*}
    description=${line#*$'\t'}
    values+=("$value")
    shown+=("$value${description:+  -- $description}")
  done
  compadd -U -V clusterctl -l -d shown -a values
}
compdef _clusterctl clusterctl
