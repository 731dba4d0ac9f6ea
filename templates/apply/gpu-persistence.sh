#!/bin/sh
# Written by clusterctl (requirement gpu-persistence): put every GPU into persistence mode.
# Where nvidia-persistenced runs, nvidia-smi asks it to; otherwise the driver's own mode is set.

PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin
# It hangs on a GPU that has fallen off the bus.
exec timeout -k 10 60 nvidia-smi -pm 1
