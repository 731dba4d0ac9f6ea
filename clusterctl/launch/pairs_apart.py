"""Run pairs of nodes as launches of their own, each with its own deadline: a hanging pair ends only itself.

The controller starts every rank over its own connections, so that neither a launcher nor SSH between the nodes can be
what fails.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.documents.evidence import PairAlone, PairsAlone
from clusterctl.errors import ClusterctlError
from clusterctl.inventory import nodeset
from clusterctl.inventory.model import Node
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.preflight import Readiness
from clusterctl.launch.run import Runner
from clusterctl.text.foreign import is_whole, whole
from clusterctl.transport.answers import understanding
from clusterctl.transport.base import Transport
from clusterctl.trust import dead_pairs
from clusterctl.workloads.locate import rounds

DEADLINE_S = 40.0
_ANSWER_S = 30.0
_LONGEST_WORDS = 200
_KILLED = (124, 137)
"""Exit statuses of ``timeout`` after its deadline."""
_RANKS = """
unset OMPI_COMM_WORLD_RANK PMI_RANK SLURM_PROCID TORCHELASTIC_RUN_ID
clock=
if command -v timeout >/dev/null 2>&1; then clock="timeout -s KILL $LIMIT_S"; fi
cd "$DIRECTORY" || exit
# Nodes that share this directory run pairs at the same time.
own=$(mktemp -d "$DIRECTORY/apart-XXXXXX") || exit
for rank in $OWN_RANKS; do
  { RANK=$rank LOCAL_RANK=$local_rank $clock "$@" </dev/null >/dev/null 2>"$own/$rank.txt"
    echo "$?" >"$own/$rank.status"; } &
  local_rank=$((local_rank + 1))
done
wait
for rank in $OWN_RANKS; do
  printf '%s\\t%s\\t' "$rank" "$(cat "$own/$rank.status")"
  grep . "$own/$rank.txt" | tail -n 1 | cut -c 1-200 | grep . || echo
done
rm -rf "$own"
"""

PlanPair = Callable[[Sequence[Readiness]], LaunchPlan]


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How one rank of a pair ended: its exit status and its last words."""

    rank: int
    status: int
    words: str


def run(
    answers: Sequence[Readiness], plan: PlanPair, runner: Runner, say: Callable[[str], None]
) -> PairsAlone:
    """Run rounds of pairs until the failed ones lead to a node or link, or all rounds are done.

    ``plan`` returns the launch of two nodes. A pair whose launch cannot be planned counts as not run.
    """
    planned = rounds.rounds(len(answers))
    if len(answers) <= 1 + len(planned):
        planned = planned[: len(answers) - 1 + len(answers) % 2]  # each pair once
    ends: list[PairAlone] = []
    found = PairsAlone()
    for number, pairs in enumerate(planned, 1):
        say(f"pairs of nodes as launches of their own, round {number} of at most {len(planned)}")
        ends += _round([(answers[low], answers[high]) for low, high in pairs], plan, runner)
        found = dead_pairs.judge(ends)
        if found.is_explained and number >= dead_pairs.LEAST_PARTNERS:
            break
    return found


def _round(pairs: Sequence[tuple[Readiness, Readiness]], plan: PlanPair, runner: Runner) -> list[PairAlone]:
    """Run disjoint pairs at the same time."""
    plans: dict[str, LaunchPlan] = {}
    names: list[tuple[str, str]] = []
    for pair in pairs:
        try:
            launch = plan(pair)
        except ClusterctlError:
            continue
        first, second = (answer.node.name for answer in pair)
        names.append((first, second))
        plans |= {first: launch, second: launch}

    def work(node: Node, transport: Transport) -> tuple[RankEnd, ...]:
        done = transport.run(
            ("sh", "-s"),
            stdin=script(plans[node.name], node.name),
            timeout_s=plans[node.name].timeout_s + _ANSWER_S,
        )
        with understanding(node.name, "how its ranks ended"):
            return parse(done.text)

    outcome = runner.each(tuple(plans), work)
    ended: dict[str, str | None] = {name: one.message for name, one in outcome.failures.items()}
    for name, ranks in outcome.values_by_node.items():
        ended[name] = _why(name, ranks, plans[name])
    return [PairAlone(pair, ended[pair[0]] or ended[pair[1]]) for pair in names]


def _why(name: str, ranks: Sequence[RankEnd], plan: LaunchPlan) -> str | None:
    """Return why the ranks of a node failed; None if all of them succeeded."""
    own = [rank for rank, node in enumerate(plan.node_of_rank) if node == name]
    if sorted(one.rank for one in ranks) != own:
        return f"{name} did not report how its ranks ended"
    bad = [one for one in ranks if one.status != 0]
    if not bad:
        return None
    said = next((one for one in bad if one.status not in _KILLED), None)
    if said is None:
        return f"did not end within {plan.timeout_s:g} s"
    return f"rank {said.rank} on {name} ended with status {said.status}: {said.words or 'no output'}"


def script(plan: LaunchPlan, node: str) -> bytes:
    """Return sh text that runs the ranks of one node and prints how each ended; secrets stay on standard input."""
    own = [rank for rank, name in enumerate(plan.node_of_rank) if name == node]
    variables = {
        **{name: value for name, value in plan.marked_env.items() if value is not None},
        **dict(plan.secrets),
        "WORLD_SIZE": str(plan.np),
        "LOCAL_WORLD_SIZE": str(len(own)),
    }
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    settings = (
        f"LIMIT_S={math.ceil(plan.timeout_s)}\nDIRECTORY={shlex.quote(plan.directory)}\n"
        f"OWN_RANKS='{' '.join(map(str, own))}'\nlocal_rank=0\nset -- {shlex.join(plan.program)}\n"
    )
    return (exports + settings + _RANKS).encode()


def parse(text: str) -> tuple[RankEnd, ...]:
    """Parse how the ranks of a node ended; malformed lines are skipped."""
    found = []
    for line in text.splitlines():
        words = line.split("\t", 2)
        if len(words) == 3 and is_whole(words[0]) and is_whole(words[1]):
            found.append(RankEnd(whole(words[0]), whole(words[1]), words[2].strip()[:_LONGEST_WORDS]))
    return tuple(found)


def explained(causes: Sequence[Fault], found: PairsAlone) -> tuple[Fault, ...]:
    """Return the faults with the name that the pairs lead to, or with the reason why they lead to none."""
    kind = causes[0].kind if causes else FaultKind.DEADLINE
    named = [
        Fault(
            kind,
            f"{node} fails with each partner that works with other nodes: {_first(found, node)}",
            node=node,
            hint=f"exclude it with --limit, and look at {node}: its processes, GPUs, NICs and kernel log",
        )
        for node in found.nodes
    ]
    named += [
        Fault(
            kind,
            f"{one} and {other} fail with each other and work with other nodes: the path between them: "
            f"{_first(found, one, other)}",
            hint="check the switch, the routes and the MTU between these two nodes",
        )
        for one, other in found.links
    ]
    return (
        *(replace(cause, hint=cause.hint if not named else None) for cause in causes),
        *named,
        *_open(kind, found),
    )


def _first(found: PairsAlone, *nodes: str) -> str:
    return next((one.why for one in found.pairs if one.why and set(nodes) <= set(one.nodes)), "")


def _open(kind: FaultKind, found: PairsAlone) -> list[Fault]:
    if found.open:
        pairs = ", ".join(f"{one} and {other}" for one, other in found.open[:4])
        more = ", ..." if len(found.open) > 4 else ""
        return [Fault(kind, f"these pairs of nodes fail alone, too: {pairs}{more}; which node is not known",
                      hint="three nodes that work with each other are needed to name the failing one")]  # fmt: skip
    if found.pairs and not found.nodes and not found.links:
        names = sorted({node for one in found.pairs for node in one.nodes})
        run, all_ = len({frozenset(one.nodes) for one in found.pairs}), len(names) * (len(names) - 1) // 2
        if run < all_:
            what = f"{run} of {all_} pairs of {nodeset.fold(names)} were run, and each works alone"
        else:
            what = f"every pair of {nodeset.fold(names)} works alone: only all of them together fail"
        return [Fault(kind, what, hint="halve the nodes with --limit until the failure is gone")]
    return []
