"""A real Slurm on this machine: munged, slurmctld and one slurmd per node, each with files and ports of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from free_ports import free_ports

CONF = Path("/etc/slurm/slurm.conf")
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo")


def missing() -> str | None:
    """Return why no Slurm can be started here, or None."""
    if os.geteuid() != 0:
        return "slurmd and munged need root"
    if CONF.exists():
        return f"{CONF} is there: this machine belongs to a Slurm cluster"
    if CONF.is_symlink():
        CONF.unlink()  # of a test that was killed, before a guard removed it
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)} (apt-get install slurmctld slurmd munge)" if absent else None


@dataclass
class SlurmCluster:
    """The daemons, and what a client needs: ``env`` with SLURM_CONF."""

    directory: Path
    nodes: tuple[str, ...]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    guard: subprocess.Popen[bytes] | None = None

    @property
    def env(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.directory / "slurm.conf")}

    def run(self, *argv: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's programs against this cluster."""
        return subprocess.run(
            argv, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=timeout_s, check=False,
            cwd=self.directory,
        )  # fmt: skip

    def log(self, name: str) -> str:
        """What one daemon has logged."""
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self, *argv: str) -> None:
        """Start one daemon in the foreground of a session of its own."""
        with (self.directory / f"{Path(argv[0]).name}.out").open("ab") as out:
            self.processes.append(
                subprocess.Popen(
                    argv, env={**os.environ, **self.env}, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                    start_new_session=True,
                )
            )  # fmt: skip

    def stop(self) -> None:
        """Cancel what runs, end every daemon by its process, and remove the files."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.run("scancel", "--user", "root", "--signal", "KILL", timeout_s=10)
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=10)
        shutil.rmtree(self.directory, ignore_errors=True)
        if self.guard is not None:
            self.guard.communicate(timeout=20)


_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.%n.pid
SlurmdSpoolDir={directory}/spool.%n
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
ReturnToService=2
KillWait=2
InactiveLimit=0
SlurmdParameters=config_overrides
PlugStackConfig={directory}/plugstack.conf
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


# Waits for the end of the test's process, however it ends: only then its standard input ends.
_GUARD = """\
read -r _
[ "$(readlink "$1")" != "$2/slurm.conf" ] || rm -f "$1"
for file in "$2"/*.pid; do
  [ ! -r "$file" ] || kill "$(cat "$file")" 2>/dev/null
done
[ ! -d "$2" ] || { sleep 2; rm -rf "$2"; }
exit 0
"""


def start_slurm(
    nodes: tuple[str, ...] = ("node01", "node02"), cpus: int = 4, plugstack: str = ""
) -> SlurmCluster:
    """Start a cluster of ``nodes`` that claim ``cpus`` cores each; RuntimeError with the logs when it does not come.

    ``plugstack`` is the list of SPANK plugins, as in plugstack.conf.
    """
    directory = Path(tempfile.mkdtemp(prefix="slurm-cluster-"))
    directory.chmod(0o755)
    for name in ("state", *(f"spool.{node}" for node in nodes)):
        (directory / name).mkdir()
    host = socket.gethostname().split(".")[0]
    port, *ports = free_ports(1 + len(nodes))
    lines = [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={own} CPUs={cpus} RealMemory=100 State=UNKNOWN"
        for node, own in zip(nodes, ports, strict=True)
    ]
    (directory / "slurm.conf").write_text(
        _CONF.format(host=host, port=port, directory=directory, nodes="\n".join(lines))
    )
    (directory / "plugstack.conf").write_text(plugstack)
    cluster = SlurmCluster(directory, nodes)
    cluster.guard = subprocess.Popen(
        ("sh", "-c", _GUARD, "sh", str(CONF), str(directory)), stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        _start_munge(cluster)
        cluster.start("slurmctld", "-D", "-i", "-f", f"{directory}/slurm.conf")
        for node in nodes:
            cluster.start("slurmd", "-D", "-N", node, "-f", f"{directory}/slurm.conf")
        _wait(cluster)
    except BaseException:
        cluster.stop()
        raise
    return cluster


@contextlib.contextmanager
def known_everywhere(nodes: tuple[str, ...], plugstack: str = "") -> Iterator[SlurmCluster]:
    """Give a cluster that commands over SSH find too, where Slurm's own look first; FileExistsError where one is."""
    cluster = start_slurm(nodes, plugstack=plugstack)
    linked = False
    try:
        CONF.parent.mkdir(parents=True, exist_ok=True)
        CONF.symlink_to(cluster.directory / "slurm.conf")
        linked = True
        yield cluster
    finally:
        if linked:
            CONF.unlink()
        cluster.stop()


HEADER = Path("/usr/include/slurm/spank.h")


def with_pyxis(folder: Path) -> str:
    """Return the plugstack of a plugin with the options of Pyxis, of an image that sets NCCL_ALGO itself.

    The plugin writes what it receives to the file ``record`` of this directory.
    """
    plugin = folder / "pyxis.so"
    source = Path(__file__).with_name("pyxis_stand_in.c")
    words = ("cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", plugin, source)
    subprocess.run(words, check=True, timeout=120)
    return f"required {plugin} {folder}/record NCCL_ALGO=image\n"


def with_enroot(folder: Path) -> str:
    """Return a PATH that begins with the stand-in of enroot, which writes the file ``record`` of its directory."""
    folder.mkdir()
    shutil.copy(Path(__file__).with_name("enroot_stand_in"), folder / "enroot")
    return f"{folder}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _start_munge(cluster: SlurmCluster) -> None:
    munge = pwd.getpwnam("munge") if os.geteuid() == 0 else None
    key = cluster.directory / "munge.key"
    subprocess.run(("mungekey", "-c", "-k", str(key)), check=True, timeout=20)
    key.chmod(0o400)
    assert munge is not None
    cluster.start(
        "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={cluster.directory}/munge.socket",
        f"--pid-file={cluster.directory}/munged.pid", f"--log-file={cluster.directory}/munged.log",
        f"--seed-file={cluster.directory}/munged.seed",
    )  # fmt: skip
    for _ in range(200):
        if (cluster.directory / "munge.socket").exists():
            return
        time.sleep(0.05)
    raise RuntimeError(f"munged does not answer: {(cluster.directory / 'munged.out').read_text()}")


def _wait(cluster: SlurmCluster, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        shown = cluster.run("sinfo", "-h", "-N", "-o", "%N %t")
        states = dict(line.split()[:2] for line in shown.stdout.splitlines() if len(line.split()) >= 2)
        if all(states.get(node) == "idle" for node in cluster.nodes):
            return
        if time.monotonic() > deadline or any(p.poll() is not None for p in cluster.processes):
            logs = {p.name: p.read_text()[-800:] for p in sorted(cluster.directory.glob("*.[lo][ou][gt]"))}
            raise RuntimeError(f"Slurm does not come up: {states} {shown.stderr} {logs}")
        time.sleep(0.2)
