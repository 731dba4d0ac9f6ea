"""CPU of ``check`` with its live progress, beside the same command of an earlier tree; one table.

``check_progress.py BEFORE [NODES] [ROUNDS]``: BEFORE is a checkout of the earlier tree. Both run at a
pseudo-terminal and with their output in a file, interleaved. Needs root, for the sshd nodes.
"""

from __future__ import annotations

import os
import pty
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from sshd_farm import Farm, start_farm  # noqa: E402

PROGRAM = "import sys; from clusterctl.cli.main import main; sys.exit(main())"


def cpu_s(tree: Path, farm: Farm, inventory: Path, *, terminal: bool) -> float:
    """Run one check and return its CPU seconds."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CLUSTERCTL_")}
    env |= {**farm.env, "PYTHONPATH": str(tree), "TERM": "xterm"}
    pid, shown = pty.fork() if terminal else (os.fork(), -1)
    if pid == 0:
        os.chdir(inventory.parent)
        if not terminal:
            out = os.open("out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
        os.execve(sys.executable, (sys.executable, "-c", PROGRAM, "check", str(inventory)), env)
    if terminal:
        try:
            while os.read(shown, 65536):
                pass
        except OSError:
            pass  # the other end is closed: Linux reports it as EIO
        os.close(shown)
    _, _, used = os.wait4(pid, 0)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Interleave both trees, and print medians."""
    trees = {"before": Path(sys.argv[1]).resolve(), "after": ROOT}
    nodes, rounds = (int(word) for word in (*sys.argv[2:4], "256", "6")[:2])
    farm = start_farm(nodes)
    samples: dict[tuple[bool, str], list[float]] = {}
    try:
        inventory = farm.inventory(Path(tempfile.mkdtemp()))
        for number in range(rounds + 1):
            for terminal in (True, False):
                for name in sorted(trees, reverse=bool(number % 2)):
                    used = cpu_s(trees[name], farm, inventory, terminal=terminal)
                    if number:
                        samples.setdefault((terminal, name), []).append(used)
    finally:
        farm.stop()
    print(f"{'output':10} {'before s':>9} {'after s':>8} {'ratio':>6}")
    for terminal in (True, False):
        before, after = (statistics.median(samples[terminal, name]) for name in ("before", "after"))
        print(f"{'terminal' if terminal else 'file':10} {before:9.3f} {after:8.3f} {before / after:6.3f}")
    print("ratio above 1: after is faster; goal: at least 0.95 at a terminal, and 1 in a file")


if __name__ == "__main__":
    main()
