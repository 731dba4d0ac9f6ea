"""Shared libraries that stand in for those of NVIDIA, compiled from tests/core/programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CORE = REPOSITORY / "collective_core"


def compile_fake(source: str, target: Path) -> None:
    """Compile a C file of tests/core/programs to the library `target`, whose name is also its soname."""
    words = (
        shutil.which("cc") or shutil.which("gcc") or "cc", "-shared", "-fPIC", f"-Wl,-soname,{target.name}",
        f"-I{CORE}/include", f"-I{CORE}/cuda/include",
        "-o", str(target), str(REPOSITORY / "tests" / "core" / "programs" / source),
    )  # fmt: skip
    subprocess.run(words, check=True, timeout=60)
