#!/bin/busybox sh
# First process of a lab guest: loads the drivers of the root disk, makes the disk this node's own at its first
# boot, and hands over to systemd.
/bin/busybox --install -s /bin
export PATH=/bin
mkdir -p /proc /sys /dev /root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev

while read -r module; do
    insmod "/modules/$module" || echo "clusterctl lab: $module could not be loaded"
done < /modules/order

tries=0
until [ -b /dev/vda ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 600 ]; then
        echo "clusterctl lab: no root disk found"
        poweroff -f
    fi
    sleep 0.1
done
if ! mount -t ext4 -o rw,noatime /dev/vda /root; then
    echo "clusterctl lab: the root disk cannot be mounted"
    poweroff -f
fi

# Later boots keep what the node has become since, for instance its known_hosts and limits.
if [ ! -e /root/etc/clusterctl-lab-node ]; then
    tar -xf /node.tar -C /root
    hostname -F /root/etc/hostname
    : > /root/etc/clusterctl-lab-node
    sync
fi

mount -o move /dev /root/dev
umount /sys /proc
exec switch_root /root /lib/systemd/systemd
