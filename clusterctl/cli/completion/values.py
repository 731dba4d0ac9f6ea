"""Complete the values of options and arguments; the metavar of a parameter says which kind of value it takes.

A completion must answer within a fraction of a second, so the inventory is only searched for names, and names that
are defined in slow modules are repeated here; a test compares them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LIBRARIES = ("nccl", "gloo", "ccore", "nccl+ccore", "accl", "acspeed", "aiacc", "horovod", "lightcc")
LAUNCHERS = ("openmpi", "mpich", "torchrun", "srun", "local")
STATUSES = (
    *("running", "interrupted", "ok", "failed", "unmet", "planned", "changed", "named", "unfinished"),
    *("below-baseline", "below-threshold", "not-judged", "doubtful", "up", "removed", "unreadable"),
)
FILES, DIRECTORIES = "files", "directories"
_MOST_RUNS = 50
_RUNS_OF = {"undo": ("bootstrap",), "bootstrap": ("bootstrap",), "exec": ("up",), "down": ("up",)}
"""The commands whose RUN is a run of one other command."""

Values = Mapping[str, str]
"""Values with their descriptions, which may be empty."""


@dataclass(frozen=True)
class Typed:
    """Hold what the command line already says: its command, and its options and arguments with values."""

    path: tuple[str, ...]
    """The words of the command, without ``clusterctl``."""
    given: Mapping[str, str] = field(default_factory=dict)
    """By the name of the parameter; of a repeated one, the last value."""


def _plain(names: Sequence[str]) -> Values:
    return dict.fromkeys(names, "")


def _inventory(typed: Typed) -> str:
    named = typed.given.get("inventory") or typed.given.get("inventory_option")
    return named or os.environ.get("CLUSTERCTL_INVENTORY") or "inventory.yaml"


def _nodes_and_groups(typed: Typed) -> tuple[list[str], list[str]]:
    """Return the names in the inventory, without checking it."""
    from clusterctl.errors import ClusterctlError
    from clusterctl.inventory import nodeset, yaml_source
    from clusterctl.inventory.field_types import NODE_NAME

    path = _inventory(typed)
    try:
        if not os.path.exists(path):  # noqa: PTH110 - Path.exists raises for directories of other users
            return list(nodeset.expand(path.rpartition("@")[2])) if "@" in path else [], []
        document = yaml_source.read(Path(path)).value
        listed, groups = document.get("nodes"), document.get("groups")
        entries = listed if isinstance(listed, list) else ()
        folded = [one.get("name") if isinstance(one, dict) else one for one in entries]
        nodes = [name for text in folded if isinstance(text, str) for name in nodeset.expand(text)]
        # An inventory with other names cannot be loaded, and a shell could execute such a name.
        valid = re.compile(NODE_NAME).match
        return [name for name in nodes if valid(name)], [
            name
            for name in (groups if isinstance(groups, dict) else ())
            if isinstance(name, str) and valid(name)
        ]
    except (ClusterctlError, OSError, TypeError):
        return [], []


def _node_set(typed: Typed) -> Values:
    nodes, groups = _nodes_and_groups(typed)
    return {**dict.fromkeys(groups, "group"), **dict.fromkeys(nodes, "node")}


def _nodes(typed: Typed) -> Values:
    return dict.fromkeys(_nodes_and_groups(typed)[0], "node")


def _requirements(_: Typed) -> Values:
    from clusterctl.inventory.field_types import REQUIREMENT_NAMES

    return _plain(REQUIREMENT_NAMES)


def _rows(_: Typed) -> Values:
    from clusterctl.acceptance.catalog import ROWS

    return {row.name: row.title for row in ROWS}


def _runs(typed: Typed) -> Values:
    """Return the newest runs of the command that ``RUN`` means, and ``latest``."""
    from clusterctl import run_ids, rundir

    root = Path(typed.given["runs"]) if "runs" in typed.given else None
    of_benchmarks = typed.path[:1] == ("runs",) and typed.path[1:2] in (("compare",), ("baseline",))
    verbs = run_ids.BENCHMARKS if of_benchmarks else _RUNS_OF.get(typed.path[0], ()) if typed.path else ()
    found = rundir.ids(root, verbs)[:_MOST_RUNS]
    described = {run: _began(run) for run in found}
    return {run_ids.LATEST: "the newest run", **described} if found else {}


def _began(run: str) -> str:
    from clusterctl import run_ids

    began = run_ids.started_at(run)
    shown = "" if began is None else began.astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{run_ids.verb_of(run)} {shown}".strip()


def _verbs(_: Typed) -> Values:
    from clusterctl.runs.outcome import VERBS

    return _plain(VERBS)


def _collectives(_: Typed) -> Values:
    from clusterctl.benchmarks.collective import COLLECTIVES

    return _plain(COLLECTIVES)


def _datatypes(_: Typed) -> Values:
    from clusterctl.benchmarks.collective import DATATYPES

    return _plain(DATATYPES)


def _operators(_: Typed) -> Values:
    from clusterctl.benchmarks.collective import OPERATORS

    return _plain(OPERATORS)


def _models(_: Typed) -> Values:
    from clusterctl.benchmarks.model_names import MODELS

    return _plain(MODELS)


def _baselines(typed: Typed) -> Values:
    from clusterctl import rundir

    root = Path(typed.given["runs"]) if "runs" in typed.given else rundir.default_root()
    suffix = ".baseline.json"
    return _plain(sorted(path.name.removesuffix(suffix) for path in (root / "baselines").glob(f"*{suffix}")))


BY_METAVAR: dict[str, Callable[[Typed], Values] | str] = {
    "INVENTORY": FILES,
    "FILE": FILES,
    "PATH": FILES,
    "SOURCE": FILES,
    "LOGFILE": FILES,
    "DIR": DIRECTORIES,
    "NODESET": _node_set,
    "NODE": _nodes,
    "REQUIREMENT": _requirements,
    "ROW": _rows,
    "RUN": _runs,
    "VERB": _verbs,
    "COLLECTIVE": _collectives,
    "TYPE": _datatypes,
    "OP": _operators,
    "MODEL": _models,
    "BENCHMARK": lambda typed: {**_collectives(typed), **_models(typed)},
    "LIBRARY": lambda _: _plain(LIBRARIES),
    "A,B": lambda _: _plain(LIBRARIES),
    "LAUNCHER": lambda _: _plain(LAUNCHERS),
    "STATUS": lambda _: _plain(STATUSES),
    "BASELINE": _baselines,
}
"""What completes the value of a parameter: a function, or the shell's own completion of files or directories."""


def kind_of(metavar: str) -> str:
    """Return the kind of a value: ``RUN RUN...`` is ``RUN``, ``REQUIREMENT,..`` is ``REQUIREMENT``."""
    return metavar.partition(" ")[0].removesuffix("...").removesuffix(",..")


def is_list(metavar: str) -> bool:
    """Return whether the value is a list with commas."""
    return metavar.endswith(",..") or metavar == "NODESET"
