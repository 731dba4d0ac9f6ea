"""Both packages can be read from the bottom up: no circle of imports or includes, no layer that uses a higher one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

CORE = Path(__file__).resolve().parents[2] / "collective_core"
PYTHON = CORE / "python"
SOURCE = CORE / "src"

# A directory of src/ includes only those of the lines above its own.
LAYERS = (
    {"common"},
    {"device", "reduce", "transport"},
    {"topology"},
    {"schedule", "rendezvous"},
    {"collectives"},
    {"tuner"},
    {"compress", "engine"},
    {"pipeline"},
    {"api"},
)


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return a circle of the graph, its first node at both ends; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def parents(module: str) -> set[str]:
    parts = module.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


def imported(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Yield the modules that a file imports anywhere, in a function too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{name.name}" for name in node.names}
            yield from members & known
            if members - known:
                yield node.module


def python_imports(package: Path) -> dict[str, set[str]]:
    """Return module -> modules that it imports; with a module come the packages that it is in."""
    files = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in package.rglob("*.py")
    }
    graph = {}
    for module, path in files.items():
        found = set(imported(ast.parse(path.read_text(encoding="utf-8")), set(files)))
        for one in tuple(found):
            found |= parents(one)
        graph[module] = (found & set(files)) - parents(module) - {module}
    return graph


def includes() -> dict[str, set[str]]:
    """Return file -> files of src/ that it includes."""
    files = {
        str(path.relative_to(SOURCE)): path
        for path in SOURCE.rglob("*")
        if path.suffix in {".h", ".cc", ".inc"}
    }
    return {
        name: set(re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE))
        & set(files)
        for name, path in files.items()
    }


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_the_package_has_no_import_circle() -> None:
    graph = python_imports(CORE.parent / "clusterctl")
    assert "clusterctl.report.text.table" in graph["clusterctl.report.text.trust"]
    assert circle(graph) == []


def test_python_has_no_import_circle() -> None:
    graph = python_imports(PYTHON / "collective_core")
    assert "collective_core.torch.work" in graph["collective_core.torch_backend"]
    assert "collective_core.torch_backend" in graph["collective_core.autoload"]
    assert circle(graph) == []


def test_headers_have_no_include_circle() -> None:
    graph = includes()
    assert "schedule/schedule.h" in graph["schedule/schedules.h"]
    assert circle(graph) == []


def test_a_layer_includes_only_lower_ones() -> None:
    level = {name: at for at, names in enumerate(LAYERS) for name in names}
    graph = includes()
    assert {name.split("/")[0] for name in graph} == set(level)
    upwards = [
        f"{name} includes {other}"
        for name, others in graph.items()
        for other in others
        if name.split("/")[0] != other.split("/")[0]
        and level[name.split("/")[0]] <= level[other.split("/")[0]]
    ]
    assert upwards == []
