#!/bin/sh
# Begins every session in a container with the variables that docker gave it.
. /etc/ssh/clusterctl/environment
if [ -n "${SSH_ORIGINAL_COMMAND:-}" ]; then
  exec "${SHELL:-/bin/sh}" -c "$SSH_ORIGINAL_COMMAND"
fi
exec "${SHELL:-/bin/sh}"
