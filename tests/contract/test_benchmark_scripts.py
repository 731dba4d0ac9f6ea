"""Every script of benchmarks/ can still be run: what it imports is there, though no test has the time to run it."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
# Measured programs' own modules, which the machine that runs the tests need not have.
ELSEWHERE = {"torch", "numpy", "mpi4py", "fabric", "horovod"}


@pytest.fixture(autouse=True)
def beside_its_siblings(monkeypatch):
    for folder in (FOLDER, FOLDER.parent / "tests" / "support"):
        monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_what_a_script_imports_is_there(script):
    wanted = [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(script.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0
        for alias in node.names
        if node.module.split(".")[0] not in ELSEWHERE | sys.stdlib_module_names
    ]
    for module, name in wanted:
        found = importlib.import_module(module)
        assert hasattr(found, name) or importlib.import_module(f"{module}.{name}"), f"{module} has no {name}"


def test_a_program_that_a_signal_ends_fails_the_tables(monkeypatch, tmp_path):
    tables = importlib.import_module("gpu_collectives")
    program = tmp_path / "cuda_perf"
    # Two of the four tables: those with eight ranks in a graph, and through host memory.
    program.write_text('#!/bin/sh\ncase "$2 $CCORE_CUDA_PATH" in ranks=8*|*host) kill -SEGV $$;; esac\n')
    program.chmod(0o755)
    monkeypatch.setattr(tables, "PROGRAM", program)
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert tables.main() == 1
