"""List the contents of the lab's root filesystem, and compute the key of its cache."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from clusterctl import resources
from clusterctl.lab.apt_sources import SUITE, AptSource, choose, read_sources

# What every node has: a system that boots, answers SSH, and can build a kernel module (the headers are added for
# the kernel that is found). A bare node has nothing else. Python is there because Debian's installer brings it, and
# because compiling its library takes a guest without KVM minutes.
BARE_PACKAGES = (
    "systemd", "systemd-sysv", "udev", "dbus", "kmod", "procps", "util-linux", "busybox-static",
    "ca-certificates", "openssh-server", "openssh-client", "sudo", "iproute2", "iputils-ping",
    "gcc", "libc6-dev", "make", "python3",
)  # fmt: skip

# The packages of a node in use, with everything that a test may need on a node that is not bare: without KVM a guest
# would take 20 to 50 times as long as its host to install it.
MORE_PACKAGES = (
    "pciutils", "ethtool",
    # RDMA userspace and its tools
    "rdma-core", "ibverbs-providers", "ibverbs-utils", "librdmacm1", "perftest", "infiniband-diags",
    # what `accept` calls
    "fio", "stress-ng",
    # containers and MPI
    "docker.io", "iptables", "openmpi-bin",
    # libraries of a host CPython that is mounted into a container, and of its torch
    "libbz2-1.0", "libexpat1", "libffi8", "libgomp1", "liblzma5", "libncursesw6", "libreadline8",
    "libsqlite3-0", "libssl3", "libuuid1", "netbase", "tzdata", "zlib1g",
)  # fmt: skip

# What a bootstrap of bare nodes installs: kept beside the images, with all that they depend on, since guests reach
# no repository.
CARRIED_PACKAGES = (
    "pciutils", "docker.io", "chrony", "nfs-kernel-server", "nfs-common", "openmpi-bin",
    "rdma-core", "ibverbs-providers", "ibverbs-utils", "libibverbs1", "librdmacm1",
)  # fmt: skip

# Stock kernel, minus drivers for hardware that no lab node can have (half of its size).
KERNEL_PACKAGE = "linux-image-amd64"
PRUNED_MODULES = (
    "sound", "drivers/gpu", "drivers/media", "drivers/staging", "drivers/net/wireless", "drivers/isdn",
    "drivers/iio", "drivers/hwmon", "drivers/infiniband/hw", "drivers/bluetooth", "drivers/mtd",
    "net/bluetooth",
)  # fmt: skip

# Left out of the containers' image: they have the host's kernel, and no engine inside.
CONTAINER_EXCLUDES = (
    "./boot/*", "./usr/lib/modules/*", "./usr/src/*", "./usr/lib/gcc/*", "./usr/lib/linux-kbuild-*",
    "./var/lib/apt/lists/*", "./usr/bin/docker*", "./usr/bin/containerd*", "./usr/bin/ctr", "./usr/sbin/runc",
    "./usr/sbin/dockerd",
)  # fmt: skip

# Units that slow guests do not need.
MASKED_UNITS = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
    "e2scrub_reap.service", "fstrim.timer", "getty@tty1.service", "systemd-networkd-wait-online.service",
)  # fmt: skip

DISK_SIZE = "8G"
USER = "lab"
USER_ID = 1000

_TEMPLATES = ("init.sh", "rxe.service", "dpkg.cfg", "sshd.conf")
_BUILDERS = ("recipe.py", "rootfs.py", "rootfs_steps.py", "initramfs.py")


@dataclass(frozen=True, slots=True)
class LabRecipe:
    """The inputs of a build. ``sources`` is empty where debootstrap's own default mirror is used."""

    suite: str
    sources: tuple[AptSource, ...]
    key: str

    @property
    def mirror(self) -> str | None:
        """The mirror for debootstrap; None: its own default."""
        return self.sources[0].uri if self.sources else None


def current() -> LabRecipe:
    """Return the recipe for this machine; its key changes with the packages, the mirror and the steps."""
    sources = choose(read_sources())
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.line().encode() + b"\0")
    for name in _TEMPLATES:
        digest.update(resources.text("templates", "lab", name).encode() + b"\0")
    for name in _BUILDERS:
        digest.update(Path(__file__).with_name(name).read_bytes() + b"\0")
    return LabRecipe(SUITE, sources, digest.hexdigest()[:16])


def cache_folder() -> Path:
    """Return the directory that holds the built root filesystems (XDG base directory specification)."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(home) / "clusterctl" / "lab"
