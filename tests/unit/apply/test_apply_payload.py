"""Trees for nodes: the same tree packs the same, whatever it came in, and unsafe ones are refused."""

from __future__ import annotations

import base64
import io
import os
import tarfile

import pytest

from clusterctl.apply import payload
from clusterctl.errors import PlanError


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "nv_peer_mem-1.3"
    (root / "sub").mkdir(parents=True)
    (root / "Makefile").write_text("all:\n")
    (root / "sub/run").write_text("#!/bin/sh\n")
    (root / "sub/run").chmod(0o755)
    (root / "link").symlink_to("sub/run")
    return root


def _members(packed):
    raw = io.BytesIO(base64.b64decode(packed.base64_text))
    with tarfile.open(fileobj=raw, mode="r:gz") as archive:
        return {m.name: (oct(m.mode), m.type) for m in archive.getmembers()}


def test_a_directory_and_its_tarballs_are_one_tree(tree, tmp_path):
    expected = payload.pack(str(tree))
    assert _members(expected) == {
        "Makefile": ("0o644", tarfile.REGTYPE),
        "link": ("0o777", tarfile.SYMTYPE),
        "sub/run": ("0o755", tarfile.REGTYPE),
    }
    for suffix, mode in ((".tar", "w"), (".tar.gz", "w:gz"), (".tar.xz", "w:xz")):
        path = tmp_path / f"source{suffix}"
        with tarfile.open(path, mode) as archive:
            archive.add(tree, arcname=tree.name)
        assert payload.pack(str(path)) == expected


def test_times_and_owners_do_not_count(tree):
    before = payload.pack(str(tree))
    os.utime(tree / "Makefile", (1, 1))
    assert payload.pack(str(tree)) == before
    (tree / "Makefile").write_text("all: x\n")
    assert payload.pack(str(tree)).sha256 != before.sha256


def test_git_is_left_at_home(tree):
    before = payload.pack(str(tree))
    (tree / ".git").mkdir()
    (tree / ".git/config").write_text("secret")
    assert payload.pack(str(tree)) == before


def _tarball(path, name, **fields):
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo(name)
        for key, value in fields.items():
            setattr(member, key, value)
        archive.addfile(member, io.BytesIO(b""))
    return str(path)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("../climbs", {}),
        ("/absolute", {}),
        ("link", {"type": tarfile.SYMTYPE, "linkname": "/etc/shadow"}),
        ("a/link", {"type": tarfile.SYMTYPE, "linkname": "../../out"}),
        ("null", {"type": tarfile.CHRTYPE}),
    ],
)
def test_a_tarball_that_leads_out_is_refused(tmp_path, name, fields):
    with pytest.raises(PlanError):
        payload.pack(_tarball(tmp_path / "t.tar", name, **fields))


@pytest.mark.parametrize("kind", ["missing", "empty folder", "no tarball"])
def test_what_is_no_tree_is_refused_with_a_hint(tmp_path, kind):
    path = tmp_path / "it"
    if kind == "empty folder":
        path.mkdir()
    elif kind == "no tarball":
        path.write_text("hello")
    with pytest.raises(PlanError) as refused:
        payload.pack(str(path))
    assert refused.value.hint


def test_a_tree_too_large_to_travel_is_refused(tree, monkeypatch):
    monkeypatch.setattr(payload, "LIMIT_BYTES", 4096)
    (tree / "big").write_bytes(b"x" * 8192)
    with pytest.raises(PlanError, match="holds more than 4 KiB"):
        payload.pack(str(tree))
