"""Hooks of MkDocs that build one site from the Markdown pages of the repository.

The pages keep their paths in the repository as sources, so that one relative link works in both views; only their
addresses on the site are shorter. The navigation is read from docs/README.md, the index of all pages. Doxygen makes the
reference of the C and C++ headers, which is a part of the site only.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from pymdownx.slugs import slugify

ROOT = Path(__file__).resolve().parents[1]
INDEX = "docs/README.md"
PAGES = ("*.md", "docs/**/*.md", "clusterctl/**/*.md", "collective_core/*.md", "collective_core/docs/**/*.md")
HEADERS = "collective_core/docs/doxygen.conf"
API = "build/api/html/files.html"
_LINK = re.compile(r"\[([^]]+)\]\(([^)\s#]+)[^)]*\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def sources() -> list[Path]:
    """Return the pages: those in the root, in docs/, in clusterctl/ and in collective_core/."""
    return sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})


def links(page: Path) -> Iterator[tuple[str, Path]]:
    """Yield text and target of every link of a page to a file of the repository."""
    for text, target in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        path = (page.parent / target).resolve()
        if ":" not in target and path.is_file() and path.is_relative_to(ROOT):
            yield text, path


def address(source: str) -> str:
    """Return the file on the site for a file of the repository; docs/README.md becomes the start page."""
    path = source.removeprefix("docs/").replace("collective_core/docs/", "collective_core/")
    path = path.replace("build/api/html/", "collective_core/api/")
    if not path.endswith(".md"):
        return path
    stem = path.removesuffix(".md")
    if stem.endswith("README") and source != "README.md":
        return f"{stem.removesuffix('README')}index.html"
    return f"{stem.lower() if '/' not in source else stem}/index.html"


def _file(path: Path, config: MkDocsConfig) -> File:
    source = str(path.relative_to(ROOT))
    return File(source, str(ROOT), config.site_dir, True, dest_uri=address(source))


def navigation() -> list[Any]:
    """Return the navigation: the index, the README, and a section for each heading of the index."""
    text = (ROOT / INDEX).read_text(encoding="utf-8")
    nav: list[Any] = [{"Documentation": INDEX}, {"Overview": "README.md"}]
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0].partition(":")[0]
        entries = [
            {name: _below(path)}
            for name, target in _LINK.findall(section)
            if (path := (ROOT / INDEX).parent.joinpath(target).resolve()).suffix == ".md"
        ]
        if title == "collective_core":
            entries.insert(2, {"C and C++: every symbol": API})
        nav.append({title: entries})
    return nav


def _below(page: Path) -> Any:
    """Return a page's source; of the index of a directory, the list of it and the pages that it links to there."""
    source = str(page.relative_to(ROOT))
    if page.name != "README.md" or page.parent == ROOT:
        return source
    inside = dict.fromkeys(path for _, path in links(page) if path.parent == page.parent and path != page)
    return [source, *(str(path.relative_to(ROOT)) for path in inside)]


def _run_doxygen() -> None:
    """Write the reference below build/api. A symbol of a public header without a comment is an error."""
    program = shutil.which("doxygen")
    if program is None:
        raise PluginError("doxygen is missing: apt-get install doxygen")
    folder = ROOT / "build" / "api"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    done = subprocess.run((program, HEADERS), cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise PluginError(f"doxygen reports about the public headers:\n{done.stderr}")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation, and the anchors of headings as GitHub derives them; make the reference of the headers."""
    _run_doxygen()
    config.nav = navigation()
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by the pages of the repository and the files that they link to."""
    theme = [file for file in files if file.src_dir != config.docs_dir]
    pages = sources()
    others = {path for page in pages for _, path in links(page) if path.suffix != ".md"}
    others |= {path for path in (ROOT / API).parent.rglob("*") if path.is_file()}
    return Files([*theme, *(_file(path, config) for path in [*pages, *sorted(others)])])
