#!/bin/sh
# A lab node with a docker engine of its own: its control groups made writable, the engine, then sshd in this place.
set -e
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  # Version 2 gives controllers only to groups whose parent has no processes (cgroups(7)).
  mount -o remount,bind,rw /sys/fs/cgroup
  mkdir -p /sys/fs/cgroup/node
  # shellcheck disable=SC2013  # all numbers are read before the first process moves
  for pid in $(cat /sys/fs/cgroup/cgroup.procs); do
    echo "$pid" > /sys/fs/cgroup/node/cgroup.procs 2>/dev/null || :
  done
  sed 's/\([a-z]\+\)/+\1/g' /sys/fs/cgroup/cgroup.controllers > /sys/fs/cgroup/cgroup.subtree_control
else
  for group in /sys/fs/cgroup/*; do
    mount -o remount,bind,rw "$group"
  done
fi
# Left by a power cut, which empties a real node's /run: the process ids in there may be others' by now, and an engine
# that finds its containerd's taken waits for that one for ever.
rm -rf /run/docker.pid /run/docker
# Containers share the node's network: the engine needs no bridge and no packet filter.
dockerd --bridge=none --iptables=false --ip6tables=false > /var/log/dockerd.log 2>&1 < /dev/null &
exec /usr/sbin/sshd -D -e
