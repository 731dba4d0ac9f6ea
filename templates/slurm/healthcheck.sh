#!/bin/sh
# Keep jobs off a node whose hardware is at fault; written by clusterctl render slurm-healthcheck.
#
# In slurm.conf, either or both:
#   Prolog=/etc/slurm/clusterctl-healthcheck.sh              a fault drains the node and requeues the job
#   HealthCheckProgram=/etc/slurm/clusterctl-healthcheck.sh  a fault drains the node
#   HealthCheckInterval=600
#   HealthCheckNodeState=ANY,CYCLE
#
# Exit status 0: the node passed, or clusterctl itself could not run, which is not the node's fault.
# Exit status 1: a row failed or did not run.
set -u
PATH=$PATH:/usr/local/bin:/usr/bin:/bin
runs=${CLUSTERCTL_RUNS:-/var/lib/clusterctl/runs}
# Without an inventory, clusterctl acts on this machine.
unset CLUSTERCTL_INVENTORY
cd / || exit 0
log() { logger -t clusterctl-healthcheck -- "$1" 2>/dev/null || echo "$1" >&2; }

# slurmd ends a HealthCheckProgram after 60 seconds.
found=$(timeout 55 clusterctl -q accept @WORDS@ --runs "$runs" 2>&1 </dev/null)
status=$?
clusterctl -q runs prune --keep 20 --yes --runs "$runs" >/dev/null 2>&1
case $status in
  0) exit 0 ;;
  1) ;;
  *)
    log "clusterctl accept ended with $status, and the node was not judged: $found"
    exit 0
    ;;
esac
reason=$(printf '%s\n' "$found" | grep -m 1 -E '^(bad|not measured) ' | tr -s ' ' | cut -c 1-200)
log "${reason:-clusterctl accept failed}"
if [ -z "${SLURM_JOB_ID:-}" ]; then
  # slurmd ignores the exit status of a HealthCheckProgram.
  scontrol update NodeName="${SLURMD_NODENAME:-$(hostname -s)}" State=DRAIN \
    Reason="clusterctl: ${reason:-accept failed}"
fi
exit 1
