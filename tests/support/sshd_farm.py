"""Real OpenSSH daemons on loopback addresses: the nodes of the integration tests and of the benchmarks.

Every node is an ``sshd`` of its own on its own 127.x.y.z address with its own log, so that a node can be
killed, refused or counted without touching the others. Nothing outside the farm's temporary directory and
/run/sshd is written. Only the standard library is used.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom

from free_ports import free_port

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
# Tests seed the generator that a process shares, and two workers would then choose the same names.
_CHANCE = SystemRandom()
_STARTED = re.compile(r"^Starting session: (\w+)", re.MULTILINE)
_CONNECTED = re.compile(r"^Connection from ", re.MULTILINE)


def missing() -> str | None:
    """Return why no farm can be made here, or None."""
    if os.geteuid() != 0:
        return "real sshd nodes need root"
    for program in (SSHD, "ssh-keygen"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return None


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """Make a key pair with ssh-keygen and return the private key's path."""
    subprocess.run(
        ("ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "sshd-farm", "-f", str(path)),
        check=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return path


def public_key(path: Path) -> str:
    """Return ``type base64`` of a private key's public half."""
    return " ".join(Path(f"{path}.pub").read_text().split()[:2])


def children_of(pid: int) -> list[int]:
    """Return a process's descendants, deepest last."""
    try:
        own = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    found = [int(word) for word in own]
    return found + [deeper for child in found for deeper in children_of(child)]


def end(pid: int) -> None:
    """Kill one process by its id; one that is gone already is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@dataclass
class SshdNode:
    """One node: where it listens, and its daemon when it has one."""

    name: str
    address: str
    port: int
    log: Path
    host_key: Path
    command: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    listener: socket.socket | None = None

    def start(self) -> None:
        """Start (or start again) this node's daemon."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self) -> None:
        """End the daemon, its connections and what they run: as if the machine had lost its power."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        if self.process is not None:
            descendants = children_of(self.process.pid)
            end(self.process.pid)
            self.process.wait(timeout=60)
            for pid in descendants:
                end(pid)
            self.process = None

    def drop_connections(self) -> int:
        """Kill the daemon's connection processes but not the daemon; return how many there were."""
        if self.process is None:
            return 0
        connections = [int(pid) for pid in _children_file(self.process.pid)]
        doomed = connections + [pid for c in connections for pid in children_of(c) if _is_sshd(pid)]
        for pid in doomed:
            end(pid)
        return len(connections)

    def log_text(self) -> str:
        """What the daemon has logged so far."""
        return self.log.read_text(errors="replace")

    @property
    def execs(self) -> int:
        """How many commands the node has been asked to run."""
        return sum(1 for kind in _STARTED.findall(self.log_text()) if kind == "command")

    @property
    def connections(self) -> int:
        """How many connections the node has accepted (the farm's own readiness probe makes none)."""
        return len(_CONNECTED.findall(self.log_text()))


def _children_file(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


def _is_sshd(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip().startswith("sshd")
    except OSError:
        return False


@dataclass
class Farm:
    """Nodes, and what a client needs to reach them."""

    directory: Path
    user: str
    nodes: list[SshdNode] = field(default_factory=list)

    @property
    def identity_file(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def authorized_keys(self) -> Path:
        return self.directory / "authorized_keys"

    @property
    def env(self) -> dict[str, str]:
        """Environment that makes clusterctl use the farm's known_hosts and no ssh_config of this machine."""
        return {
            "CLUSTERCTL_KNOWN_HOSTS": str(self.known_hosts),
            "CLUSTERCTL_SSH_CONFIG": str(self.directory / "ssh_config"),
        }

    def node(self, name: str) -> SshdNode:
        """Return the node of this name."""
        return next(node for node in self.nodes if node.name == name)

    def inventory(self, directory: Path, **defaults: object) -> Path:
        """Write an inventory of all nodes to ``directory`` and return its path; ``defaults`` are added as given."""
        settings: dict[str, object] = {
            "user": self.user, "port": self.nodes[0].port, "identity_file": str(self.identity_file), **defaults
        }  # fmt: skip
        lines = ["version: 1", "defaults:"]
        lines += [f"  {key}: {value}" for key, value in settings.items()]
        lines += ["nodes:"]
        for node in self.nodes:
            lines += [f"  - name: {node.name}", f"    address: {node.address}"]
        path = directory / "inventory.yaml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def stop(self) -> None:
        """End every daemon and remove the farm's directory."""
        for node in self.nodes:
            node.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def _config(directory: Path, extra: str) -> Path:
    path = directory / "sshd_config"
    lines = [
        "UsePAM no", "PermitRootLogin yes", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
        "StrictModes no", f"AuthorizedKeysFile {directory}/authorized_keys", "PidFile none",
        "LogLevel VERBOSE", "MaxStartups 2000", "MaxSessions 200", "UseDNS no", "PrintMotd no",
        "Subsystem sftp internal-sftp", "AllowTcpForwarding yes",
        # bash reads ~/.bashrc for every SSH command unless it takes itself for a nested shell; what this machine's
        # owner has put there (version managers: 0.1 s) is not the nodes'.
        "SetEnv SHLVL=1",
    ]  # fmt: skip
    banner = subprocess.run((SSHD, "-V"), capture_output=True, text=True, timeout=10, check=False).stderr
    version = re.search(r"OpenSSH_(\d+)\.(\d+)", banner)
    if version and (int(version[1]), int(version[2])) >= (9, 8):
        lines.append("PerSourcePenalties no")  # failed logins on purpose must not lock the loopback out
    if extra.startswith("SetEnv "):
        lines.remove("SetEnv SHLVL=1")  # the first one counts
    path.write_text("\n".join(lines) + "\n" + extra + "\n", encoding="utf-8")
    return path


# $0: directories; the rest is what runs. Nothing of it is seen outside, and all of it goes with the daemon.
_PRIVATE = 'for d in $0; do mkdir -p "$d" && mount -t tmpfs none "$d" || exit 1; done; exec "$@"'
HANG_S = "4713.9"
"""How long (s) grep takes on a ``hanging`` node; a number that finds its processes."""


def _hang(directory: Path) -> Path:
    folder = directory / "hang"
    folder.mkdir(exist_ok=True)
    program = folder / "grep"
    program.write_text(f"#!/bin/sh\nexec sleep {HANG_S}\n")
    program.chmod(0o755)
    return folder


def wait_for_listeners(nodes: list[SshdNode], timeout_s: float = 120.0) -> None:
    """Wait until the kernel lists every node's address as listening, without connecting to it."""
    deadline = time.monotonic() + timeout_s
    wanted = {
        "".join(f"{int(part):02X}" for part in reversed(node.address.split("."))) + f":{node.port:04X}"
        for node in nodes
    }
    while True:
        rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
        if not wanted - {row.split()[1] for row in rows if row.split()[3] == "0A"}:
            return
        dead = [node for node in nodes if node.process is not None and node.process.poll() is not None]
        if dead or time.monotonic() > deadline:
            culprit = (dead or nodes)[0]
            raise RuntimeError(f"sshd of {culprit.name} does not listen: {culprit.log_text()}")
        time.sleep(0.02)


def start_farm(
    n: int,
    *,
    user: str = "root",
    refusing: int = 0,
    silent: int = 0,
    changed: int = 0,
    unknown: int = 0,
    distinct_keys: bool = False,
    hanging: int = 0,
    sshd_config: str = "",
    prefix: str = "node",
    private: tuple[str, ...] = (),
) -> Farm:
    """Start ``n`` nodes. Beside them: ``refusing`` nodes where nothing listens, ``silent`` ones that never send
    a banner, ``changed`` ones whose host key is not the recorded one, ``unknown`` ones with no record at all,
    ``hanging`` ones on which grep never ends. Every node has the ``private`` directories for itself, empty, in memory.
    """
    directory = Path(tempfile.mkdtemp(prefix="sshd-farm-"))
    directory.chmod(0o755)  # sshd reads authorized_keys with the rights of the user who logs in
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    farm = Farm(directory, user)
    try:
        _populate(
            farm, n, refusing, silent, changed, unknown, hanging, distinct_keys, sshd_config, prefix, private
        )
    except BaseException:
        farm.stop()
        raise
    return farm


def _populate(
    farm: Farm, n: int, refusing: int, silent: int, changed: int, unknown: int, hanging: int,
    distinct_keys: bool, sshd_config: str, prefix: str, private: tuple[str, ...],
) -> None:  # fmt: skip
    directory = farm.directory
    make_key(farm.identity_file)
    farm.authorized_keys.write_text(public_key(farm.identity_file) + "\n")
    (directory / "ssh_config").write_text("")
    config = _config(directory, sshd_config)
    kinds = ["ok"] * n + ["refusing"] * refusing + ["silent"] * silent + ["changed"] * changed
    kinds += ["unknown"] * unknown + ["hanging"] * hanging
    block = _CHANCE.randint(16, 250)
    width = max(2, len(str(len(kinds))))
    addresses = [f"127.{block}.{i // 250}.{i % 250 + 1}" for i in range(len(kinds))]
    port = free_port()
    shared, other = make_key(directory / "host_key"), make_key(directory / "other_key")
    known = []
    for i, (kind, address) in enumerate(zip(kinds, addresses, strict=True)):
        name = f"{prefix}{i + 1:0{width}d}"
        key = make_key(directory / f"host_key_{i}") if distinct_keys else shared
        node = SshdNode(name, address, port, directory / f"{name}.log", key)
        node.log.touch()
        node.command = (
            SSHD, "-D", "-e", "-f", str(config), "-h", str(key), "-o", f"ListenAddress {address}:{port}"
        )  # fmt: skip
        if kind == "hanging":
            # The first SetEnv counts, and the command line comes before the file.
            node.command += ("-o", f"SetEnv SHLVL=1 PATH={_hang(directory)}:/usr/sbin:/usr/bin:/sbin:/bin")
        if private:
            node.command = ("unshare", "--mount", "sh", "-c", _PRIVATE, " ".join(private), *node.command)
        farm.nodes.append(node)
        if kind != "unknown":
            known.append(f"[{address}]:{port} {public_key(other if kind == 'changed' else key)}")
        if kind == "silent":
            node.listener = socket.create_server((address, port), backlog=64)
        elif kind != "refusing":
            node.start()
    farm.known_hosts.write_text("".join(f"{line}\n" for line in known))
    wait_for_listeners([node for node in farm.nodes if node.process is not None])


@dataclass(frozen=True)
class SystemUser:
    """A temporary account of this machine."""

    name: str
    password: str | None
    home: Path


@contextlib.contextmanager
def temporary_user(
    *, password: str | None = None, sudo: str | None = None, shell: str = "/bin/sh"
) -> Iterator[SystemUser]:
    """Make an account; ``sudo`` is its rule after ``user ALL=``, e.g. ``(ALL) NOPASSWD: ALL``. Removed after."""
    name = f"farm{_CHANCE.randint(10000, 99999)}"
    home = Path(tempfile.mkdtemp(prefix="sshd-farm-home-"))
    rule = Path("/etc/sudoers.d") / name
    subprocess.run(
        ("useradd", "-M", "-d", str(home), "-s", shell, name),
        check=True,
        timeout=30,
        stdout=subprocess.DEVNULL,
    )
    try:
        # "*" is "no password works", "!" would be "locked", which sshd without PAM refuses altogether.
        subprocess.run(("usermod", "-p", "*", name), check=True, timeout=30)
        if password is not None:
            subprocess.run(("chpasswd",), input=f"{name}:{password}\n".encode(), check=True, timeout=30)
        shutil.chown(home, name, name)
        if sudo is not None:
            rule.write_text(f"{name} ALL={sudo}\n")
            rule.chmod(0o440)
        yield SystemUser(name, password, home)
    finally:
        rule.unlink(missing_ok=True)
        subprocess.run(("userdel", "-f", name), stderr=subprocess.DEVNULL, check=False, timeout=30)
        shutil.rmtree(home, ignore_errors=True)
        Path("/run/sudo/ts", name).unlink(missing_ok=True)
        Path("/var/lib/sudo/lectured", name).unlink(missing_ok=True)
