"""Nodes with something wrong: farm nodes in mount namespaces of their own, and a bootstrap of every step kind.

Each node sees its own journal, its own ``boot_id`` and its own programs first in PATH; all of that lies below one
scratch directory, and goes with the namespace and the directory.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from apt_stand_in import APT_GET, DPKG_QUERY
from python_stand_in import PYTHON
from sshd_farm import Farm, SshdNode, wait_for_listeners

from clusterctl.apply.engine import Engine
from clusterctl.facts.gather import gather
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.model.services import ManagedFile
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.steps import (
    Command,
    EnableUnit,
    InstallPackages,
    LoadModule,
    MakeVenv,
    PutTree,
    RestartUnit,
    SetRegister,
    Step,
    WriteBlock,
    WriteFile,
    WriteValue,
)
from clusterctl.transport.connect import Connector
from clusterctl.transport.fanout import fan_out

STATE = "/var/lib/clusterctl"

# "$1" holds state, boot_id and bin of this node; the rest is the daemon's command.
_ENTER = """set -e
mount --make-rprivate /
mkdir -p /var/lib/clusterctl
mount --bind "$1/state" /var/lib/clusterctl
mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$1/modules" /sys/module
{extra}
shift
exec "$@"
"""

SYSTEMCTL = """#!/bin/sh
units={units}
echo "$*" >>{calls}
case $1 in
  is-enabled) [ -e $units/enabled ] && echo enabled || {{ echo disabled; exit 1; }} ;;
  is-active) [ -e $units/active ] && echo active || {{ echo inactive; exit 3; }} ;;
  enable) touch $units/enabled ;;
  disable) rm -f $units/enabled ;;
  start) touch $units/active ;;
  stop) rm -f $units/active ;;
  reboot) {reboot} ;;
esac
"""


# One register of one device, and modules that are loaded where the node's kernel would show them.
# A register is written whole or not at all, also by a program that is killed.
SETPCI = """case $3 in
  *=*) printf '%s\\n' "${{3#*=}}" >{fresh} && mv {fresh} {register} ;;
  *) cat {register} ;;
esac"""
MODPROBE = """case $1 in -r) rmdir /sys/module/$2 ;; *) mkdir /sys/module/$1 ;; esac"""

# What is flushed between a step's first change and its mark, or next after its mark, waits. The journal's directories
# alone are flushed between an entry's coming into being and the record of it, which must pass.
SYNC = """held={folder}/held
if [ -e $held ]; then
  read -r entry event <$held
  case $#$1 in 1{state}/journal*) ;; *)
    for found in {state}/journal/*/$entry; do
      case $event in changed) found=$found/done ;; esac
      while [ -e "$found" ] && [ -e $held ]; do sleep 0.05; done
    done ;;
  esac
fi
exec {sync} "$@\""""


MARK_OF_VENV = "opt/venv/.clusterctl-venv"
_HELD = ("state", "root", "modules", "packages")


def _copy(*words: str) -> None:
    subprocess.run(("cp", "-a", "--", *words), check=True, timeout=60)


@dataclasses.dataclass
class FaultNode:
    """One node in its namespace: ``folder`` holds what is its own, ``root`` what the steps change."""

    node: SshdNode
    folder: Path

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def state(self) -> Path:
        """Its ``/var/lib/clusterctl``, as seen from here."""
        return self.folder / "state"

    def boot_anew(self) -> None:
        """Lose everything that runs, and come back with another boot id, as after a power cut."""
        self.node.stop()
        self.new_boot_id()
        self.node.start()
        wait_for_listeners([self.node])

    def new_boot_id(self) -> None:
        """Write another boot id, in place: the namespaces have this very file."""
        (self.folder / "boot_id").write_text(f"{os.urandom(16).hex()}\n")

    def program(self, name: str, body: str) -> None:
        """Put a program first in the node's PATH."""
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def hold_at(self, point: tuple[int, str] | None) -> None:
        """Have the next run stop behind the record of this step and event, and before it has come to its end."""
        real = shutil.which("sync")
        self.program("sync", SYNC.format(folder=self.folder, state=STATE, sync=real))
        if point is not None:
            (self.folder / "held").write_text(f"{point[0]:04d} {point[1]}\n")

    def let_go(self) -> None:
        """Let a runner that was held go on."""
        (self.folder / "held").unlink(missing_ok=True)

    def idle(self, timeout_s: float = 30.0) -> None:
        """Wait until no runner is at work; one that was killed leaves its lock."""
        deadline = time.monotonic() + timeout_s
        while self._holder_lives():
            assert time.monotonic() < deadline, "a runner did not end"
            time.sleep(0.02)

    def _holder_lives(self) -> bool:
        try:
            return Path("/proc", (self.state / "lock").read_text().split()[0]).exists()
        except (OSError, IndexError):
            return False

    def snapshot(self) -> dict[str, object]:
        """Everything below ``root``: type, mode, owner, content or target, time of plain files; modules, packages."""
        loaded = sorted(path.name for path in (self.folder / "modules").iterdir())
        installed = sorted(path.name for path in (self.folder / "packages").iterdir())
        things = [f"module {name}" for name in loaded] + [f"package {name}" for name in installed]
        found: dict[str, object] = dict.fromkeys(things, (0, 0, 0, b"", 0))
        for path in sorted(self.root.rglob("*")):
            info = path.lstat()
            content: object = path.readlink() if path.is_symlink() else b""
            when = 0
            if stat.S_ISREG(info.st_mode):
                content, when = path.read_bytes(), int(info.st_mtime)
            name = str(path.relative_to(self.root))
            if name == MARK_OF_VENV and isinstance(content, bytes):
                content = content.partition(b"\n")[2]  # behind the run that made it
            # Values stand for files of sysfs and for registers, marks of units for systemd: none keeps a time.
            kept = when if name not in ("value", "register", "units/enabled", "units/active") else 0
            found[name] = (info.st_mode, info.st_uid, info.st_gid, content, kept)
        return found

    def keep(self) -> None:
        """Copy all that the node holds, its journal too, so that two ways on can start from the same state."""
        kept = self.folder / "kept"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir()
        _copy(*(str(self.folder / name) for name in _HELD), str(kept))

    def put_back(self) -> None:
        """Make the node what it was when it was kept; the directories themselves are mounted, and stay."""
        for name in _HELD:
            for path in (self.folder / name).iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            _copy(f"{self.folder}/kept/{name}/.", str(self.folder / name))

    def after(self) -> dict[str, object]:
        """What the steps are to bring about, without times and without what is not theirs."""
        return {name: what[:4] for name, what in self.snapshot().items()}  # type: ignore[index]


def enter(farm: Farm, folder: Path, extra: str = "") -> list[FaultNode]:
    """Restart all nodes of a farm, each in a mount namespace of its own; ``extra`` is more shell text there."""
    nodes = []
    for node in farm.nodes:
        node.stop()
        made = FaultNode(node, folder / node.name)
        for name in ("state", "root", "modules", "packages", "bin"):
            (made.folder / name).mkdir(parents=True)
        made.new_boot_id()
        path = f"{made.folder}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        script = _ENTER.format(extra=extra)
        node.command = (
            "unshare", "-m", "sh", "-c", script, "sh", str(made.folder), *node.command,
            "-o", f"SetEnv=SHLVL=1 PATH={path}",
        )  # fmt: skip
        node.start()
        nodes.append(made)
    wait_for_listeners(farm.nodes)
    return nodes


def times_told(runs: Path, words: str) -> int:
    """How often nodes have reported such words so far, in all runs below a directory."""
    return sum(
        journal.read_text(errors="replace").count(words) for journal in runs.glob("*/apply.journal.jsonl")
    )


def furnish(node: FaultNode) -> None:
    """Put in place what stood on the node before: files of other modes, owners and times, a value, a tree."""
    root = node.root
    (root / "old").write_bytes(b"old \xff bytes, no newline")
    (root / "old").chmod(0o604)
    os.chown(root / "old", 12, 34)
    (root / "keys").write_text("somebody's key")
    (root / "keys").chmod(0o600)
    os.link(root / "keys", root / "keys-by-another-name")
    (root / "real").write_text("behind a link\n")
    (root / "link").symlink_to("real")
    (root / "value").write_text("a\n")
    (root / "tree").mkdir()
    (root / "tree/mine").write_text("mine\n")
    (root / "units").mkdir()
    for name in ("old", "keys", "real", "tree/mine"):
        os.utime(root / name, (10**9, 10**9))
    text = SYSTEMCTL.format(units=root / "units", calls=node.folder / "calls", reboot="exit 1")
    (node.folder / "bin/systemctl").write_text(text)
    (node.folder / "bin/systemctl").chmod(0o755)
    (root / "register").write_text("001d\n")
    node.program("setpci", SETPCI.format(register=root / "register", fresh=node.folder / "register.new"))
    node.program("modprobe", MODPROBE)
    (node.folder / "packages/present").touch()
    (node.folder / "python3").write_text(PYTHON)
    (node.folder / "python3").chmod(0o755)
    for name, body in (("apt-get", APT_GET), ("dpkg-query", DPKG_QUERY)):
        node.program(name, body.format(db=node.folder / "packages", state=STATE))


class Everything:
    """A requirement with a step of every kind that a farm node can take; met when the last of them is so."""

    NAME, TITLE, READS = "everything", "Every kind of step has been taken", frozenset()

    def __init__(self, nodes: Sequence[FaultNode], source: Path) -> None:
        self.roots = {node.name: node.root for node in nodes}
        self.source = source

    def decide(self, facts, node, fleet):
        missing = [n for n in ("etc/d/new", "last") if facts.managed_file(n) is None]
        if missing:
            return Decision(
                self.NAME, Status.UNMET, f"missing: {', '.join(missing)}", steps=self._steps(facts, node)
            )
        return Decision(self.NAME, Status.MET, "all is there")

    def _steps(self, facts, node) -> tuple[Step, ...]:
        root = self.roots[node.name]
        mark = str(root / "mark")
        return (
            WriteFile("a new file", f"{root}/etc/d/new", "new\n"),
            WriteFile("an old file", f"{root}/old", "changed\n", 0o640),
            WriteBlock("a block", f"{root}/keys", "mesh", "one\ntwo\n"),
            WriteFile("a file behind a link", f"{root}/link", "through the link\n"),
            WriteValue("a value", f"{root}/value", "b", "a"),
            PutTree("a tree", str(self.source), f"{root}/tree"),
            SetRegister("a register", "0000:01:00.0", "ECAP_ACS+6.w", "0011", "001d"),
            LoadModule("a module", "a_module"),
            InstallPackages("a package", "apt", ("pciutils", "present")),
            EnableUnit("a unit", "x.service"),
            Command("a command", ("touch", mark), ("rm", "-f", mark), ("test", "-e", mark)),
            RestartUnit("a restart", "x.service"),
            MakeVenv("a venv", f"{root}/opt/venv", f"{root.parent}/python3", "made a", "", ("a",)),
            WriteBlock("a block in a new file", f"{root}/last", "mesh", "last\n", mode=0o600),
        )


class Wanted:
    """A requirement of given steps, a list for each round; met when the file ``proof`` holds the last of its texts.

    A round's steps are asked for once ``proof`` has the lines of the rounds before.
    """

    NAME, TITLE, READS = "wanted", "What was asked for is there", frozenset()

    def __init__(self, *rounds: Sequence[Step], proof: str = "proof") -> None:
        self.rounds, self.proof = rounds, proof

    def decide(self, facts, node, fleet):
        done = self._done(facts)
        if done >= len(self.rounds):
            return Decision(self.NAME, Status.MET, "done")
        return Decision(
            self.NAME,
            Status.UNMET,
            f"round {done + 1} of {len(self.rounds)} is to come",
            steps=self._steps(facts, node),
        )

    def _steps(self, facts, node) -> tuple[Step, ...]:
        return tuple(self.rounds[self._done(facts)])

    def _done(self, facts) -> int:
        return len((facts.managed_file(self.proof) or "").splitlines())


def engine(
    nodes: Sequence[FaultNode],
    requirement: object,
    *,
    names: Sequence[str] = ("etc/d/new", "last"),
    connector: Connector | None = None,
    **options: object,
) -> Engine:
    """Return an engine over the nodes; facts that never change are gathered once, the requirement's each time."""
    connector = connector or Connector(connect_timeout_s=15.0)
    folders = {node.name: node.root for node in nodes}
    known: dict[str, NodeFacts] = {}

    def look(node, transport):
        if node.name not in known:
            known[node.name] = gather(transport, node, timeout_s=60)
        script = 'cd "$1" && shift && for f; do [ ! -f "$f" ] || wc -l "$f"; done'
        there = transport.run(
            ("sh", "-c", script, "sh", str(folders[node.name]), *names), as_root=True
        ).text.splitlines()
        files = tuple(ManagedFile(line.split()[1], "line\n" * int(line.split()[0])) for line in there)
        return dataclasses.replace(known[node.name], managed_files=files)

    settings = {"return_wait_s": 5.0, "fanout": 8, "timeout_s": 60.0, **options}
    return Engine(
        connect=connector,
        gather=lambda inventory: fan_out(inventory.nodes, connector, look),
        requirements={requirement.NAME: requirement},  # type: ignore[attr-defined,dict-item]
        **settings,  # type: ignore[arg-type]
    )
