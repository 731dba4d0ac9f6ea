"""NCCL's all_reduce of two ranks on one GPU over its network: stock sockets, sockets with threads, and our plugins.

Every rank claims to be a host of its own, so that NCCL's network carries everything; MPS lets the ranks run at once.
Configurations are interleaved, each in processes of its own; figures are medians, and every result is checked.

    python benchmarks/nccl_plugins.py [--part net,tuner,random,link] [--repeats 5] [--program FILE] [--nccl LIBRARY]

``net`` compares the net plugin over loopback with NCCL's sockets, ``tuner`` measures a table and compares it with
NCCL's own choice in one communicator, ``random`` checks 10000 random sizes, ``link`` takes a link of 25 Gbit/s between
two network namespaces (needs root). --program names programs/nccl_all_reduce.cu compiled; without it nvcc is used.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from mps_server import NOT_STARTED, mps_server
from shaped_networks import missing, shaped_networks

from collective_core.nccl_plugins import plugin_path

SOURCE = Path(__file__).resolve().parent / "programs" / "nccl_all_reduce.cu"
LINK_MBIT = 25000
THREADS = {"NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "4"}


def nccl_library() -> Path:
    """Return the libnccl.so.2 of torch's wheels."""
    spec = find_spec("nvidia.nccl")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        if (path := Path(place) / "lib" / "libnccl.so.2").is_file():
            return path
    raise SystemExit("no NCCL of a torch wheel here; name one with --nccl")


def compiled(folder: Path) -> Path:
    """Compile the program."""
    target = folder / SOURCE.stem
    subprocess.run(
        ("nvcc", "-O2", "-std=c++17", "-arch=native", "-o", str(target), str(SOURCE), "-ldl"), check=True
    )
    return target


class Runner:
    """Starts the program, with and without plugins."""

    def __init__(self, program: Path, nccl: Path, cache: Path) -> None:
        self.plugin = str(plugin_path())
        self._command = (str(program), str(nccl), f"plugin={self.plugin}")
        dropped = ("NCCL_", "CCORE_NCCL_")
        self._clean = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        self._clean |= {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NVLS_ENABLE": "0", "CCORE_CACHE_DIR": str(cache)}

    def environment(self, *, net: bool, tuner: bool = False, **more: str) -> dict[str, str]:
        """Return the variables of a configuration."""
        return {
            **self._clean,
            "NCCL_NET_PLUGIN": self.plugin if net else "none",
            "NCCL_TUNER_PLUGIN": self.plugin if tuner else "none",
            **more,
        }

    def lines(self, environment: Mapping[str, str], *options: str) -> list[list[str]]:
        """Run the program; return the words of its lines."""
        done = subprocess.run(
            (*self._command, *options),
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(
                f"{' '.join(options)} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}"
            )
        return [line.split() for line in done.stdout.splitlines() if line and not line.startswith("#")]

    def sizes(self, environment: Mapping[str, str], *options: str) -> dict[int, float]:
        """Return microseconds by bytes."""
        rows = self.lines(environment, "mode=sizes", "repeats=3", *options)
        if any(wrong != "0" for _, _, wrong in rows):
            raise SystemExit(f"wrong sums: {rows}")
        return {int(size): float(us) for size, us, _ in rows}


def net(runner: Runner, repeats: int) -> None:
    """Compare the plugin with NCCL's sockets over loopback."""
    configurations = {
        "stock": runner.environment(net=False),
        "4x4": runner.environment(net=False, **THREADS),
        "plugin": runner.environment(net=True),
    }
    times: dict[str, dict[int, list[float]]] = {name: {} for name in configurations}
    for _ in range(repeats):
        for name, environment in configurations.items():
            for size, us in runner.sizes(environment).items():
                times[name].setdefault(size, []).append(us)
    print(
        f"\n{'bytes':>10} {'stock us':>10} {'4x4 us':>10} {'plugin us':>10} {'best rival / plugin':>20} {'GB/s':>7}"
    )
    for size in times["stock"]:
        stock, threads, ours = (statistics.median(times[name][size]) for name in configurations)
        best = min(stock, threads)
        print(
            f"{size:>10} {stock:>10.1f} {threads:>10.1f} {ours:>10.1f} {best / ours:>20.2f} {size / ours / 1e3:>7.2f}"
        )


def tuner(runner: Runner) -> None:
    """Measure tables with collective_core.nccl_tune, and compare them with NCCL's own choice."""
    for with_plugin in (False, True):
        environment = runner.environment(net=with_plugin, tuner=True)
        ranks = [
            subprocess.Popen(
                (sys.executable, "-m", "collective_core.nccl_tune", "--collectives", "all_reduce"),
                stdout=subprocess.DEVNULL,
                env={
                    **environment, "NCCL_HOSTID": f"node{rank}", "RANK": str(rank), "LOCAL_RANK": "0",
                    "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517",
                },
            )
            for rank in range(2)
        ]  # fmt: skip
        try:
            if any(process.wait(timeout=120) for process in ranks):
                raise SystemExit("nccl_tune failed")
        finally:
            for process in ranks:
                process.kill()
        print(
            f"\nratio above 1: the table is faster; tuner over {'the net plugin' if with_plugin else 'stock sockets'}"
        )
        print(f"{'bytes':>10} {'own us':>10} {'table us':>10} {'ratio':>12}")
        for _, size, own, table, _, wrong in runner.lines(environment, "mode=table", "max=16777216"):
            print(
                f"{size:>10} {own:>10} {table:>10} {float(own) / float(table):>12.2f}{' WRONG' if wrong != '0' else ''}"
            )


def random_sizes(runner: Runner) -> None:
    """Check 10000 operations."""
    for words in runner.lines(runner.environment(net=True), "mode=random", "max=16777216"):
        print("\nnet plugin:", " ".join(words))


def link(runner: Runner) -> None:
    """Compare on a link of known speed; frames of 9000 bytes."""
    if reason := missing():
        print(f"\nlink: not measured: {reason}")
        return
    with shaped_networks([LINK_MBIT], mtu=9000) as networks:
        options = ("min=268435456", "max=268435456", f"netns={','.join(networks.names)}")
        wire = {"NCCL_SOCKET_IFNAME": networks.rails[0]}
        print(f"\nlink of {LINK_MBIT / 1000:g} Gbit/s, 256 MiB")
        for name, environment in {
            "stock": runner.environment(net=False, **wire),
            "4x4": runner.environment(net=False, **wire, **THREADS),
            "plugin": runner.environment(net=True, **wire),
        }.items():
            ((size, us),) = runner.sizes(environment, *options).items()
            rate = size / us / 1e3
            print(
                f"{name:>8} {us:>10.1f} us {rate:>6.2f} GB/s, {8 * rate * 1000 / LINK_MBIT:>6.1%} of the link"
            )


def main() -> None:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", default="net,tuner,random,link", help="comma list (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="processes of each configuration (default: 5)")
    parser.add_argument("--program", type=Path, help="programs/nccl_all_reduce.cu, compiled")
    parser.add_argument("--nccl", type=Path, help="libnccl.so.2 (default: of torch's wheels)")
    chosen = parser.parse_args()
    parts = set(chosen.part.split(","))
    with tempfile.TemporaryDirectory() as folder:
        if not chosen.program and not shutil.which("nvcc"):
            raise SystemExit("nvcc is not installed; name the compiled program with --program")
        program = chosen.program or compiled(Path(folder))
        with mps_server() as served:
            if served is None:
                raise SystemExit(NOT_STARTED)
            os.environ.update(served)
            runner = Runner(program, chosen.nccl or nccl_library(), Path(folder) / "cache")
            if "net" in parts:
                net(runner, chosen.repeats)
            if "tuner" in parts:
                tuner(runner)
            if "random" in parts:
                random_sizes(runner)
            if "link" in parts:
                link(runner)


if __name__ == "__main__":
    main()
