# Hydra's remote shell. Hydra runs it as sh -x hydra_ssh.sh HOST COMMAND, with a -x that is meant for ssh. The remote proxy gets
# the launch's token, by which clusterctl finds it; ports, users and keys come from ssh_config.
{ set +x; } 2>/dev/null
host=$1
shift
exec ssh -F "${0%/*}/ssh_config" "$host" "env @MARK@ $*"
