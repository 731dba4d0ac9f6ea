"""No program that runs on nodes turns what another rank sent into code: it unpickles nothing and evaluates nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "clusterctl" / "workloads"
CORE = ROOT / "collective_core" / "python" / "collective_core"
# Horovod's own functions of these names take any object of the user, see docs/threat-model.md.
OBJECTS_OF_THE_USER = {
    CORE / "horovod" / "torch" / "functions.py": {
        "_unpacked": {"torch.load"},
        "broadcast_object_fn": {"broadcast_object"},
    }
}
MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "code"}
CALLS = {"eval", "exec", "compile", "__import__", "literal_eval", "Unpickler"}


def offences(source: str) -> Iterator[tuple[str | None, str]]:
    """Yield what could run code that was received, with the name of the function around it."""
    yield from _within(ast.parse(source), None)


def _within(node: ast.AST, function: str | None) -> Iterator[tuple[str | None, str]]:
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.Import):
            for name in (alias.name for alias in one.names):
                if name.partition(".")[0] in MODULES:
                    yield function, name
        elif isinstance(one, ast.ImportFrom):
            if (one.module or "").partition(".")[0] in MODULES:
                yield function, str(one.module)
        elif isinstance(one, ast.Call):
            called = ast.unparse(one.func)
            last = called.rpartition(".")[2]
            # re.compile and torch.compile compile nothing that was sent.
            if called in CALLS or last in CALLS - {"compile"}:
                yield function, called
            if last.endswith(("_object", "_object_list", "_object_fn")) and "py_object" not in called:
                yield function, called
            if called == "torch.load" and not _only_weights(one):
                yield function, called
            if last == "load" and any(part in called for part in ("np.", "numpy.")):
                yield function, called
        name = one.name if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) else function
        yield from _within(one, name)


def _only_weights(call: ast.Call) -> bool:
    return any(
        word.arg == "weights_only" and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in call.keywords
    )


def sources() -> list[Path]:
    return [path for folder in (WORKLOADS, CORE) for path in sorted(folder.rglob("*.py"))]


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_that_a_rank_sent_can_be_run(path):
    allowed = OBJECTS_OF_THE_USER.get(path, {})
    found = [one for one in offences(path.read_text()) if one[1] not in allowed.get(one[0] or "", ())]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import torch.distributed as dist\ndist.all_gather_object(found, 1)",
        "dist.broadcast_object_list(box, 0)",
        "hvd.allgather_object(1)",
        "dist.scatter_object_list(a, b)",
        "torch.load(stream)",
        "torch.load(stream, weights_only=False)",
        "numpy.load(path, allow_pickle=True)",
        "ast.literal_eval(text)",
        "def f():\n    eval(text)",
    ],
)
def test_the_rule_finds(source):
    assert list(offences(source))


@pytest.mark.parametrize(
    "source", ["re.compile(text)", "torch.load(path, weights_only=True)", "ctypes.py_object(x)"]
)
def test_the_rule_leaves(source):
    assert not list(offences(source))
