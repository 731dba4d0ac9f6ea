"""A source that nodes fetch by git: real git, from a repository on this machine, at a tag, a branch or a commit."""

from __future__ import annotations

import subprocess

import pytest

from clusterctl.inventory.requirement_settings import PeermemSettings
from clusterctl.requirements.rdma import out_of_tree


@pytest.fixture
def repository(tmp_path):
    """Return a repository with the tags 1.0-8 and 1.0-9 and a later commit, and the commit of 1.0-9."""
    folder = tmp_path / "nv_peer_memory"
    folder.mkdir()

    def git(*words):
        who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ("git", *who, *words), cwd=folder, check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    git("init", "-q", "-b", "master")
    for text in ("1.0-8", "1.0-9", "later"):
        (folder / "nv_peer_mem.c").write_text(f"{text}\n")
        git("add", ".")
        git("commit", "-q", "-m", text)
        if text != "later":
            git("tag", text)
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    return folder, git("rev-parse", "1.0-9^{commit}")


def step(repository, reference, tree):
    settings = PeermemSettings.model_validate({"git": f"{repository}#{reference}"})
    return out_of_tree.bring("nv_peer_mem", settings, str(tree))


@pytest.mark.parametrize("reference", ["1.0-9", "COMMIT", "master"])
def test_the_tree_is_that_of_the_reference_and_undo_removes_it(runner, repository, reference):
    folder, commit = repository
    reference, tree = reference.replace("COMMIT", commit), runner.root / "tree"
    brought = step(folder, reference, tree)
    assert runner.apply(brought).events(1)[-1] == (1, "changed")
    assert (tree / "nv_peer_mem.c").read_text() == ("later\n" if reference == "master" else "1.0-9\n")
    assert not (tree / ".git").exists()
    assert runner.apply(brought, run="run2").events(1)[-1] == (1, "unchanged")
    runner.undo(run="run1")
    assert not tree.exists()


def test_another_reference_replaces_the_tree(runner, repository):
    tree = runner.root / "tree"
    runner.apply(step(repository[0], "1.0-8", tree))
    assert runner.apply(step(repository[0], "1.0-9", tree), run="run2").events(1)[-1] == (1, "changed")
    assert (tree / "nv_peer_mem.c").read_text() == "1.0-9\n"


def test_a_reference_that_is_missing_leaves_the_tree_as_it_was(runner, repository):
    tree = runner.root / "tree"
    runner.apply(step(repository[0], "1.0-9", tree))
    ran = runner.apply(step(repository[0], "2.0", tree), run="run2")
    assert ran.events(1)[-1] == (1, "failed")
    assert "2.0" in ran.detail("failed")
    assert (tree / "nv_peer_mem.c").read_text() == "1.0-9\n"
    assert [path.name for path in runner.root.iterdir() if path.name.startswith("tree")] == ["tree"]


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/Mellanox/nv_peer_memory.git", "https://me:secret@example.com/x.git#1", "ext::sh -c id#1",
        "http://example.com/x.git#1", "https://example.com/x.git#--upload-pack=id", "-x#1", "https://example.com/x.git#",
    ],
)  # fmt: skip
def test_other_addresses_are_refused_in_the_inventory(text):
    with pytest.raises(ValueError, match="git"):
        PeermemSettings.model_validate({"git": text})
