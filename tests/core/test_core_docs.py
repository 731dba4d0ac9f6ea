"""docs/algorithms.md says what the schedules do, and the version is one number everywhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import collective_core

CORE = Path(__file__).resolve().parents[2] / "collective_core"


def documented() -> dict[str, tuple[str, str, str]]:
    text = (CORE / "docs" / "algorithms.md").read_text()
    rows = re.findall(r"^\| (\w+) \| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|$", text, re.MULTILINE)
    return {name: (steps, busiest, total) for name, steps, busiest, total in rows}


def value(formula: str, m: int, p: int, data: int) -> float:
    assert re.fullmatch(r"[\dmnpM*/()+,\- ]+", re.sub("log2|lg|min", "", formula)), formula
    names = {
        "p": p,
        "m": m,
        "n": p // m,
        "M": data,
        "min": min,
        "log2": lambda n: (n - 1).bit_length(),
        "lg": lambda n: n.bit_length() - 1,
    }
    return float(eval(formula, {"__builtins__": {}}, names))


def test_the_table_is_what_the_schedules_cost(build: Any) -> None:
    done = subprocess.run(
        (build.native_tests, "costs"), capture_output=True, text=True, timeout=400, check=True
    )
    seen = set()
    for line in done.stdout.splitlines():
        fields = line.split()
        if len(fields) != 7:
            continue
        name, (m, p, data, *measured) = fields[0], map(int, fields[1:])
        formulas = documented()[name]
        assert [value(formula, m, p, data) for formula in formulas] == measured, (name, m, p)
        seen.add((name, p))
    assert seen == {(name, p) for name in documented() for p in range(1, 65)}


def test_every_algorithm_is_in_the_table() -> None:
    """What can be dispatched to, and the barrier, which has one algorithm."""
    collectives = CORE / "src" / "collectives"
    algorithms = set(re.findall(r"return (\w+)\(context, ", (collectives / "dispatch.cc").read_text()))
    algorithms |= set(
        re.findall(r"^void (\w+)\(", (collectives / "barrier" / "barrier.h").read_text(), re.MULTILINE)
    )
    assert algorithms == set(documented())


def test_every_algorithm_is_declared_in_the_header_of_its_collective() -> None:
    for name in documented():
        headers = [
            path
            for path in (CORE / "src" / "collectives").glob("*/*.h")
            if f"void {name}(" in path.read_text()
        ]
        assert len(headers) == 1 and name.startswith(f"{headers[0].stem}_"), (name, headers)
        assert headers[0].parent.name == headers[0].stem


def test_one_version() -> None:
    header = (CORE / "include" / "collective_core" / "collective_core.h").read_text()
    numbers = [re.search(rf"CC_VERSION_{part} (\d+)", header) for part in ("MAJOR", "MINOR", "PATCH")]
    version = ".".join(found.group(1) for found in numbers if found)
    assert version == collective_core.__version__
    assert f"VERSION {version} " in (CORE / "CMakeLists.txt").read_text()
