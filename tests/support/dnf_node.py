"""A node of the RHEL family as far as this machine can make one: Debian's own dnf and rpm in a system called Rocky.

What is real: dnf 4, librpm, the RPM database, the packages (``rpm_packages``), sshd, and every command that clusterctl
sends. What is not: the system below them is Debian's, its release file says Rocky Linux, apt and dpkg are taken out,
there is no systemd at work, and /sys shows an RDMA device that this machine does not have.

The node is an sshd in namespaces of its own (mounts, processes, host name), over a root filesystem that is built once
and kept in the lab's cache; what a node changes goes to a directory of its own and is removed with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import inspect
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import rpm_packages
from free_ports import free_port
from sshd_farm import make_key, public_key

from clusterctl.lab import host
from clusterctl.lab.recipe import cache_folder, current

TOOLS = {**host.BUILD_TOOLS, **host.SSH_TOOLS, **rpm_packages.TOOLS, "mount": "mount"}
PACKAGES = "ca-certificates,dnf,dnf-plugins-core,iproute2,kmod,openssh-server,procps,rpm"
RELEASE = """\
NAME="Rocky Linux"
VERSION="9.4 (a stand-in)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="9.4"
PLATFORM_ID="platform:el9"
PRETTY_NAME="Rocky Linux 9.4 (a stand-in: Debian's dnf)"
"""
REPOSITORY = "/srv/repository"
REPO_FILE = "/etc/yum.repos.d/stand-in.repo"
REPO = f"[stand-in]\nname=stand-in\nbaseurl=file://{REPOSITORY}\nenabled=1\ngpgcheck=0\n"
ADDRESS = "127.85.0.11"

# "$1" holds lower (the shared system), upper, work, root, sys and repository. The devices are those that sshd and
# shells use; nothing is mounted outside of this namespace.
START = """\
set -eu
cd "$1"
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" root
mount -t proc proc root/proc
mount --bind sys root/sys
mount -t tmpfs -o mode=755 tmpfs root/dev
mount -t tmpfs -o mode=755 tmpfs root/run
for device in 'null 1 3' 'zero 1 5' 'random 1 8' 'urandom 1 9' 'tty 5 0'; do
  set -- "$1" "$2" "$3" $device
  mknod -m 666 "root/dev/$4" c "$5" "$6"
done
mkdir root/dev/pts root/dev/shm root/dev/infiniband root/run/sshd
: >root/dev/infiniband/uverbs0
mount -t devpts -o newinstance,ptmxmode=666 devpts root/dev/pts
ln -s pts/ptmx root/dev/ptmx
mkdir -p root/srv/repository
mount --bind repository root/srv/repository
hostname rocky1
exec chroot root /usr/sbin/sshd -D -e -o ListenAddress="$3" -o UsePAM=no -o UseDNS=no -o PasswordAuthentication=no
"""


def ensure_root() -> Path:
    """Return the shared root filesystem; build it first (a minute) when there is none for this text."""
    recipe = current()
    text = "\0".join((PACKAGES, RELEASE, inspect.getsource(_build), repr(recipe.sources)))
    cache = cache_folder()
    done = cache / f"dnf-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "dnf-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for old in {*cache.glob("dnf-*"), cache / ".dnf-building"} - {done, cache / "dnf-lock"}:
            shutil.rmtree(old, ignore_errors=False) if old.is_dir() else None
        if not done.is_dir():
            _build(cache / ".dnf-building", recipe.suite, recipe.mirror)
            (cache / ".dnf-building").rename(done)
    return done


def _build(root: Path, suite: str, mirror: str | None) -> None:
    namespaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
    verified = ("--force-check-gpg", f"--keyring={host.DEBIAN_KEYRING}")
    argv = (
        *namespaces,
        "debootstrap",
        *verified,
        "--variant=minbase",
        f"--include={PACKAGES}",
        suite,
        str(root),
    )
    host.run((*argv, mirror) if mirror else argv, 1200)
    for pattern in (
        "usr/bin/apt*",
        "usr/bin/dpkg*",
        "etc/ssh/ssh_host_*",
        "etc/apt",
        "var/cache/apt",
        "var/lib/apt",
    ):
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    # Debian has all plugins in one package; RHEL has the one for locks in its own.
    for plugin in (
        *root.glob("usr/lib/python3/dist-packages/dnf-plugins/*.py"),
        *root.glob("etc/dnf/plugins/*.conf"),
    ):
        if plugin.stem != "versionlock":
            plugin.unlink()
    (root / "etc/os-release").unlink()
    (root / "etc/os-release").write_text(RELEASE)
    (root / "etc/yum.repos.d").mkdir(exist_ok=True)
    # Debian keeps the database in the home of the user who runs rpm.
    (root / "etc/rpm").mkdir(exist_ok=True)
    (root / "etc/rpm/macros").write_text("%_dbpath /var/lib/rpm\n")
    host.run((*namespaces, "chroot", str(root), "rpm", "--initdb"), 60)


@dataclass
class DnfNode:
    """The node at work."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def identity_file(self) -> Path:
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def ssh_argv(self, command: str) -> tuple[str, ...]:
        """Return OpenSSH's command line for a shell command line on the node."""
        return (
            "ssh", "-F", "none", "-i", str(self.identity_file), "-p", str(self.port),
            "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "LogLevel=ERROR",
            f"root@{ADDRESS}", "--", command,
        )  # fmt: skip

    def run(
        self, command: str, *, check: bool = True, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command line on the node."""
        done = subprocess.run(
            self.ssh_argv(command), capture_output=True, text=True, check=False, timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
        return done

    def output(self, command: str) -> str:
        """Return what a command line that must succeed writes to stdout."""
        return self.run(command).stdout.strip()

    def packages(self) -> list[str]:
        """Return all that the RPM database holds."""
        return sorted(self.output("rpm -qa").split())

    def repository_is(self, *, there: bool) -> None:
        """Let the node have its repository, or none at all, as a site without internet."""
        self.run(f"printf '%s' '{REPO}' >{REPO_FILE}" if there else f"rm -f {REPO_FILE}")
        self.run("dnf -q clean all")


@contextlib.contextmanager
def started(folder: Path, preinstalled: tuple[str, ...]) -> Iterator[DnfNode]:
    """Give a node with a repository of all packages, of which ``preinstalled`` are there already (and the release)."""
    root, port = ensure_root(), free_port()
    for name in ("upper", "work", "root", "sys", "scratch"):
        (folder / name).mkdir(parents=True)
    rpm_packages.build(rpm_packages.PACKAGES, folder / "repository", folder / "scratch")
    rpm_packages.make_repository(folder / "repository")
    port_folder = folder / "sys/class/infiniband/mlx5_0/ports/1"
    port_folder.mkdir(parents=True)
    values = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)"}
    for name, value in {**values, "link_layer": "InfiniBand", "lid": "0x1", "sm_lid": "0x1"}.items():
        (port_folder / name).write_text(f"{value}\n")
    (port_folder.parents[1] / "node_guid").write_text("946d:ae03:0000:0001\n")

    login, key = make_key(folder / "id_ed25519"), make_key(folder / "host_key")
    for path, source, mode in (
        ("etc/ssh/ssh_host_ed25519_key", key, 0o600),
        ("root/.ssh/authorized_keys", Path(f"{login}.pub"), 0o600),
    ):
        target = folder / "upper" / path
        target.parent.mkdir(parents=True)
        shutil.copyfile(source, target)
        target.chmod(mode)
    (folder / "upper/etc/ssh/sshd_config").write_text(f"Port {port}\nSubsystem sftp internal-sftp\n")
    (folder / "upper/root").chmod(0o700)
    (folder / "known_hosts").write_text(f"[{ADDRESS}]:{port} {public_key(key)}\n")
    namespaces = ("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child")
    argv = (*namespaces, "sh", "-c", START, "sh", str(folder), str(root), ADDRESS)
    with (folder / "log").open("wb") as log, subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log
    ) as process:  # fmt: skip
        node = DnfNode(folder, port, process)
        try:
            deadline = time.monotonic() + 30
            while node.run("true", check=False).returncode != 0:
                assert process.poll() is None and time.monotonic() < deadline, node.log
                time.sleep(0.1)
            node.repository_is(there=True)
            node.run(f"dnf -q -y install rocky-release {' '.join(preinstalled)}")
            yield node
        finally:
            process.kill()
            process.wait(30)
