"""Build the wheel of collective_core in build/wheel/dist by the pip of a venv, and show how far the compiler is.

Needs nothing that the venv lacks, so that make installs torch meanwhile. Without a terminal it prints every tenth part.
``--warnings-as-errors`` ends the build at a warning of the compiler.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import deque
from pathlib import Path

BUILD = Path(__file__).parents[1] / "build" / "wheel"
COMPILED = re.compile(r"\[(\d+)/(\d+)\] ")
KEPT = 60
"""Lines of a failed build that are shown."""


def show(done: int, total: int) -> None:
    line = f"Compiling collective_core: {done} of {total} parts"
    if sys.stdout.isatty():
        print(f"\r{line}", end="\n" if done == total else "", flush=True)
    elif done == total or (done * 10) // total != ((done - 1) * 10) // total:
        print(line, flush=True)


def main() -> int:
    """Return pip's exit code."""
    wheels = BUILD / "dist"
    wheels.mkdir(parents=True, exist_ok=True)
    for old in wheels.glob("collective_core-*.whl"):
        old.unlink()
    define = "cmake.define.CCORE_WARNINGS_AS_ERRORS=ON"
    strict = ("--config-settings", define) if sys.argv[1:] == ["--warnings-as-errors"] else ()
    print("Preparing the build of collective_core.", flush=True)
    command = (
        sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--verbose", "--no-deps",
        "--wheel-dir", str(wheels), "--config-settings", f"build-dir={BUILD}", *strict, "./collective_core",
    )  # fmt: skip
    last: deque[str] = deque(maxlen=KEPT)
    with subprocess.Popen(
        command,
        cwd=BUILD.parents[1],
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as build:
        assert build.stdout is not None
        for line in build.stdout:
            last.append(line)
            if found := COMPILED.match(line.strip()):
                show(int(found[1]), int(found[2]))
    if build.returncode:
        print("\n", *last, sep="", end="", file=sys.stderr)
        print(f"building collective_core failed; above are its last {KEPT} lines", file=sys.stderr)
    return build.returncode


if __name__ == "__main__":
    sys.exit(main())
