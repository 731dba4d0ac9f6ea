"""Documents can be found and followed: each is in an index, and links, paths and scripts that they name exist."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import performance_pages
import pytest
from recorded_session import shown_in

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TYPED = {
    ROOT / "README.md": "tests/lab/test_typed_pages.py",
    DOCS / "guides/first-cluster.md": "tests/lab/test_typed_pages.py",
    DOCS / "guides/containers.md": "tests/lab/test_typed_pages.py",
    DOCS / "guides/bare-guests.md": "tests/lab/test_bare_guests_page.py",
    DOCS / "guides/launch.md": "tests/integration/test_launch_program.py",
}
"""The pages whose commands are typed, and the tests that type them."""
RECIPES = (
    ROOT / "CONTRIBUTING.md",
    DOCS / "architecture.md",
    ROOT / "collective_core" / "docs" / "walkthrough.md",
)
TOPS = ("clusterctl/", "collective_core/", "tests/", "templates/", "inventories/", "docs/", "benchmarks/")
PAGES = sorted(
    [*ROOT.glob("*.md")]
    + [
        page
        for folder in ("docs", "clusterctl", "collective_core/docs")
        for page in (ROOT / folder).rglob("*.md")
    ]
)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    """Return the page without its code blocks, which may hold brackets and number signs of their own."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield file and anchor of every link to a file of this repository."""
    for target in _LINK.findall(prose(page)):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


def anchors(page: Path) -> set[str]:
    """Return the anchors of the page's headings as GitHub derives them: a repeated one gets a number."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(prose(page)):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def test_what_looks_like_a_session_is_typed_by_a_test() -> None:
    """A block ``console`` is a promise: a test types its commands. README has no other block."""
    with_sessions = {page for page in PAGES if "```console" in page.read_text(encoding="utf-8")}
    assert with_sessions == set(TYPED)
    for page, test in TYPED.items():
        assert page.name in (ROOT / test).read_text(encoding="utf-8"), test
    fences = re.findall(r"^```(\w*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(fences) == {"console", ""} and fences[::2] == ["console"] * (len(fences) // 2)


# Words of the guides that a first day does not need; there were 43 in all.
_LATER_WORDS = re.compile(
    r"\b(target|group|node-set|requirement|verdict|fact|evidence|drift|plan|step|round|batch|journal|label|slot|launcher"
    r"|library|ccore|variant|repeat|window|point|proof|baseline|judged|tier|row|threshold|hostfile|rail|unit|suspect"
    r"|confirmation|recording|replay)s?\b",
    re.IGNORECASE,
)


def test_readme_reaches_its_first_figures_with_ten_words() -> None:
    """Node, check, fix, undo, run, rank, bench; slow, accept, report come later. Outputs of commands are not prose."""
    before, bench, _ = (ROOT / "README.md").read_text(encoding="utf-8").partition("$ clusterctl bench")
    words = re.sub(r"^```.*?(^```|\Z)", "", before, flags=re.MULTILINE | re.DOTALL)
    assert bench and all(word in words.lower() for word in ("node", "check", "fix", "undo"))
    assert not _LATER_WORDS.findall(words)


def test_the_rehearsal_on_guests_goes_the_way_of_readme() -> None:
    _install, _inventory, *steps = [
        shown.command for shown in shown_in((ROOT / "README.md").read_text("utf-8"))
    ]
    rest = iter(shown.command for shown in shown_in((DOCS / "guides/bare-guests.md").read_text("utf-8")))
    assert all(step in rest for step in steps), steps


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = [
        f"{path.relative_to(ROOT)}#{anchor}"
        for path, anchor in links(page)
        if not path.exists() or (anchor and anchor not in anchors(path))
    ]
    assert broken == []


def test_every_page_is_in_an_index() -> None:
    """docs/README.md lists every page, or the README.md of the page's directory, which it lists, does."""
    indexed = {path for path, _ in links(DOCS / "README.md")}
    for index in [path for path in indexed if path.name == "README.md" and path != ROOT / "README.md"]:
        indexed |= {path for path, _ in links(index)}
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in indexed | {DOCS / "README.md"}] == []


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_that_a_recipe_names_exists(page: Path) -> None:
    named = re.findall(r"`([A-Za-z0-9_.*/-]+)`", prose(page))
    paths = [path for path in named if path.startswith(TOPS)]
    paths += [f"collective_core/{path}" for path in named if path.startswith("src/")]
    assert len(paths) > 20
    assert [path for path in paths if not any(ROOT.glob(path.rstrip("/")))] == []


def test_every_claim_of_performance_names_its_script() -> None:
    found = performance_pages.claims(performance_pages.DATA.read_text(encoding="utf-8"))
    assert len(found) > 140
    for one in found:
        assert one.claim and one.goal and one.measured, one.claim
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", one.date), one.claim
        name = one.script.strip("`")
        assert name.startswith("make ") or (ROOT / "benchmarks" / name).is_file(), (one.claim, one.script)
        # The first page repeats the figure of the claim, and adds none.
        for front in one.front:
            assert front.result.split()[0].removesuffix("x") in one.measured, front
    assert sum(len(one.front) for one in found) == 10


def test_the_pages_of_performance_are_made_from_the_claims() -> None:
    for path, text in performance_pages.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run: make docs"


@pytest.mark.parametrize("line", ["| a claim | goal | measured |", "> what | against | 2x"])
def test_a_line_of_the_claims_with_other_cells_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="line 1: expected"):
        performance_pages.claims(line)
