"""Notes of what distributions left on nodes: found by the next one, never while their own distribution runs."""

from __future__ import annotations

import json

import pytest

from clusterctl.errors import ImageError
from clusterctl.images.distribution import traces
from clusterctl.inventory.model import Node

A, B = Node(name="a", address="10.0.0.1"), Node(name="b", address="10.0.0.2")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "clusterctl" / "distributions"


def test_a_distribution_that_cleaned_every_node_leaves_no_note(cache):
    note = traces.begin("t", (A, B))
    with traces.left_by_others((A, B)) as found:
        assert found == (), "its distribution still runs"
    note.cleaned(A)
    note.cleaned(B)
    note.close()
    assert list(cache.iterdir()) == []


def test_a_node_that_could_not_be_cleaned_is_the_next_ones_to_clean(cache):
    note = traces.begin("t", (A, B))
    note.sha256 = "ab"
    note.cleaned(A)
    note.close()
    with traces.left_by_others((A,)) as found:
        assert found == ()
    with traces.left_by_others((A, B)) as (left,):
        assert (left.token, left.sha256, left.has(A), left.has(B)) == ("t", "ab", False, True)
        # Another node of the same name is not meant.
        assert not left.has(Node(name="b", address="10.0.0.3"))
        with traces.left_by_others((B,)) as others:
            assert others == (), "somebody is cleaning already"
        left.cleaned(B)
    assert list(cache.iterdir()) == []


def test_a_killed_controller_leaves_its_note_and_a_torn_one_is_passed_over(cache):
    note = traces.begin("t", (A,))
    # What the end of the process does.
    note._file.close()
    (cache / "torn.json").write_text('{"token": ')
    with traces.left_by_others((A,)) as found:
        assert [one.token for one in found] == ["t"]
    assert json.loads((cache / "t.json").read_text())["nodes"] == ["a 10.0.0.1:22"]


def test_a_note_that_cannot_be_written_stops_before_any_node_is_touched(cache):
    cache.parent.mkdir()
    cache.write_text("a file where the folder has to be")
    with pytest.raises(ImageError, match="cannot be written"):
        traces.begin("t", (A,))
