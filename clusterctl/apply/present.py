"""Read the files that a plan changes, as the nodes have them, for the diffs that people see."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping

from clusterctl.apply.engine import Engine
from clusterctl.apply.plan.file_diff import Present
from clusterctl.apply.plan.model import NodePlan, Plan
from clusterctl.apply.watch import SILENT, StepWatch
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Inventory, Node
from clusterctl.requirements.steps import WriteBlock, WriteFile
from clusterctl.text.foreign import NotUnderstood, whole
from clusterctl.transport.base import HostMap, Transport
from clusterctl.transport.fanout import fan_out

FILE_BYTES = 64 * 1024
"""Of a larger file only the size is read."""
_TIMEOUT_S = 30.0
_SCRIPT = """
limit=$1
shift
for file; do
  if [ -f "$file" ]; then
    mode=$(stat -L -c %a "$file") size=$(stat -L -c %s "$file") text=-
    [ "$size" -gt "$limit" ] || text=$(head -c "$limit" "$file" | base64 | tr -d '\\n')
    echo "@file $mode $size ${text:-=}"
  elif [ -e "$file" ] || [ -h "$file" ]; then
    echo '@other'
  else
    echo '@absent'
  fi
done
"""


def paths_of(plan: NodePlan) -> tuple[str, ...]:
    """Return the files that a node's steps write, each once."""
    return tuple(
        dict.fromkeys(p.step.path for p in plan.steps if isinstance(p.step, (WriteFile, WriteBlock)))
    )


def read(
    engine: Engine, inventory: Inventory, facts: HostMap[NodeFacts], plan: Plan, watch: StepWatch = SILENT
) -> Mapping[str, Mapping[str, Present]]:
    """Return by node and path the files that a plan changes: one command per node, over a kept connection if possible.

    A file is missing in the result if it could not be read. Nodes without root access are not asked, because a
    directory that is closed to the login would look empty.
    """
    wanted = {node.node: paths_of(node) for node in plan.nodes}
    rooted = {name for name, found in facts.values_by_node.items() if found.root.available}
    nodes = [node for node in inventory.nodes if wanted.get(node.name) and node.name in rooted]

    def work(node: Node, transport: Transport) -> Mapping[str, Present]:
        paths = wanted[node.name]
        done = transport.run(
            ("sh", "-s", "--", str(FILE_BYTES), *paths),
            stdin=_SCRIPT.encode(),
            timeout_s=min(engine.timeout_s, _TIMEOUT_S),
            as_root=True,
        )
        return parse(done.text, paths)

    if not nodes:
        return {}
    kept = engine.kept
    answers = fan_out(
        nodes, kept.over(engine.connect), work, fanout=engine.fanout, release=kept.release,
        on_start=lambda node: watch.begun(node.name), on_done=lambda node, _: watch.ended(node.name),
    )  # fmt: skip
    return answers.values_by_node


def parse(text: str, paths: Iterable[str]) -> dict[str, Present]:
    """Return the files in an answer of the script; an answer with another number of lines gives none."""
    lines = [line for line in text.splitlines() if line.startswith("@")]
    names = tuple(paths)
    if len(lines) != len(names):
        return {}
    found = {path: _file(line.split()) for path, line in zip(names, lines, strict=True)}
    return {path: file for path, file in found.items() if file is not None}


def _file(words: list[str]) -> Present | None:
    if words == ["@absent"]:
        return Present(exists=False)
    if words[0] != "@file" or len(words) != 4:
        return None
    try:
        mode, size = whole(words[1]), whole(words[2])
        if not 0 <= mode <= 7777 or size < 0:
            return None
        return Present(True, _text(words[3]), int(words[1], 8), size)
    except (NotUnderstood, ValueError):
        return None


def _text(word: str) -> str | None:
    """Return the text in a word of base64; None for a file that was too large or is not text."""
    if word == "-":
        return None
    try:
        text = base64.b64decode("" if word == "=" else word, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return None if "\0" in text else text
