"""Blocks in files that others write too: written, replaced, and taken out without touching anything else."""

from __future__ import annotations

import os

import pytest
from soak import spread

from clusterctl.requirements.steps import WriteBlock, WriteFile

OLD = "ssh-ed25519 AAAA alice\n"


def _block(runner, content="one\ntwo\n", name="mesh", **more):
    return WriteBlock("keep the block", str(runner.root / "home/keys"), name, content, **more)


def _marked(content, name="mesh"):
    return f"# BEGIN clusterctl {name}\n{content}# END clusterctl {name}\n"


@pytest.fixture
def keys(runner):
    """A file that its owner writes too: its own mode, owner and time."""
    path = runner.root / "home/keys"
    path.parent.mkdir()
    path.write_text(OLD)
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 12, 34)
    os.utime(path, (10**9, 10**9))
    return path


@pytest.mark.parametrize("text", [OLD, "", "no newline at its end", "\n\n", "a\\nb\n%s $(x)\n"])
def test_a_block_is_added_at_the_end_and_undo_gives_back_every_byte(runner, keys, text):
    keys.write_text(text)
    os.utime(keys, (10**9, 10**9))
    before = runner.snapshot()
    step = _block(runner)
    assert runner.apply(step).events(1) == [(1, "begin"), (1, "changed")]
    newline = "" if not text or text.endswith("\n") else "\n"
    assert keys.read_text() == text + newline + _marked("one\ntwo\n")
    assert keys.stat().st_mode & 0o7777 == 0o600
    if os.geteuid() == 0:
        assert (keys.stat().st_uid, keys.stat().st_gid) == (12, 34)
    assert runner.apply(step).events(1) == [(1, "unchanged")]
    assert runner.undo().events(1)[-1] == (1, "changed")
    assert runner.snapshot() == before


def test_an_undo_on_a_full_disk_fails_and_the_next_gives_back_every_byte(runner, keys):
    keys.write_text("no newline at its end")
    os.utime(keys, (10**9, 10**9))
    before = runner.snapshot()
    runner.apply(_block(runner))
    after = runner.contents()
    runner.prelude = 'head() { case $1 in -c) printf n; return 1 ;; esac; command head "$@"; }\n'
    assert runner.undo().events(1)[-1] == (1, "failed")
    assert runner.contents() == after
    runner.prelude = ""
    assert runner.undo().events(1)[-1] == (1, "changed")
    assert runner.snapshot() == before


def test_a_new_file_has_its_mode_and_goes_with_the_folders_that_were_made(runner):
    before = runner.snapshot()
    assert (1, "changed") in runner.apply(_block(runner, mode=0o640)).events(1)
    path = runner.root / "home/keys"
    assert (path.read_text(), path.stat().st_mode & 0o7777) == (_marked("one\ntwo\n"), 0o640)
    runner.undo()
    assert runner.snapshot() == before


def test_a_new_file_and_its_new_folder_are_the_owners(runner, tier_unavailable):
    if os.geteuid() != 0:
        tier_unavailable("only root gives files away")
    runner.apply(_block(runner, owner="daemon", mode=0o600))
    path = runner.root / "home/keys"
    assert (path.owner(), path.parent.owner()) == ("daemon", "daemon")
    assert path.parent.stat().st_mode & 0o7777 == 0o700
    ran = runner.apply(_block(runner, name="other", owner="nobody-of-this-name"))
    assert "user nobody-of-this-name does not exist" in ran.detail("failed")


def test_undo_takes_out_the_block_alone_when_the_file_was_edited_around_it(runner, keys):
    runner.apply(_block(runner))
    keys.write_text("# mine\n" + keys.read_text() + "later\n")
    runner.undo()
    assert keys.read_text() == "# mine\n" + OLD + "later\n"
    assert keys.stat().st_mode & 0o7777 == 0o600


def test_a_new_file_that_somebody_added_to_stays_without_the_block(runner):
    runner.apply(_block(runner))
    path = runner.root / "home/keys"
    path.write_text(path.read_text() + "theirs\n")
    runner.undo()
    assert path.read_text() == "theirs\n"


def test_a_block_edited_by_hand_is_kept_unless_forced(runner, keys):
    runner.apply(_block(runner))
    keys.write_text(keys.read_text().replace("two", "three"))
    ran = runner.undo()
    assert "was changed since; use --force" in ran.detail("failed")
    assert "three" in keys.read_text()
    assert (1, "changed") in runner.undo(force=True).events(1)
    assert keys.read_text() == OLD


def test_a_block_whose_lines_an_editor_ended_otherwise_is_found(runner, keys):
    runner.apply(_block(runner))
    keys.write_bytes(keys.read_bytes().replace(b"\n", b"\r\n"))
    ran = runner.undo()
    assert "was changed since; use --force" in ran.detail("failed")
    assert (1, "changed") in runner.undo(force=True).events(1)
    assert keys.read_bytes() == OLD.replace("\n", "\r\n").encode()


MADE = _marked("one\ntwo\n")
# What an editor makes of the whole file, and whether undo with force can take out the block then.
EDITS = {
    "lines that end by \\r\\n": (lambda text: text.replace("\n", "\r\n"), True),
    "lines that end by \\r\\r\\n": (lambda text: text.replace("\n", "\r\r\n"), True),
    "lines that end by \\r": (lambda text: text.replace("\n", "\r"), False),
    "lines that end by \\n\\r": (lambda text: text.replace("\n", "\n\r"), False),
    "a blank at each end": (lambda text: text.replace("\n", " \n"), True),
    "tabs at each end": (lambda text: text.replace("\n", "\t\t\n"), True),
    "indented": (lambda text: "".join(f"    {line}\n" for line in text.splitlines()), True),
    "indented by tabs": (lambda text: "".join(f"\t{line}\r\n" for line in text.splitlines()), True),
    "quoted": (lambda text: "".join(f"> {line}\n" for line in text.splitlines()), False),
    "commented out": (lambda text: "".join(f"#{line}\n" for line in text.splitlines()), False),
    "a form feed at each end": (lambda text: text.replace("\n", "\f\n"), True),
    "an empty line behind each": (lambda text: text.replace("\n", "\n\n"), True),
    "the block twice": (lambda text: text + MADE, False),
    "the begin twice": (lambda text: text.replace("# BEGIN", "# BEGIN clusterctl mesh\n# BEGIN"), False),
    "no end": (lambda text: text.replace("# END clusterctl mesh\n", ""), False),
    "no begin": (lambda text: text.replace("# BEGIN clusterctl mesh\n", ""), False),
    "end before begin": (lambda text: text.replace("BEGIN", "X").replace("END", "BEGIN").replace("X", "END"), False),
    "a line of another between": (lambda text: text.replace("two", "two\nssh-ed25519 CCCC eve"), True),
    "NUL for the mark's blank": (lambda text: text.replace("# END ", "# END\0"), False),
    "another block whose name is longer": (lambda text: text + _marked("x\n", "mesh2"), True),
}  # fmt: skip
FRAMES = {
    "alone": ("", ""),
    "with a byte order mark": ("\ufeff", ""),
    "with a line of the account behind it": ("", "ssh-ed25519 DDDD mine\n"),
    "with an open last line": ("# mine\n", "ssh-ed25519 DDDD mine"),
    "in the middle of many": ("# mine\n" * 500, "# mine\n" * 500),
}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("shell", "frame"),
    spread([(("dash",), frame) for frame in FRAMES] + [(("busybox", "sh"), frame) for frame in FRAMES], 2),
    ids=str,
)
def test_no_edit_of_lines_hides_a_block_from_undo(runner, frame):
    """Each edit of a file: after undo with force its block is gone, or its entry failed and says what to do."""
    (runner.root / "home").mkdir()
    paths = [runner.root / f"home/keys{number}" for number in range(len(EDITS))]
    for path in paths:
        path.write_text(OLD)
    runner.apply(*(WriteBlock("keep the block", str(path), "mesh", "one\ntwo\n") for path in paths))
    edited = []
    before, behind = FRAMES[frame]
    for path, (edit, _) in zip(paths, EDITS.values(), strict=True):
        assert path.read_text() == OLD + MADE
        path.write_bytes(edit(before + OLD + MADE + behind).encode())
        edited.append(path.read_bytes())
    undone = {one.number: one for one in runner.undo().records if one.event.value in ("changed", "failed")}
    forced = {
        one.number: one for one in runner.undo(force=True).records if one.event.value in ("changed", "failed")
    }
    for number, (path, case, was) in enumerate(zip(paths, EDITS, edited, strict=True), 1):
        first, last, now = undone[number], forced.get(number, undone[number]), path.read_bytes()
        if first.event.value == "failed":
            assert (
                "was changed since; use --force" in first.detail or "repair them by hand" in first.detail
            ), case
        can = EDITS[case][1]
        assert (last.event.value == "changed") is can, (case, last.detail)
        if can:
            assert b"one" not in now and b"two" not in now and b"clusterctl mesh\n" not in now, (case, now)
            assert now.count(b"alice") == 1 and now.count(b"mine") == was.count(b"mine"), (case, now)
        else:
            assert "do not match: repair them by hand" in last.detail and now == was, (case, last.detail)


def test_a_block_that_was_removed_by_hand_needs_no_undo(runner, keys):
    runner.apply(_block(runner))
    keys.write_text("else\n")
    assert (1, "changed") in runner.undo().events(1)
    assert keys.read_text() == "else\n"


def test_a_later_round_replaces_the_block_and_undo_goes_back_to_before_the_run(runner, keys):
    before = runner.snapshot()
    runner.apply(_block(runner, "one\n"))
    keys.write_text("# above\n" + keys.read_text())
    assert (1, "changed") in runner.apply(_block(runner, "one\ntwo\n")).events(1)
    assert keys.read_text() == "# above\n" + OLD + _marked("one\ntwo\n")
    keys.write_text(keys.read_text().removeprefix("# above\n"))
    runner.undo()
    assert runner.snapshot() == before


def test_a_block_of_an_earlier_run_comes_back(runner, keys):
    runner.apply(_block(runner, "old\n"), run="first")
    keys.write_text(keys.read_text() + "below\n")
    before = keys.read_bytes()
    runner.apply(_block(runner, "new\n"), run="second")
    assert keys.read_text() == OLD + _marked("new\n") + "below\n"
    runner.undo(run="second")
    assert keys.read_bytes() == before
    runner.undo(run="first")
    assert keys.read_text() == OLD + "below\n"


def test_two_blocks_live_in_one_file(runner, keys):
    before = runner.snapshot()
    runner.apply(_block(runner, "a\n", "a"), _block(runner, "b\n", "b"))
    assert keys.read_text() == OLD + _marked("a\n", "a") + _marked("b\n", "b")
    runner.undo()
    assert runner.snapshot() == before


@pytest.mark.parametrize(
    "text", ["# BEGIN clusterctl mesh\nx\n", "# END clusterctl mesh\n", _marked("a\n") * 2]
)
def test_marks_that_are_no_pair_are_left_alone(runner, keys, text):
    keys.write_text(text)
    ran = runner.apply(_block(runner))
    assert "do not match" in ran.detail("failed")
    assert keys.read_text() == text


def test_an_empty_block_and_one_without_a_last_newline(runner, keys):
    runner.apply(_block(runner, "", "empty"), _block(runner, "open", "open"))
    assert keys.read_text() == OLD + _marked("", "empty") + _marked("open\n", "open")
    runner.undo()
    assert keys.read_text() == OLD


def test_a_users_link_to_a_file_of_another_is_not_followed(runner, tier_unavailable):
    if os.geteuid() != 0:
        tier_unavailable("only root writes where a user may have linked")
    (runner.root / "shadow").write_text("root's\n")
    (runner.root / "home").mkdir()
    (runner.root / "home/keys").symlink_to("../shadow")
    ran = runner.apply(_block(runner, owner="daemon"))
    assert "which is not owned by daemon" in ran.detail("failed")
    assert (runner.root / "shadow").read_text() == "root's\n"


def test_other_names_of_a_file_see_its_change_and_its_undo(runner, keys):
    other = runner.root / "other-name"
    os.link(keys, other)
    before = runner.snapshot()
    runner.apply(_block(runner), WriteFile("whole", str(runner.root / "plain"), "x"))
    assert other.read_text() == keys.read_text() == OLD + _marked("one\ntwo\n")
    assert other.stat().st_ino == keys.stat().st_ino
    assert not list(keys.parent.glob(".*"))
    runner.undo()
    assert runner.snapshot() == before
    assert other.stat().st_ino == keys.stat().st_ino


def test_a_change_in_place_that_power_loss_tore_is_ended_first(runner, keys):
    os.link(keys, runner.root / "other-name")
    before = runner.snapshot()
    runner.apply(_block(runner))
    # As it is left when the power goes while the new text is copied over the old one.
    (keys.parent / ".keys.clusterctl-whole").write_bytes(keys.read_bytes())
    (keys.parent / ".keys.clusterctl-whole").chmod(0o600)
    if os.geteuid() == 0:
        os.chown(keys.parent / ".keys.clusterctl-whole", 12, 34)
    keys.write_text(OLD + "# BEGIN clus")
    runner.undo()
    assert runner.snapshot() == before
