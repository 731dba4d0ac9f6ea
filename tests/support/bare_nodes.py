"""Bare nodes: the root filesystem of the lab's bare guests with a real sshd, in namespaces instead of a guest.

Each node has its own files (an overlay in memory on the lab's image), processes, network and host name, and nothing
but what an installer leaves. To programs that look it is a container: what takes a kernel of its own does not apply.
The packages that the lab carries for its guests are a repository of each node. The nodes' network is in a namespace of
its own, where the controller has an address, too, and may be any. Needs root; all is gone afterwards.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bridged_nodes
import sshd_farm

from clusterctl.lab import rootfs

_START_S = 120
_MBIT = 10_000
# $1: the node's name, $2: an empty directory, $3: the lab's image, $4: the repository, $5: the key that may log in.
_INSIDE = """\
set -e
hostname "$1"
mount -t tmpfs none "$2"
mkdir "$2/image" "$2/upper" "$2/work" "$2/root"
mount -o loop,ro,noload "$3" "$2/image"
mount -t overlay overlay -o "lowerdir=$2/image,upperdir=$2/upper,workdir=$2/work" "$2/root"
cd "$2/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs none run
mkdir run/sshd
mkdir -p srv/debian root/.ssh
mount --bind "$4" srv/debian
echo 'deb [trusted=yes] file:/srv/debian ./' >etc/apt/sources.list
echo "$1" >etc/hostname
cat "$5" >root/.ssh/authorized_keys
chmod 700 root/.ssh
chroot . ssh-keygen -q -A
exec chroot . /usr/sbin/sshd -D -e -o UseDNS=no
"""


def missing() -> str | None:
    """Return what this machine lacks for such nodes, or None."""
    if shutil.which("dpkg-scanpackages") is None:
        return "dpkg-scanpackages is not installed (apt-get install dpkg-dev)"
    return bridged_nodes.missing()


@dataclass(frozen=True)
class BareNodes:
    """The nodes, and the machine from which clusterctl reaches them."""

    farm: sshd_farm.Farm
    hub: str

    @property
    def controller(self) -> tuple[str, ...]:
        """The words before a command that runs in the nodes' network."""
        return ("ip", "netns", "exec", self.hub)

    def output(self, address: str, script: str) -> str:
        """Return what a script prints on a node, as root."""
        unchecked = (
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "LogLevel=ERROR",
        )
        login = ("ssh", "-F", str(self.farm.directory / "ssh_config"), *unchecked, f"root@{address}")
        return subprocess.run(
            (*self.controller, *login, script), capture_output=True, text=True, timeout=300, check=True
        ).stdout


@contextlib.contextmanager
def bare_nodes(count: int, network: str = "10.0.0", prefix: str = "gpu") -> Iterator[BareNodes]:
    """Start nodes ``gpu01`` and so on at ``10.0.0.1`` and so on; the controller has ``10.0.0.254``."""
    image = rootfs.ensure()
    token = f"bare{os.getpid() % 100000}"
    directory = Path(tempfile.mkdtemp(prefix="bare-nodes-"))
    farm, hub = sshd_farm.Farm(directory, "root"), f"{token}-hub"
    spaces: list[str] = []
    try:
        sshd_farm.make_key(farm.identity_file)
        farm.authorized_keys.write_text(sshd_farm.public_key(farm.identity_file) + "\n")
        (directory / "ssh_config").write_text(f"Host {network}.*\n  IdentityFile {farm.identity_file}\n")
        repository = _repository(image.packages, directory / "debian")
        bridged_nodes.add_space(hub, spaces)
        for words in (
            ("link", "add", "br0", "type", "bridge"),
            ("addr", "add", f"{network}.254/24", "dev", "br0"),
            ("link", "set", "br0", "up"),
        ):
            bridged_nodes.run("ip", "-n", hub, *words)
        for index in range(1, count + 1):
            space, name, address = f"{token}-{index}", f"{prefix}{index:02d}", f"{network}.{index}"
            bridged_nodes.add_space(space, spaces)
            bridged_nodes.join(space, hub, 0, index, address, _MBIT)
            folder = directory / name
            folder.mkdir()
            node = sshd_farm.SshdNode(name, address, 22, directory / f"{name}.log", folder / "unused")
            node.command = (
                *("ip", "netns", "exec", space, "unshare"),
                *("--uts", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", _INSIDE, "sh"),
                *(name, str(folder), str(image.bare_disk), str(repository), str(farm.authorized_keys)),
            )
            node.log.touch()
            farm.nodes.append(node)
            node.start()
        for node in farm.nodes:
            _wait(node)
        yield BareNodes(farm, hub)
    finally:
        farm.stop()
        for space in spaces:
            bridged_nodes.run("ip", "netns", "del", space)


def _repository(packages: Path, folder: Path) -> Path:
    """Make an apt repository of a directory of packages."""
    folder.mkdir()
    for package in packages.glob("*.deb"):
        shutil.copyfile(package, folder / package.name)
    index = subprocess.run(
        ("dpkg-scanpackages", "-m", "."), cwd=folder, capture_output=True, text=True, timeout=120, check=True
    ).stdout
    (folder / "Packages").write_text(index)
    return folder


def _wait(node: sshd_farm.SshdNode) -> None:
    deadline = time.monotonic() + _START_S
    while "Server listening" not in node.log_text():
        assert node.process is not None and node.process.poll() is None, node.log_text()
        assert time.monotonic() < deadline, node.log_text()
        time.sleep(0.05)
