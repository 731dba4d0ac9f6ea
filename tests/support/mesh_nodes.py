"""Nodes with a network, files and an sshd of their own, made of namespaces: for logins from node to node.

A farm's nodes are one machine: they share homes and keys, and every connection between them comes from 127.0.0.1.
Here each node has its own address on a bridge (in a namespace too, so that no firewall of this machine sees it), and
its own /etc/ssh, /etc/clusterctl, /var/lib/clusterctl, /opt and home. Programs and accounts are this machine's.

The empty directories that these are mounted on stay behind: removing one would take what other tests' nodes have
mounted there, in namespaces that cannot be seen from here (mount_namespaces(7), "Restrictions on mount namespaces").
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import sshd_farm as farms

_SSHD_CONFIG = """\
Port {port}
HostKey /etc/ssh/ssh_host_ed25519_key
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
StrictModes yes
PidFile none
LogLevel VERBOSE
UseDNS no
PrintMotd no
SetEnv SHLVL=1
"""
_SETUP = """\
set -e
mount --bind "$1/etc-ssh" /etc/ssh
mkdir -p /etc/clusterctl /var/lib/clusterctl
mount --bind "$1/etc-clusterctl" /etc/clusterctl
mount --bind "$1/state" /var/lib/clusterctl
mount --bind "$1/opt" /opt
node=$1 home=$2 address=$3 sshd=$4
mount --bind "$node/nothing" "$5"
shift 5
while [ $# -gt 0 ]; do
  mount --bind "$2" "$node/home/$1"
  shift 2
done
mount --rbind "$node/home" "$home"
ip link set lo up
tries=0
until ip link show eth0 >/dev/null 2>&1; do
  tries=$((tries + 1)); [ $tries -lt 200 ] || exit 1
  sleep 0.05
done
ip addr add "$address/24" dev eth0
ip link set eth0 up
exec "$sshd" -D -e
"""


def missing() -> str | None:
    """Return why no such nodes can be made here, or None."""
    reason = farms.missing()
    if reason:
        return reason
    for program in ("ip", "unshare", "nsenter", "sudo"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    made = subprocess.run(
        ("unshare", "-n", "sh", "-c", "ip link add br0 type bridge && ip link add va0 type veth peer name vb0"),
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    return f"no bridge in a network namespace: {made.stderr.strip()}" if made.returncode else None


@dataclass
class MeshNode:
    """One node: its address, and the directory with what it has of its own."""

    name: str
    address: str
    port: int
    folder: Path
    process: subprocess.Popen[bytes]

    def run(
        self, *argv: str, user: str | None = None, timeout_s: float = 30
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the node as root, or as a user with a login's environment."""
        become = ("sudo", "-n", "-H", "-u", user, "--") if user else ()
        return subprocess.run(
            ("nsenter", "-t", str(self.process.pid), "-m", "-n", "--", *become, *argv),
            capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def kill_sessions(self) -> None:
        """Kill everything that runs on the node except its sshd, as a power loss does."""
        own = Path(f"/proc/{self.process.pid}/ns/mnt").readlink()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if path.name != str(self.process.pid) and (path / "ns/mnt").readlink() == own:
                    os.kill(int(path.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue

    def files(self) -> dict[str, tuple[str, bytes | str]]:
        """Return everything below the node's own directories, but for clusterctl's journal: mode and owner, content."""
        found: dict[str, tuple[str, bytes | str]] = {}
        for top in ("etc-ssh", "etc-clusterctl", "home", "opt"):
            for path in sorted((self.folder / top).rglob("*")):
                status = path.lstat()
                about = f"{status.st_mode:o} {status.st_uid}:{status.st_gid}"
                content = path.read_bytes() if path.is_file() else ""
                found[str(path.relative_to(self.folder))] = (about, content)
        return found


@dataclass
class Mesh:
    """The nodes, the account to log in to, and what the controller needs."""

    directory: Path
    user: farms.SystemUser
    prefix: str
    switch: subprocess.Popen[bytes]
    link: str
    nodes: list[MeshNode] = field(default_factory=list)

    @property
    def identity_file(self) -> Path:
        """The controller's key, which no node sees, not even as root."""
        return self.directory / "controller" / "id_ed25519"

    @property
    def env(self) -> dict[str, str]:
        """Environment that makes clusterctl use the mesh's known_hosts and no ssh_config of this machine."""
        return {
            "CLUSTERCTL_KNOWN_HOSTS": str(self.directory / "known_hosts"),
            "CLUSTERCTL_SSH_CONFIG": str(self.directory / "ssh_config"),
        }

    @property
    def own_address(self) -> str:
        """The address of this machine on the nodes' network: none of the nodes'."""
        return f"{self.prefix}.254"

    def stop(self) -> None:
        """End every daemon and with them the namespaces, their links and mounts; remove what was made."""
        for node in self.nodes:
            for pid in [*farms.children_of(node.process.pid), node.process.pid]:
                farms.end(pid)
            node.process.wait(timeout=10)
        self.switch.send_signal(signal.SIGKILL)
        self.switch.wait(timeout=10)
        subprocess.run(("ip", "link", "del", self.link), capture_output=True, timeout=10, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


def _ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True, timeout=10, capture_output=True)


def _folders(node: Path, port: int, user: farms.SystemUser, public_key: str, folders: Iterable[str]) -> None:
    own = ("etc-ssh/ssh_config.d", "etc-clusterctl", "state", "opt", "nothing", "home/.ssh")
    for name in (*own, *(f"home/{folder}" for folder in folders)):
        (node / name).mkdir(parents=True)
    farms.make_key(node / "etc-ssh" / "ssh_host_ed25519_key")
    (node / "etc-ssh" / "sshd_config").write_text(_SSHD_CONFIG.format(port=port))
    (node / "etc-ssh" / "ssh_config").write_text(
        "Include /etc/ssh/ssh_config.d/*.conf\n\nHost *\n    HashKnownHosts yes\n"
    )
    # The controller's key, and no newline at the end: what people leave behind.
    keys = node / "home" / ".ssh" / "authorized_keys"
    keys.write_text(f"# by hand\n{public_key} operator")
    keys.chmod(0o600)
    (node / "home" / ".ssh").chmod(0o700)
    (node / "home").chmod(0o750)
    for path in (node / "home", node / "home" / ".ssh", keys):
        shutil.chown(path, user.name, user.name)


def start_mesh(
    user: farms.SystemUser, ports: tuple[int, ...], folders: Mapping[str, Path] = MappingProxyType({})
) -> Mesh:
    """Start one node for each port; each has these directories of this machine in its home, by their names there."""
    directory = Path(tempfile.mkdtemp(prefix="mesh-nodes-"))
    directory.chmod(0o755)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    (directory / "controller").mkdir()
    farms.make_key(directory / "controller" / "id_ed25519")
    (directory / "ssh_config").write_text("")
    prefix = f"10.213.{os.getpid() % 250 + 1}"
    switch = subprocess.Popen(
        ("unshare", "-n", "sh", "-c", "ip link add br0 type bridge && ip link set br0 up && exec sleep 3600"),
        stdin=subprocess.DEVNULL,
    )
    mesh = Mesh(directory, user, prefix, switch, f"mesh{os.getpid() % 100000}")
    try:
        _wait(switch, "br0")
        _ip("link", "add", mesh.link, "type", "veth", "peer", "name", "up0", "netns", str(switch.pid))
        _plug(switch, "up0")
        _ip("addr", "add", f"{mesh.own_address}/24", "dev", mesh.link)
        _ip("link", "set", mesh.link, "up")
        for number, port in enumerate(ports, start=1):
            _start_node(mesh, number, port, folders)
        known = [
            f"[{node.address}]:{node.port} {farms.public_key(node.folder / 'etc-ssh' / 'ssh_host_ed25519_key')}"
            if node.port != 22
            else f"{node.address} {farms.public_key(node.folder / 'etc-ssh' / 'ssh_host_ed25519_key')}"
            for node in mesh.nodes
        ]
        (directory / "known_hosts").write_text("".join(f"{line}\n" for line in known))
        for node in mesh.nodes:
            _wait_for_sshd(node)
    except BaseException:
        mesh.stop()
        raise
    return mesh


def _plug(switch: subprocess.Popen[bytes], port: str) -> None:
    subprocess.run(
        ("nsenter", "-t", str(switch.pid), "-n", "ip", "link", "set", port, "master", "br0", "up"),
        check=True, timeout=10,
    )  # fmt: skip


def _wait(process: subprocess.Popen[bytes], interface: str) -> None:
    for _ in range(200):
        shown = ("nsenter", "-t", str(process.pid), "-n", "ip", "link", "show", interface)
        if subprocess.run(shown, capture_output=True, timeout=10, check=False).returncode == 0:
            return
        time.sleep(0.05)
    raise RuntimeError(f"{interface} did not appear in the namespace")


def _start_node(mesh: Mesh, number: int, port: int, folders: Mapping[str, Path]) -> None:
    name, address = f"gpu{number:02d}", f"{mesh.prefix}.{number}"
    folder = mesh.directory / name
    _folders(folder, port, mesh.user, farms.public_key(mesh.identity_file), folders)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            (
                "unshare", "-n", "-m", "sh", "-c", _SETUP, "node", str(folder), str(mesh.user.home), address,
                farms.SSHD, str(mesh.identity_file.parent),
                *(word for name, path in folders.items() for word in (name, str(path))),
            ),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    node = MeshNode(name, address, port, folder, process)
    mesh.nodes.append(node)
    namespace, own = Path(f"/proc/{process.pid}/ns/net"), Path("/proc/self/ns/net").readlink()
    for _ in range(200):
        if namespace.readlink() != own:
            break
        time.sleep(0.02)
    plug = f"n{number}"
    peer = ("peer", "name", "eth0", "netns", str(process.pid))
    _ip("link", "add", f"{mesh.link}n", "type", "veth", *peer)
    _ip("link", "set", f"{mesh.link}n", "netns", str(mesh.switch.pid), "name", plug)
    _plug(mesh.switch, plug)


def _wait_for_sshd(node: MeshNode) -> None:
    wanted = f"00000000:{node.port:04X}"
    for _ in range(400):
        rows = Path(f"/proc/{node.process.pid}/net/tcp").read_text().splitlines()[1:]
        if any(row.split()[1] == wanted and row.split()[3] == "0A" for row in rows):
            return
        if node.process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"sshd of {node.name} does not listen: {(node.folder / 'log').read_text()}")
