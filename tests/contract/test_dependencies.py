"""What the package imports is declared, and nothing else: what others bring along may go with their next release."""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Whose a module is, where the name does not say it.
_DISTRIBUTION = {"yaml": "pyyaml", "pydantic_core": "pydantic"}
# Of the extra "torch", and of nodes: only workloads import them, and ccore's tests of it look first.
_OPTIONAL = {"torch", "torchvision", "collective_core"}


def imported(path: Path) -> set[str]:
    """Return the top-level packages that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_what_is_imported_is_declared():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = set(
        re.findall(r'^  "([a-z0-9-]+)>=', text[: text.index("[project.optional-dependencies]")], re.M)
    )
    files = sorted((ROOT / "clusterctl").rglob("*.py"))
    modules = set().union(*map(imported, files)) - set(sys.stdlib_module_names) - _OPTIONAL - {"clusterctl"}
    assert len(files) > 200
    assert {_DISTRIBUTION.get(module, module) for module in modules} == declared


def test_the_page_of_advisories_has_each_bound():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    bounds = dict(
        re.findall(
            r'^  "([a-z0-9-]+)(>=[0-9.]+)', text[: text.index("[project.optional-dependencies]")], re.M
        )
    )
    page = (ROOT / "docs" / "advisories.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `([a-z0-9-]+)` \| `(>=[0-9.]+)` \|", page, re.M)) == bounds
