"""Runs the node-side runner for real, in a scratch directory of this machine, under each shell that is here."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from clusterctl.apply import records, script
from clusterctl.apply.plan.model import NodePlan, PlannedStep

SHELLS = {"dash": ("dash",), "busybox": ("busybox", "sh"), "bash": ("bash",)}
NONCE = "0123456789abcdef"


@dataclass
class Ran:
    """One run of a script: what it recorded, and how it ended."""

    records: list[records.JournalRecord]
    returncode: int
    stderr: str

    def events(self, number=None):
        return [(r.number, r.event.value) for r in self.records if (number is None or r.number == number)]

    def detail(self, event):
        return next(r.detail for r in self.records if r.event.value == event)


@dataclass
class Runner:
    """A node in a directory: ``root`` holds its files, ``state`` its journal."""

    shell: tuple[str, ...]
    root: Path
    state: Path
    prelude: str = ""
    ending: str = ""

    def header(self, run, force=False):
        return script.Header(run, "tester@here", NONCE, str(self.state), force)

    def run_text(self, text, env=None):
        done = subprocess.run(
            (*self.shell, "-s"),
            input=(self.prelude + (text.rstrip() + self.ending if self.ending else text)).encode(),
            capture_output=True,
            timeout=60,
            check=False,
            env={**os.environ, **(env or {})},
        )
        parsed = [records.parse(line, NONCE) for line in done.stdout.decode().splitlines()]
        assert None not in parsed, done.stdout
        return Ran(parsed, done.returncode, done.stderr.decode())

    def apply(self, *steps, run="run1", env=None, requirement="test"):
        planned = tuple(s if isinstance(s, PlannedStep) else PlannedStep(requirement, s) for s in steps)
        return self.run_text(script.apply_script(self.header(run), NodePlan("n", planned)), env)

    def undo(self, run="", force=False, env=None):
        return self.run_text(script.undo_script(self.header(run, force)), env)

    def stand_ins(self, **programs):
        """Programs that this machine lacks or that must not run for real, first on the PATH of what is returned."""
        folder = self.root.parent / "bin"
        folder.mkdir(exist_ok=True)
        for name, body in programs.items():
            (folder / name.replace("_", "-")).write_text("#!/bin/sh\n" + body)
            (folder / name.replace("_", "-")).chmod(0o755)
        return {"PATH": f"{folder}:{os.environ['PATH']}"}

    def list(self, run=""):
        return self.run_text(script.list_script(self.header(run)))

    def seal_again(self, run="run1"):
        """Seal the entries of a run as they are now, as if the runner had written what a test changed in them."""
        for entry in (self.state / "journal" / run).glob("[0-9]*"):
            seal = entry / "seal"
            trees = [line for line in seal.read_text().splitlines() if line.split()[1] == "tree"]
            files = sorted(
                path for path in entry.iterdir() if path.name not in ("done", "undone", "seal", "prior.new")
            )
            sums = [
                f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_size} {path.name}"
                for path in files
                if path.is_file()
            ]
            seal.write_text("".join(f"{line}\n" for line in (*sums, *trees)))

    def snapshot(self):
        """Everything below ``root``: type, mode, owner, content, and the modification time (s) of plain files."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            info = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
            when = int(info.st_mtime) if stat.S_ISREG(info.st_mode) else 0
            found[str(path.relative_to(self.root))] = (info.st_mode, info.st_uid, info.st_gid, content, when)
        return found

    def contents(self):
        return {name: value[3] for name, value in self.snapshot().items() if stat.S_ISREG(value[0])}


@pytest.fixture(params=sorted(SHELLS))
def shell(request, tier_unavailable):
    """A POSIX shell: ``dash`` is Debian's sh, busybox's is that of small images, ``bash`` is RHEL's sh."""
    argv = SHELLS[request.param]
    if shutil.which(argv[0]) is None:
        tier_unavailable(f"{argv[0]} is missing")
    return argv


@pytest.fixture
def runner(shell, tmp_path):
    """A fresh node in a directory."""
    root = tmp_path / "root"
    root.mkdir()
    return Runner(shell, root, tmp_path / "state")
