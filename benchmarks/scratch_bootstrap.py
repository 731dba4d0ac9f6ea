"""A controller that writes ten files and runs five commands on every node, by clusterctl's own bootstrap.

All of it happens below a scratch directory, a subdirectory for each node, because the nodes of the benchmarks share
this machine's file system.

    python scratch_bootstrap.py INVENTORY DIRECTORY RUNS   (prints how many nodes have everything in the end)
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from pathlib import Path

from clusterctl.apply import bootstrap
from clusterctl.apply.engine import Engine
from clusterctl.apply.journal import Options
from clusterctl.cli.session import Session, session_of
from clusterctl.facts.gather import gather
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.model.services import ManagedFile
from clusterctl.inventory import load
from clusterctl.inventory.model import Inventory, Node
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.fleet.view import Fleet
from clusterctl.requirements.steps import Command, Step, WriteFile
from clusterctl.rundir import RunDir
from clusterctl.transport.base import HostMap, Transport
from clusterctl.transport.fanout import fan_out
from clusterctl.transport.kept import Kept

FILES = tuple(f"file-{number}.conf" for number in range(10))
MARKS = tuple(f"mark-{number}" for number in range(5))


def content(name: str, node: str) -> str:
    """Return what a file has to hold: about a kilobyte, as a configuration file has."""
    return "".join(f"# {name} of {node}, line {line}\n" for line in range(30))


class Scratch:
    """Wants the files and the commands' marks below DIRECTORY/<node>."""

    NAME, TITLE, READS = "scratch", "Ten files and five marks are there", frozenset({"configuration"})

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def decide(self, facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
        """Compare the files' texts and look for the marks."""
        there = {file.path: file.text for file in facts.managed_files}
        missing = [name for name in FILES if there.get(name) != content(name, node.name)]
        missing += [name for name in MARKS if name not in there]
        if missing:
            return Decision(
                self.NAME, Status.UNMET, f"missing: {', '.join(missing)}", steps=self._steps(node)
            )
        return Decision(self.NAME, Status.MET, "everything is there")

    def _steps(self, node: Node) -> tuple[Step, ...]:
        folder = self.folder / node.name
        files = (WriteFile(f"write {name}", str(folder / name), content(name, node.name)) for name in FILES)
        marks = (
            Command(f"touch {name}", ("touch", str(folder / name)), ("rm", "-f", str(folder / name)),
                    ("test", "-e", str(folder / name)))
            for name in MARKS
        )  # fmt: skip
        return (*files, *marks)


def look(session: Session, folder: Path, kept: Kept) -> Callable[[Inventory], HostMap[NodeFacts]]:
    """Return what gathers the facts of all nodes, with the scratch files instead of the managed ones.

    As ``Session.gather`` does: over connections that are kept, and with one program for all files.
    """

    def one(node: Node, transport: Transport) -> NodeFacts:
        facts = gather(transport, node, timeout_s=120, subjects=Scratch.READS)
        paths = [str(folder / node.name / name) for name in (*FILES, *MARKS)]
        found = transport.run(("head", "-v", "-c", "65536", *paths)).text
        files = re.findall(r"==> ([^\n]*) <==\n(.*?)(?:\n(?===> )|\Z)", found, re.DOTALL)
        return dataclasses.replace(
            facts, managed_files=tuple(ManagedFile(Path(path).name, text) for path, text in files)
        )

    connect = kept.over(session.connect)
    return lambda inventory: fan_out(
        inventory.nodes, connect, one, fanout=session.fanout, release=kept.release
    )


def main() -> None:
    """Bootstrap once."""
    inventory, folder, runs = (Path(word) for word in sys.argv[1:])
    loaded = load.load(inventory)
    session = session_of(loaded)
    kept = Kept(len(loaded.nodes))
    engine = Engine(
        connect=session.connect,
        gather=look(session, folder, kept),
        fanout=session.fanout,
        timeout_s=120,
        requirements={"scratch": Scratch(folder)},
        state_dir=str(folder / "state"),
        subjects=Scratch.READS,
        kept=kept,
    )
    run = RunDir.create("bootstrap", runs)
    prepared = bootstrap.prepare(engine, loaded, Options(), run)
    result = bootstrap.apply(engine, prepared, run)
    kept.drop()
    met = [v for v in result.verdicts.values_by_node.values() if v[0].status is Status.MET]
    print(len(met))
    if len(met) != len(loaded.nodes):
        sys.exit(1)


if __name__ == "__main__":
    main()
