"""What authenticating a frame costs: SipHash-2-4 over a header and the frame's number, at both ends of a connection.

The tag alone, in a loop in which each one waits for the one before. Compiles the library's own source; needs a C++
compiler.

    python benchmarks/core_frame_tag.py [--rounds 201]
"""

from __future__ import annotations

import argparse
import platform
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "collective_core" / "src"
HEADERS = {16: "frame of a striped stream", 56: "message of an operation", 1016: "control message"}
DEADLINE_S = 300


def measured(rounds: int) -> dict[int, list[float]]:
    """Nanoseconds of a tag by the header's bytes, one for each round."""
    compiler = shutil.which("c++")
    if compiler is None:
        raise SystemExit("no C++ compiler: apt-get install g++")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "frame_tag"
        subprocess.run(
            (compiler, "-std=c++17", "-O3", "-I", str(SOURCES), "-o", str(program),
             str(HERE / "programs" / "frame_tag.cc"), str(SOURCES / "common" / "siphash.cc")),
            check=True, timeout=DEADLINE_S,
        )  # fmt: skip
        command = (str(program), str(rounds), *map(str, HEADERS))
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    samples: dict[int, list[float]] = {size: [] for size in HEADERS}
    for line in done.stdout.splitlines():
        size, nanoseconds = line.split()
        samples[int(size)].append(float(nanoseconds))
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=201)
    samples = measured(parser.parse_args().rounds)
    print(f"{platform.node()}: {platform.machine()}, {platform.system()} {platform.release()}")
    print(f"{'header':>26} {'bytes':>6} {'ns/tag':>8} {'best':>8} {'both ends':>10}")
    for size, name in HEADERS.items():
        median, best = statistics.median(samples[size]), min(samples[size])
        print(f"{name:>26} {size:>6} {median:>8.1f} {best:>8.1f} {2 * median:>10.1f}")


if __name__ == "__main__":
    main()
