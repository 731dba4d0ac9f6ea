"""The algorithm that collective_core chooses, beside each one that CCORE_ALGO can force, size by size.

All variants are communicators of the same processes and take turns on the same buffers, so other load on the machine
meets them alike. A ratio is the speed of the default over that of the forced algorithm: above 1 it is faster. The
default is measured twice; the ratio of the two shows how far a single ratio of the run can be trusted. Each rank is
bound to a CPU of its own. Needs a C compiler; ``--library`` measures a build that is not installed.

``--gbit 10`` puts the ranks on two emulated nodes, network namespaces with a shaped link, which needs root. The shaper
lets bursts of 128 KiB pass, so smaller data is measured at the speed of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import shaped_networks

REPOSITORY = Path(__file__).resolve().parents[1]
PROGRAM = REPOSITORY / "benchmarks" / "programs" / "choice_ccore.c"
INCLUDE = REPOSITORY / "collective_core" / "include"
GOAL = 0.91
SLOTS_AND_KERNEL = ("oneshot", "cma")
ALGORITHMS = {
    "all_reduce": ("oneshot", "twoshot", "cma", "doubling", "ring", "halving", "direct", "double_tree"),
    "broadcast": (*SLOTS_AND_KERNEL, "tree", "chain"),
    "reduce": ("oneshot", "twoshot", "cma", "tree", "chain"),
    "all_gather": (*SLOTS_AND_KERNEL, "ring"),
    "reduce_scatter": (*SLOTS_AND_KERNEL, "ring"),
    "gather": (*SLOTS_AND_KERNEL, "direct"),
    "scatter": (*SLOTS_AND_KERNEL, "direct"),
    "all_to_all": (*SLOTS_AND_KERNEL, "pairwise"),
}
BETWEEN = ("ring", "ps", "tree", "butterfly")
IN_SHARED_MEMORY = ("oneshot", "twoshot", "cma")
UNFORCED = ("again", "tuner")
DEADLINE_S = 600


def installed_library() -> Path:
    """Return the library of the installed package."""
    import collective_core

    return Path(collective_core.library_path())


def compiled(library: Path, folder: Path) -> Path:
    """Compile the measured loop against a library."""
    program = folder / "choice_ccore"
    command = ["cc", "-O2", f"-I{INCLUDE}", str(PROGRAM), "-o", str(program), str(library)]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}"], check=True)
    return program


@contextlib.contextmanager
def places(options: argparse.Namespace) -> Iterator[tuple[tuple[str, ...], Mapping[str, str]]]:
    """Give what starts the program where its ranks are to be, and their environment."""
    given = {"RANKS": str(options.ranks), "CCORE_TRANSPORT": options.transport}
    if options.gbit is None:
        yield (), given
        return
    if (reason := shaped_networks.missing()) is not None:
        raise SystemExit(f"--gbit: {reason}")
    with shaped_networks.shaped_networks((options.gbit * 1000,)) as networks:
        given |= {
            "CCORE_TRANSPORT": "auto", "CCORE_INTRA_SIZE": str(options.ranks // 2), "CCORE_SOCKET_IFNAME": "=rail0",
            "NETNS": f"/run/netns/{networks.names[1]}",
        }  # fmt: skip
        yield networks.inside(0), given


def measured(
    program: Path, collective: str, options: argparse.Namespace, sizes: list[int]
) -> dict[int, dict[str, float]]:
    """Return microseconds by size and variant; the first variant is the default."""
    shared = options.gbit is None and options.transport == "shm"
    forced = [one for one in ALGORITHMS[collective] if shared or one not in IN_SHARED_MEMORY]
    variants = [("default", "-"), *((one, f"CCORE_ALGO={collective}:{one}") for one in forced)]
    if options.gbit is not None and options.ranks > 2 and collective == "all_reduce":
        in_2d = "CCORE_ALGO=all_reduce:2d"
        variants += [(f"2d/{name}", f"{in_2d} CCORE_2D_BETWEEN={name}") for name in BETWEEN]
    variants.append(("again", "-"))
    if options.autotune:
        variants.append(("tuner", "CCORE_AUTOTUNE=1"))
    command = [str(program), collective, str(options.budget_ms), str(len(variants))]
    command += [word for variant in variants for word in variant]
    with places(options) as (start, given):
        done = subprocess.run(
            [*start, *command, *map(str, sizes)],
            env={**os.environ, **given}, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_S, check=True,
        )  # fmt: skip
    times: dict[int, dict[str, float]] = {}
    for line in done.stdout.splitlines():
        size, name, us = line.split()
        times.setdefault(int(size), {})[name] = float(us)
    return times


def best_of(times: list[dict[int, dict[str, float]]]) -> dict[int, dict[str, float]]:
    """Return the least time of each variant over the rounds: what the machine does when nothing disturbs it."""
    return {
        size: {name: min(one[size][name] for one in times) for name in variants}
        for size, variants in times[0].items()
    }


def size_text(size: int) -> str:
    """Return 65536 as 64 KiB."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def table(
    collective: str, times: dict[int, dict[str, float]], options: argparse.Namespace
) -> tuple[str, float, float]:
    """Return the ratios as a table, the worst one to the best forced algorithm, and to the second default."""
    names = [name for name in next(iter(times.values())) if name != "default"]
    where = options.transport if options.gbit is None else f"{options.gbit:g} Gbit/s between two nodes"
    lines = [
        f"| {collective}, {options.ranks} ranks, {where} | default, us | "
        + " | ".join(f"x {name}" for name in names)
        + " | best | x best | |",
        "|---|" + "--:|" * (len(names) + 1) + "---|--:|---|",
    ]
    worst = noise = math.inf
    for size, us in times.items():
        best = min((name for name in names if name not in UNFORCED), key=lambda name: us[name])
        ratio = us[best] / us["default"]
        worst = min(worst, ratio)
        noise = min(noise, us["again"] / us["default"], us["default"] / us["again"])
        ratios = " | ".join(f"{us[name] / us['default']:.2f}" for name in names)
        verdict = "met" if ratio >= GOAL else "MISS"
        lines.append(
            f"| {size_text(size)} | {us['default']:.2f} | {ratios} | {best} | {ratio:.2f} | {verdict} |"
        )
    return "\n".join(lines), worst, noise


def cpu_name() -> str:
    """Return the processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main() -> None:
    """Print a table for each collective."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--collective", choices=sorted(ALGORITHMS), action="append", help="default: all_reduce"
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--transport", choices=("shm", "tcp"), default="shm")
    parser.add_argument(
        "--gbit", type=float, help="two emulated nodes with a link of that rate; even --ranks"
    )
    parser.add_argument("--budget-ms", type=int, default=60, help="time for each size, all variants together")
    parser.add_argument("--rounds", type=int, default=3, help="starts of each variant; the best one counts")
    parser.add_argument("--least", type=int, default=64, help="bytes of the first size")
    parser.add_argument("--most", type=int, default=64 << 20, help="bytes of the last size")
    parser.add_argument("--factor", type=int, default=4, help="from one size to the next")
    parser.add_argument("--library", type=Path, help="libcollective_core.so, default: the installed one")
    parser.add_argument("--autotune", action="store_true", help="also show CCORE_AUTOTUNE=1")
    options = parser.parse_args()
    if options.gbit is not None and (options.gbit <= 0 or options.ranks % 2):
        parser.error("--gbit must be positive, and --ranks even: half of the ranks are on each node")
    library = options.library.resolve() if options.library else installed_library()
    sizes = []
    size = options.least
    while size <= options.most:
        sizes.append(size)
        size *= options.factor
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    print(f"{cpu_name()}, {os.cpu_count()} CPUs, load {load}, {now}")
    worst = noise = math.inf
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(library, Path(folder))
        for collective in options.collective or ["all_reduce"]:
            rounds = [measured(program, collective, options, sizes) for _ in range(options.rounds)]
            text, ratio, own = table(collective, best_of(rounds), options)
            worst, noise = min(worst, ratio), min(noise, own)
            print(f"\n{text}", flush=True)
    print(f"\nlowest ratio to the best: {worst:.2f} (goal {GOAL:.2f}); of the two defaults: {noise:.2f}")
    sys.exit(0 if worst >= GOAL else 1)


if __name__ == "__main__":
    main()
