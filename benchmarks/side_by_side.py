"""What the benchmark scripts share: rivals run alternately on the same nodes, their cost, and one table of ratios."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import sshd_farm
from sshd_farm import Farm

CLUSTERCTL = str(Path(sys.executable).parent / "clusterctl")
_DEADLINE_S = 1200


@dataclass
class Rival:
    """One command line, and what its rounds took: wall and CPU seconds, and the greatest resident set (MB)."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    good_exits: tuple[int, ...] = (0,)
    proof: Callable[[str], None] = lambda output: None
    """Raises SystemExit when the output does not show that the work was done on every node."""
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)

    def run(self, log: Path) -> str:
        """Run once, note its cost with that of all its children, and return standard output."""
        with log.open("w+") as out, log.with_suffix(".err").open("w+") as err:
            # Files, not pipes: nothing that stays behind can keep us waiting.
            began = time.perf_counter()
            process = subprocess.Popen(
                self.argv, env={**_as_installed(), **self.env}, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                cwd=log.parent,
            )  # fmt: skip
            _, status, usage = _wait(process.pid, began + _DEADLINE_S)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.wall_s.append(time.perf_counter() - began)
            self.cpu_s.append(usage.ru_utime + usage.ru_stime)
            self.peak_mb.append(usage.ru_maxrss / 1024)
            out.seek(0)
            err.seek(0)
            output = out.read()
            if process.returncode not in self.good_exits:
                raise SystemExit(
                    f"{self.name} ended with status {process.returncode}: {err.read()[-2000:]}{output[-500:]}"
                )
        self.proof(output)
        return output

    def forget(self) -> None:
        """Drop the rounds so far."""
        for samples in (self.wall_s, self.cpu_s, self.peak_mb):
            samples.clear()

    @property
    def wall(self) -> float:
        """Median wall time (s)."""
        return statistics.median(self.wall_s)

    @property
    def cpu(self) -> float:
        """Median CPU time of the client and its children (s)."""
        return statistics.median(self.cpu_s)


def _as_installed() -> dict[str, str]:
    """Return an environment in which Python keeps what it has compiled, as it does for every installed program."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _wait(pid: int, deadline: float) -> tuple[int, int, resource.struct_rusage]:
    while True:
        done = os.wait4(pid, os.WNOHANG)
        if done[0]:
            return done
        if time.perf_counter() > deadline:
            os.kill(pid, 9)
            os.wait4(pid, 0)
            raise SystemExit(f"process {pid} took longer than {_DEADLINE_S} s")
        time.sleep(0.01)


def take_turns(rivals: Sequence[Rival], rounds: int, folder: Path, between: Callable[[], None]) -> None:
    """Run all rivals ``rounds`` times, interleaved, after one round of the first that warms the page cache."""
    rivals[0].run(folder / "warm.out")
    rivals[0].forget()
    for number in range(rounds):
        for rival in rivals:
            between()
            rival.run(folder / f"round-{number}.out")


@dataclass(frozen=True)
class Goal:
    """One figure held against what it has to be."""

    what: str
    value: float
    limit: float
    at_least: bool
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether it is."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def report(title: str, rivals: Sequence[Rival], goals: Sequence[Goal]) -> int:
    """Print the table and the goals; return 1 when one is missed."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    ssh = subprocess.run(("ssh", "-V"), capture_output=True, text=True, timeout=10, check=False).stderr.split(
        ","
    )[0]
    print(title)
    print(
        f"{os.cpu_count()} cores, load {load}, {platform.platform()}, Python {platform.python_version()}, {ssh}"
    )
    if rivals:
        first = rivals[0]
        print(f"{'':42} {'wall s':>8} {'CPU s':>8} {'peak MB':>8} {'x wall':>7} {'x CPU':>7}")
        for rival in rivals:
            print(
                f"{rival.name:42} {rival.wall:8.2f} {rival.cpu:8.2f} {max(rival.peak_mb):8.0f}"
                f" {rival.wall / first.wall:7.1f} {rival.cpu / first.cpu:7.1f}"
            )
    for goal in goals:
        sign = ">=" if goal.at_least else "<="
        reached, wanted = f"{goal.value:.2f}{goal.unit}", f"{sign} {goal.limit:g}{goal.unit}"
        print(f"{'pass' if goal.met else 'MISS'}: {goal.what}: {reached} (goal {wanted})")
    return 0 if all(goal.met for goal in goals) else 1


def options(about: str, nodes: int, quick_nodes: int, *, selectable: bool = False) -> argparse.Namespace:
    """Return the options that every script has: --nodes, --rounds, --quick, --venv; --against if ``selectable``."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument(
        "--quick", action="store_true", help="one round on few nodes: shows that it works, proves nothing"
    )
    parser.add_argument(
        "--venv", type=Path, help="keep the rivals in this environment (made when it is not there)"
    )
    if selectable:
        parser.add_argument(
            "--against", metavar="WORD", default="", help="only the rivals in whose names this stands"
        )
    found = parser.parse_args()
    found.nodes = found.nodes or (quick_nodes if found.quick else nodes)
    found.rounds = found.rounds or (1 if found.quick else 3)
    reason = sshd_farm.missing()
    if reason:
        raise SystemExit(f"cannot start nodes here: {reason}")
    return found


def rivals_in(folder: Path, *packages: str) -> Path:
    """Install packages into a virtual environment, unless it has them, and return its directory of programs."""
    programs = folder / "bin"
    if not programs.exists():
        venv.create(folder, with_pip=True)
    subprocess.run(
        (str(programs / "pip"), "--disable-pip-version-check", "install", "-q", *packages),
        check=True,
        timeout=900,
    )
    return programs


def versions(programs: Path, *packages: str) -> str:
    """Return ``name version, ...`` of what is installed there."""
    code = (
        "import sys, importlib.metadata as m; print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    )
    return subprocess.run(
        (str(programs / "python"), "-c", code, *packages),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.strip()


@contextlib.contextmanager
def nodes_and_folder(
    count: int, *, private: tuple[str, ...] = (), in_memory: bool = False, **kinds: int
) -> Iterator[tuple[Farm, Path]]:
    """Give running nodes and a scratch directory; both are removed afterwards. ``kinds``: see ``start_farm``.

    ``private`` names directories inside the scratch directory that every node has for itself.
    """
    with tempfile.TemporaryDirectory(
        prefix="clusterctl-bench-", dir="/dev/shm" if in_memory else None
    ) as name:
        started = sshd_farm.start_farm(count, private=tuple(f"{name}/{inner}" for inner in private), **kinds)
        try:
            yield started, Path(name)
        finally:
            started.stop()


def ours(farm: Farm, folder: Path) -> dict[str, str]:
    """Return the environment of clusterctl for a farm."""
    return {**farm.env, "CLUSTERCTL_RUNS": str(folder / "runs"), "CLUSTERCTL_CONNECT_TIMEOUT_S": "60"}


def drop_connections(farm: Farm) -> Callable[[], None]:
    """Return what ends the connections that a rival keeps open, so that each of its rounds is a first one."""

    def drop() -> None:
        for node in farm.nodes:
            node.drop_connections()
        time.sleep(1)

    return drop


def seen_by(node: sshd_farm.SshdNode, path: Path) -> Path:
    """Return a directory as a node with private directories sees it."""
    assert node.process is not None
    return Path(f"/proc/{node.process.pid}/root{path}")
