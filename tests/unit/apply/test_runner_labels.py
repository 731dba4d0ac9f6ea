"""What a file carries beside content, mode and owner: its SELinux label and other attributes outlive every edit.

A kernel keeps labels (the attribute ``security.selinux``) whether or not it enforces them; where it does, coreutils
copies them by SELinux's own calls instead.
"""

from __future__ import annotations

import contextlib
import os

import pytest

from clusterctl.requirements.steps import WriteBlock, WriteFile

LABEL = b"system_u:object_r:etc_t:s0\0"
# busybox's cp knows no attributes, and its systems have none that matter.
pytestmark = pytest.mark.parametrize("shell", ["bash", "dash"], indirect=True)
NAMES = ("plain", "keys", "target", "first")


@pytest.fixture
def labelled(runner, tier_unavailable):
    """A node with labelled files: one alone, one for a block, one behind a link, and one with two names."""
    root = runner.root
    for name in NAMES:
        (root / name).write_text("old\n")
    (root / "link").symlink_to("target")
    (root / "second").hardlink_to(root / "first")
    try:
        for name in NAMES:
            os.setxattr(root / name, "security.selinux", LABEL)
    except OSError as error:
        tier_unavailable(f"labels cannot be set here: {error}")
    for name in NAMES:
        with contextlib.suppress(OSError):  # tmpfs has these only since Linux 6.6
            os.setxattr(root / name, "user.origin", b"site")
    return runner


def _attributes(root):
    return {name: {key: os.getxattr(root / name, key) for key in os.listxattr(root / name)} for name in NAMES}


@pytest.mark.parametrize("number", [1, 2])
def test_edits_and_their_undo_keep_labels(labelled, number):
    """One file alone, and several in a row, which are written together."""
    root = labelled.root
    before = _attributes(root)
    assert all(found["security.selinux"] == LABEL for found in before.values())
    steps = [
        WriteFile("plain", str(root / "plain"), "new\n", 0o640),
        WriteBlock("keys", str(root / "keys"), "mesh", "a line\n"),
        WriteFile("link", str(root / "link"), "new\n"),
        WriteFile("first", str(root / "first"), "new\n"),
    ]
    if number == 2:
        steps = [steps[0], *steps[2:], steps[1]]
    ran = labelled.apply(*steps)
    assert [r.event.value for r in ran.records if r.number and r.event.value == "changed"] == ["changed"] * 4
    assert "old\n" not in {(root / name).read_text() for name in NAMES}
    assert _attributes(root) == before
    labelled.undo()
    assert {(root / name).read_text() for name in NAMES} == {"old\n"}
    assert _attributes(root) == before
