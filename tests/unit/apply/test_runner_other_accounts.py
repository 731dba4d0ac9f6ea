"""Blocks in directories of an account that replaces names by links, at any moment: root follows none of them."""

from __future__ import annotations

import os
import random
import shutil
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from soak import spread

from clusterctl.requirements.steps import WriteBlock

ACCOUNT = "daemon"
SECRET = "root:a-secret:1\n"
BLOCK = "ssh-ed25519 BBBB mesh\n"
MARKED = f"# BEGIN clusterctl mesh\n{BLOCK}# END clusterctl mesh\n"
PROGRAMS = [
    "awk",
    "cat",
    "chmod",
    "chown",
    "cmp",
    "cp",
    "head",
    "id",
    "ln",
    "ls",
    "mkdir",
    "mv",
    "readlink",
    "rm",
    "rmdir",
    "sed",
    "stat",
    "sync",
    "tail",
    "touch",
]

# What the account does once, in its home: $ROOTS is a directory of root with a secret.
ATTACKS = {
    "the directory becomes a link": 'mv .ssh aside; ln -s "$ROOTS" .ssh',
    "the file becomes a link to a secret": 'mkdir -p .ssh; ln -sf "$ROOTS/secret" .ssh/authorized_keys',
    "the file becomes a link to a directory": 'rm -f .ssh/authorized_keys; ln -s "$ROOTS" .ssh/authorized_keys',
    "scratch names become links to a secret": 'for f in .ssh/.a*; do mv "$f" aside; ln -s "$ROOTS/secret" "$f"; done',
    "scratch names become links to a directory": 'for f in .ssh/.a*; do mv "$f" aside; ln -s "$ROOTS" "$f"; done',
    "scratch directories are replaced": (
        'for f in .ssh/.a*; do mv "$f" aside; mkdir "$f"; '
        'for n in new held whole new.cut; do ln -s "$ROOTS/secret" "$f/$n"; done; done'
    ),
    "the home's directory and its file are replaced": (
        'mv .ssh aside; mkdir .ssh; ln -s "$ROOTS/authorized_keys" .ssh/authorized_keys'
    ),
}


class Home:
    """The account's home below ``/tmp``, and a directory of root beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.chmod(0o755)
        self.home, self.roots = root / "home", root / "roots"
        self.home.mkdir()
        shutil.chown(self.home, ACCOUNT, ACCOUNT)
        self.roots.mkdir(mode=0o700)
        for name in ("secret", "authorized_keys"):
            (self.roots / name).write_text(SECRET)
            (self.roots / name).chmod(0o600)
        self.keys = self.home / ".ssh/authorized_keys"

    def write(self, text: str) -> None:
        self.keys.parent.mkdir(mode=0o700)
        self.keys.write_text(text)
        self.keys.chmod(0o600)
        for path in (self.keys.parent, self.keys):
            shutil.chown(path, ACCOUNT, ACCOUNT)

    def step(self) -> WriteBlock:
        return WriteBlock("allow", str(self.keys), "mesh", BLOCK, 0o600, ACCOUNT)

    def of_root(self) -> list[tuple[str, int, int, bytes]]:
        found = []
        for path in (self.roots, *sorted(self.roots.rglob("*"))):
            info = path.lstat()
            found.append(
                (
                    path.name,
                    info.st_mode,
                    info.st_uid,
                    path.read_bytes() if stat.S_ISREG(info.st_mode) else b"",
                )
            )
        return found

    def leaked(self) -> list[Path]:
        """Return the files of the account that hold root's secret."""
        return [
            path
            for path in self.home.rglob("*")
            if path.is_file()
            and not path.is_symlink()
            and path.owner() == ACCOUNT
            and SECRET in path.read_text()
        ]


@pytest.fixture
def home(tier_unavailable):
    if os.geteuid() != 0:
        tier_unavailable("only root writes for other accounts")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Home(Path(folder))


@pytest.fixture
def node(runner, home):
    return replace(runner, root=home.root / "home", state=home.root / "state")


def _before_program(node, home: Home, moment: int, act: str) -> dict[str, str]:
    """Stand-ins of the programs that the runner starts; before the one of this number, something happens."""
    count = home.root / "count"
    first = f"echo >>{count}; if [ $(($(wc -c <{count}))) = {moment} ]; then {act}; fi\n"
    return node.stand_ins(**{name: f'{first}exec {shutil.which(name)} "$@"\n' for name in PROGRAMS})


def _attacked(node, home: Home, attack: str, moment: int) -> dict[str, str]:
    act = (
        f"ROOTS={home.roots} setpriv --reuid={ACCOUNT} --regid={ACCOUNT} --clear-groups "
        f"sh -c 'PATH={os.environ['PATH']}; cd {home.home} && {attack}' >/dev/null 2>&1 </dev/null"
    )
    return _before_program(node, home, moment, act)


def _killed(node, home: Home, moment: int) -> dict[str, str]:
    return _before_program(node, home, moment, "kill -9 $RUNNER")


_COUNTED: list[int] = []


def _moments(node, home: Home) -> int:
    if _COUNTED:
        return _COUNTED[0]
    env = _attacked(node, home, ":", 0)
    assert node.apply(home.step(), env=env).events(1)[-1] == (1, "changed")
    assert node.undo(env=env).events(1)[-1] == (1, "changed")
    moments = (home.root / "count").stat().st_size
    (home.root / "count").unlink()
    shutil.rmtree(node.state)
    _COUNTED.append(moments)
    return moments


@pytest.mark.soak
@pytest.mark.parametrize("seed", spread(range(100), 6))
@pytest.mark.parametrize("shell", [("dash",)])
def test_an_account_that_replaces_names_at_any_moment_gains_nothing(node, home, seed):
    draw = random.Random(seed)
    moment = draw.randint(1, _moments(node, home))
    if draw.random() < 0.7:
        home.write(draw.choice(["ssh-ed25519 AAAA mine\n", "", "no newline", MARKED.replace("BBBB", "CCCC")]))
        if draw.random() < 0.3:
            os.link(home.keys, home.home / "other-name")
    before = home.of_root()
    name = draw.choice(sorted(ATTACKS))
    env = _attacked(node, home, ATTACKS[name], moment)
    applied = node.apply(home.step(), env=env)
    undone = node.undo(env=env)
    told = (seed, name, moment, applied.records, undone.records)
    assert home.of_root() == before, told
    assert home.leaked() == [], told
    assert not [p for p in home.roots.rglob("*") if p.owner() != "root"], told


def test_a_directory_that_leads_to_roots_is_refused_with_its_name(node, home):
    home.home.joinpath(".ssh").symlink_to(home.roots)
    before = home.of_root()
    ran = node.apply(home.step())
    assert f"leads to {home.roots}, which is owned by root, not by {ACCOUNT}" in ran.detail("failed")
    (home.roots / "authorized_keys").unlink()
    assert "owned by root" in node.apply(home.step(), run="run2").detail("failed")
    assert [name for name, *_ in home.of_root()] == [name for name, *_ in before if name != "authorized_keys"]


def test_an_undo_does_not_follow_a_directory_that_became_a_link(node, home):
    home.write("mine\n")
    assert (1, "changed") in node.apply(home.step()).events(1)
    (home.roots / "authorized_keys").write_text("root's\n" + MARKED)
    home.keys.parent.rename(home.home / "aside")
    home.home.joinpath(".ssh").symlink_to(home.roots)
    assert "owned by root" in node.undo().detail("failed")
    assert (home.roots / "authorized_keys").read_text() == "root's\n" + MARKED
    home.keys.parent.unlink()
    (home.home / "aside").rename(home.keys.parent)
    assert (1, "changed") in node.undo().events(1)
    assert home.keys.read_text() == "mine\n"


@pytest.mark.parametrize("text", [None, "no newline"])
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("shell", [("dash",), ("busybox", "sh")])
def test_undo_gives_back_every_byte_and_leaves_no_directory(node, home, text, linked):
    if text is not None:
        home.write(text)
        os.utime(home.keys, (10**9, 10**9))
        if linked:
            os.link(home.keys, home.home / "other-name")
    elif linked:
        # A directory elsewhere that is the account's own.
        (home.home / "dotfiles").mkdir()
        shutil.chown(home.home / "dotfiles", ACCOUNT, ACCOUNT)
        home.home.joinpath(".ssh").symlink_to("dotfiles")
    before = node.snapshot()
    assert node.apply(home.step()).events(1) == [(1, "begin"), (1, "changed")]
    assert home.keys.read_text().endswith(MARKED)
    assert (home.keys.owner(), home.keys.stat().st_mode & 0o7777) == (ACCOUNT, 0o600)
    assert [path.name for path in home.keys.parent.iterdir()] == ["authorized_keys"]
    if linked and text is not None:
        assert (home.home / "other-name").read_text() == home.keys.read_text()
    assert node.apply(home.step()).events(1) == [(1, "unchanged")]
    assert node.undo().events(1)[-1] == (1, "changed")
    assert node.snapshot() == before


def test_a_file_of_another_owner_is_named(node, home):
    home.write("mine\n")
    os.chown(home.keys, 2, 2)
    assert "is owned by bin, not by daemon" in node.apply(home.step()).detail("failed")
    assert home.keys.read_text() == "mine\n"


@pytest.mark.soak
@pytest.mark.parametrize("shell", [("dash",)])
@pytest.mark.parametrize("there", [False, True])
def test_a_runner_that_is_killed_at_any_program_leaves_nothing(node, home, there):
    if there:
        home.write("no newline")
        os.utime(home.keys, (10**9, 10**9))
    before = node.snapshot()
    node.prelude = "RUNNER=$$; export RUNNER\n"
    moments = _moments(node, home)
    assert node.snapshot() == before
    for moment in spread(range(1, moments + 1), 5):
        killed = node.apply(home.step(), env=_killed(node, home, moment))
        (home.root / "count").unlink()
        if moment % 2:
            node.apply(home.step())
        node.undo()
        assert node.snapshot() == before, (moment, killed.records)
        shutil.rmtree(node.state, ignore_errors=True)
