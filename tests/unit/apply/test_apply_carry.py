"""Packages on their way to a node, of which a file is gone by now."""

from __future__ import annotations

import hashlib

import pytest

from clusterctl.apply import carry
from clusterctl.errors import CommandError
from clusterctl.transport.base import Completed


class Node:
    """A node that has nothing of what is carried yet; it records the programs it ran and the files it got."""

    node = "n"

    def __init__(self):
        self.told, self.files = [], {}

    def run(self, argv, *, stdin=b"", timeout_s=None, as_root=False):
        self.told.append(argv[0])
        return Completed(argv, 0, b"", b"", 0.1)

    def put(self, data, path, *, mode, as_root):
        self.files[path.rpartition("/")[2]] = bytes(data)


def test_a_package_that_is_gone_since_the_plan_was_made_is_named_and_the_node_keeps_no_half_of_it(tmp_path):
    texts = {"a_1_all.deb": b"a", "empty_1_all.deb": b"", "z_1_all.deb": b"z"}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    sums = "".join(f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in texts.items())
    (tmp_path / "SHA256SUMS").write_text(sums)
    folder, node = carry.read(str(tmp_path), "apt", ("a",)), Node()
    shown = []
    carry.carry(node, {str(tmp_path): folder}, "/carried", lambda *sent: shown.append(sent))
    assert node.files == texts
    assert shown == [(0, 2), (1, 2), (1, 2)], "bytes before each file, and of all"
    (tmp_path / "z_1_all.deb").unlink()
    with pytest.raises(CommandError, match=r"z_1_all\.deb can no longer be read: No such file"):
        carry.carry(node, {str(tmp_path): folder}, "/carried", lambda *_: None)
    assert node.told[-1] == "rm"
