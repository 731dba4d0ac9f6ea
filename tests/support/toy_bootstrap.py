"""A bootstrap whose one requirement wants a few files below a scratch directory: real nodes, nothing of value at stake.

As a program (``toy_bootstrap.py INVENTORY ROOT RUNS``) it is a controller that a test can kill.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from clusterctl.apply import bootstrap
from clusterctl.apply.bootstrap import Engine
from clusterctl.apply.journal import Options
from clusterctl.facts.gather import gather
from clusterctl.facts.model.services import ManagedFile
from clusterctl.inventory import load
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.steps import Command, WriteFile
from clusterctl.rundir import RunDir
from clusterctl.transport.connect import Connector
from clusterctl.transport.fanout import fan_out
from clusterctl.transport.kept import Kept

FILES = ("etc/one.conf", "etc/two.conf", "etc/three.conf")


class Toy:
    """Wants ROOT/<node>/etc/{one,two,three}.conf, and between them a command that takes ``slow_s`` seconds."""

    NAME, TITLE, READS = "toy", "The files are there", frozenset()

    def __init__(self, root: Path, slow_s: float = 0.0) -> None:
        self.root, self.slow_s = root, slow_s

    def decide(self, facts, node, fleet):
        missing = [name for name in FILES if facts.managed_file(name) != f"{name} of {node.name}\n"]
        if missing:
            return Decision(
                self.NAME, Status.UNMET, f"missing: {', '.join(missing)}", steps=self._steps(facts, node)
            )
        return Decision(self.NAME, Status.MET, "all files are there")

    def _steps(self, facts, node):
        folder = self.root / node.name
        one, two, three = (
            WriteFile(f"write {name}", str(folder / name), f"{name} of {node.name}\n") for name in FILES
        )
        mark = str(folder / "mark")
        slow = Command(
            "take a while",
            ("sh", "-c", f"sleep {self.slow_s} && touch {mark}"),
            ("rm", "-f", mark),
            ("test", "-e", mark),
        )
        return (one, slow, two, three)


def engine(
    root: Path,
    *,
    slow_s: float = 0.0,
    connect_timeout_s: float = 15.0,
    kept: Kept | None = None,
    subjects: frozenset[str] | None = None,
) -> Engine:
    """Return an engine whose nodes keep files and journal below ``root``, reached by real transports."""
    connector = Connector(connect_timeout_s=connect_timeout_s)
    kept = kept or Kept()

    def look(node, transport):
        facts = gather(transport, node, timeout_s=60)
        script = 'for f in "$@"; do [ ! -f "$f" ] || { printf "%s\\n" "$f"; cat "$f"; }; done'
        paths = [str(root / node.name / name) for name in FILES]
        lines = transport.run(("sh", "-c", script, "sh", *paths)).text.splitlines(keepends=True)
        found = {lines[i].strip(): lines[i + 1] for i in range(0, len(lines) - 1, 2)}
        files = tuple(
            ManagedFile(name, found[path]) for name, path in zip(FILES, paths, strict=True) if path in found
        )
        return dataclasses.replace(facts, managed_files=files)

    return Engine(
        connect=connector,
        gather=lambda inventory: fan_out(inventory.nodes, kept.over(connector), look, release=kept.release),
        fanout=8,
        timeout_s=60,
        requirements={"toy": Toy(root, slow_s)},
        state_dir=str(root / "state"),
        kept=kept,
        subjects=subjects,
    )


def main(inventory: str, root: str, runs: str) -> None:
    made = engine(Path(root), slow_s=2.0)
    run = RunDir.create("bootstrap", Path(runs))
    prepared = bootstrap.prepare(made, load.load(Path(inventory)), Options(), run)
    bootstrap.apply(made, prepared, run)


if __name__ == "__main__":
    main(*sys.argv[1:])
