# Hydra's remote shell, which it runs as sh -x hydra_ssh.sh HOST COMMAND: its -x is for ssh. The proxy that it starts carries the
# launch's mark, so that it can be found again; ports, users and keys are ssh_config's.
{ set +x; } 2>/dev/null
host=$1
shift
exec ssh -F "${0%/*}/ssh_config" "$host" "env @MARK@ $*"
