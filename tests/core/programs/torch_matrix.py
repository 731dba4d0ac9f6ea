"""Runs the tests of the backend on other releases of torch, each in a venv of its own; prints one table.

Exits 1 if any failed.

    `torch_matrix.py [--python PYTHON] [--wheel FILE]... [--folder FOLDER] [--keep] [--whole-suite] [VERSION...]`

All releases get the same wheels: each FILE, or those that are built from this checkout. pip takes what its index has:
from PyPI that is a CUDA build, 3 GB to download and 7 GB on the disk, which needs no GPU. A venv is removed when its
release is done, unless --keep. --whole-suite also runs all of torch's own tests of a backend on gloo and on ccore.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

REPOSITORY = Path(__file__).resolve().parents[3]
COMPARE = Path(__file__).with_name("torch_suite_compare.py")
VERSIONS = (
    "2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1",
    "2.15.0",
)  # fmt: skip
TESTS = (
    "test_core_wheel.py",
    "test_core_torch.py",
    "test_core_torch_suite.py",
    "test_core_topk.py",
    "test_core_bucket_tuning.py",
    "test_core_horovod.py",
    "test_core_horovod_agreement.py",
)
# What the tests import; torch lists none of what its own tests import: expecttest, hypothesis, (2.9) setuptools.
NEEDED = (
    "pytest>=8.2",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.8",
    "numpy",
    "expecttest>=0.2",
    "hypothesis>=6.100",
    "setuptools",
)
INSTALL_LIMIT_S = 3600
TESTS_LIMIT_S = 3600


@dataclass
class Row:
    """What became of one release."""

    version: str
    python: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    failed: bool = False


def run(*command: str | Path, limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run a command of this script's, with its output kept; raises with the output's end if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        text=True, timeout=limit_s, check=False,
    )  # fmt: skip
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-15:])
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{end}")
    return done


def build_wheels(folder: Path) -> list[Path]:
    """The wheels of this checkout: clusterctl and collective_core."""
    sources = (REPOSITORY, REPOSITORY / "collective_core")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, *sources, limit_s=INSTALL_LIMIT_S)
    return sorted(folder.glob("*.whl"))


def read_report(report: Path, row: Row) -> None:
    """Take the counts, the reasons of the skips and the names of the failures out of pytest's report."""
    cases = list(ElementTree.parse(report).iter("testcase"))
    skips: dict[str, int] = {}
    row.counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in cases:
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            row.counts["failed"] += 1
            row.notes.append(f"failed: {case.get('classname', '').rpartition('.')[2]}::{case.get('name')}")
        elif skipped is not None:
            row.counts["skipped"] += 1
            reason = skipped.get("message") or "no reason given"
            skips[reason] = skips.get(reason, 0) + 1
        else:
            row.counts["passed"] += 1
    row.notes += [f"skipped {count}: {reason}" for reason, count in skips.items()]
    row.failed = row.counts["failed"] > 0 or row.counts["passed"] == 0


def try_release(row: Row, wheels: list[Path], python: str, venv: Path, *, whole_suite: bool) -> None:
    """Install one release and run the tests on it; the logs lie beside the venv."""
    binary = venv / "bin" / "python"
    run(python, "-m", "venv", "--clear", venv, limit_s=300)
    run(binary, "-m", "pip", "install", "--no-cache-dir", "--no-compile", f"torch=={row.version}", *wheels, *NEEDED,
        limit_s=INSTALL_LIMIT_S)  # fmt: skip
    said = run(
        binary,
        "-c",
        "import platform, torch; print(platform.python_version(), torch.__version__)",
        limit_s=300,
    )
    row.python, row.version = said.stdout.split()[-2:]
    report, log = venv.with_name(f"{venv.name}.xml"), venv.with_name(f"{venv.name}.log")
    with log.open("w") as output:
        subprocess.run(
            (str(binary), "-m", "pytest", "-p", "no:cacheprovider", f"--junit-xml={report}",
             *(str(REPOSITORY / "tests" / "core" / name) for name in TESTS)),
            # Found beside the interpreter: torchrun. Nothing of this shell's may stand in for the wheel's library.
            env={**{k: v for k, v in os.environ.items() if not k.startswith("CCORE_") and k != "PYTHONPATH"},
                 "PATH": f"{binary.parent}{os.pathsep}{os.environ.get('PATH', '')}"},
            cwd=REPOSITORY, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            timeout=TESTS_LIMIT_S, check=False,
        )  # fmt: skip
    if not report.is_file():
        raise RuntimeError(f"pytest made no report; {log} ends with:\n{log.read_text()[-2000:]}")
    read_report(report, row)
    if row.failed:
        row.notes.append(f"pytest's output: {log}")
    if whole_suite:
        done = subprocess.run(
            (str(binary), str(COMPARE)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            text=True, timeout=3 * TESTS_LIMIT_S, check=False,
        )  # fmt: skip
        row.notes.append(f"torch's own tests: {done.stdout.splitlines()[-1]}")
        row.failed |= done.returncode != 0


def print_row(row: Row) -> None:
    counts = " ".join(f"{row.counts.get(name, '-'):>7}" for name in ("passed", "failed", "skipped"))
    print(f"{row.version:14} {row.python:8} {counts} {row.seconds:8.0f}", flush=True)
    for note in row.notes:
        print("    " + note.replace("\n", "\n    "), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter of the venvs (default: this one)"
    )
    parser.add_argument(
        "--wheel", type=Path, action="append", help="a wheel under test (default: built from this checkout)"
    )
    parser.add_argument(
        "--folder", type=Path, help="where venvs and logs go (default: a new one below TMPDIR)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the venvs")
    parser.add_argument(
        "--whole-suite", action="store_true", help="also all of torch's own tests (minutes each)"
    )
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    given = parser.parse_args()
    folder = (given.folder or Path(tempfile.mkdtemp(prefix="torch-matrix-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wheels = [wheel.resolve() for wheel in given.wheel] if given.wheel else build_wheels(folder)
    print(f"{', '.join(wheel.name for wheel in wheels)}; logs in {folder}")
    print(f"{'torch':14} {'python':8} {'passed':>7} {'failed':>7} {'skipped':>7} {'seconds':>8}", flush=True)
    failed = False
    for version in given.versions:
        row, began, venv = Row(version), time.monotonic(), folder / f"venv-{version}"
        try:
            try_release(row, wheels, given.python, venv, whole_suite=given.whole_suite)
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            row.failed = True
            row.notes.append(f"not run to its end: {error}")
        finally:
            if not given.keep:
                shutil.rmtree(venv, ignore_errors=True)
        row.seconds = time.monotonic() - began
        print_row(row)
        failed |= row.failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
