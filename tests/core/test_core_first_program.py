"""The page of first programs: each is compiled and run outside the tree, by its own lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "collective_core" / "docs" / "first-program.md"
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
# A program follows the name of its file.
FENCE = re.compile(r"(?:`([\w.]+)`:\n\n)?```(\w+)\n(.*?)```", re.DOTALL)
TEXT = PAGE.read_text(encoding="utf-8")
PROGRAMS = {name: body for name, body in SECTION.findall(TEXT) if "```bash" in body}
PREFIX = re.search(r"^prefix=.*$", TEXT, re.MULTILINE)


@pytest.fixture
def lines_environment(environment: dict[str, str]) -> dict[str, str]:
    """A shell of a user: nothing of a rank or a rendezvous. mpirun may run as root, on more ranks than cores."""
    drop = (
        "CCORE_ROOT",
        "CCORE_JOB",
        "MASTER_",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_",
        "TORCHELASTIC_",
        "PYTHONPATH",
    )
    kept = {name: value for name, value in environment.items() if not name.startswith(drop)}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_first_program(
    name: str, lines_environment: dict[str, str], tmp_path: Path, tier_unavailable: Callable[[str], None]
) -> None:
    for program, package in {"mpirun": "openmpi-bin", "pkg-config": "pkg-config", "cmake": "cmake"}.items():
        if shutil.which(program, path=lines_environment["PATH"]) is None:
            tier_unavailable(f"{program} is missing: apt-get install {package}")
    assert PREFIX is not None
    lines = [PREFIX[0]]
    for file, language, text in FENCE.findall(PROGRAMS[name]):
        if language == "bash":
            lines.append(text)
        else:
            (tmp_path / file).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ("bash", "-euo", "pipefail", "-c", "\n".join(lines)), cwd=tmp_path, env=lines_environment,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    said = sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))
    assert said == ["rank 0: 3", "rank 1: 3"], done.stdout + done.stderr
